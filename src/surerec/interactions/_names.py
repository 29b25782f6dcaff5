"""Finding the columns by their usual names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ROLES: Final = ("user", "item", "time", "rating")
_OPTIONAL: Final = ("rating", "genres")
_NUMBER: Final = re.compile(r'[\s"]*[+-]?\.?\d')  # or a date
_SHOWN: Final = 12  # names of columns in a message

_IDS: Final = ("id", "", "no", "nr", "number", "key", "code", "uuid", "guid", "hash")
_PEOPLE: Final = (
    "user", "customer", "client", "visitor", "member", "account", "person", "reviewer", "reader",
    "viewer", "listener", "player", "buyer", "shopper", "subscriber", "student", "author", "device",
    "household", "session", "basket",
)  # fmt: skip
_THINGS: Final = (
    "item", "product", "sku", "article", "movie", "film", "book", "course", "track", "song",
    "artist", "album", "game", "app", "video", "show", "series", "episode", "podcast", "channel",
    "recipe", "dish", "restaurant", "hotel", "listing", "offer", "business", "place", "poi",
    "venue", "content", "document", "paper", "page", "post", "news", "story", "stock", "material",
)  # fmt: skip
_INSTANTS: Final = ("at", "on", "date", "time", "datetime", "timestamp", "ts", "")
_DONE: Final = (
    "purchased", "bought", "ordered", "sold", "viewed", "watched", "seen", "read", "played",
    "listened", "clicked", "visited", "rated", "reviewed", "borrowed", "rented", "downloaded",
    "enrolled", "consumed", "occurred", "happened", "created", "added", "logged",
)  # fmt: skip
# "viewtime" or "playtime" would be how long it took, so that doings have a list of their own.
_EVENTS: Final = ("event", "order", "purchase", "transaction", "invoice", "review", "rating",
                  "interaction", "click", "visit", "sale", "checkin", "log")  # fmt: skip

# The likeliest first; compared without case, spaces, "_" and "-", and without RecBole's ":type".
_USUAL: Final[dict[str, tuple[str, ...]]] = {
    "user": ("userid", "user", "uid", *(noun + end for noun in _PEOPLE for end in _IDS)),
    "item": (
        "itemid", "item", "iid", "asin", "isbn", "imdbid", "tmdbid", "ean", "gtin", "upc",
        *(noun + end for noun in _THINGS for end in _IDS),
    ),
    "time": (
        "timestamp", "datetime", "tstamp", "time", "date", "ts", "unixtime", "unixreviewtime",
        "unixtimestamp", "epoch", "when",
        *(noun + end for noun in _EVENTS for end in _INSTANTS[2:-1]),
        *(verb + end for end in _INSTANTS for verb in _DONE),  # bare last: it may be yes or no
    ),
    "rating": ("rating", "weight", "score", "stars", "value", "preference", "overall"),
    "title": (
        "title", "name", *(noun + end for end in ("title", "name") for noun in _THINGS),
        "description", *(f"{noun}description" for noun in _THINGS), "label",
    ),
    "genres": ("genres",),
    "score": ("score",),
    "rank": ("rank",),
}  # fmt: skip


def _plain(name: str) -> str:
    name = name.strip().strip('"').split(":")[0]
    return "".join(c for c in name.lower() if c.isalnum())


def looks_like_header(names: Sequence[str], wanted: Mapping[str, str | None]) -> bool:
    """Check whether the fields of a first line are names of columns rather than data.

    They are if one of them was asked for, if two have different usual roles, or if none is a
    number or a date: data have at least a time.

    Examples
    --------
    >>> looks_like_header(["kunde", "artikel", "datum"], {})
    True
    >>> looks_like_header(["17", "book", "2024-05-01"], {})
    False
    """
    plain = {_plain(name) for name in names}
    if plain & {_plain(name) for name in wanted.values() if name}:
        return True
    roles = [role for role in {*ROLES, *wanted} if plain & set(_USUAL[role])]
    return len(roles) > 1 or not any(_NUMBER.match(name) for name in names)


def find_columns(
    names: Sequence[str], wanted: Mapping[str, str | None], where: str
) -> dict[str, str]:
    """Match roles to columns.

    Parameters
    ----------
    names : sequence of str
        The columns that are there.
    wanted : mapping of str to (str or None)
        For each role that is looked for the column that the caller named, None to look for it, or
        "" to take it if there is one; by default all of ``ROLES``.
    where : str
        The file or frame, for messages.

    Returns
    -------
    dict of str to str
        The column of each role; "rating", "genres", and what may be absent, only if there is one.

    Examples
    --------
    >>> find_columns(["userId", "movieId", "rating", "timestamp"], {}, "ratings.csv")
    {'user': 'userId', 'item': 'movieId', 'time': 'timestamp', 'rating': 'rating'}
    """
    found, lacking = {}, []
    for role in wanted or ROLES:
        name = wanted.get(role)
        if name:
            same = [n for n in names if name in (n, n.strip(), n.strip().split(":")[0])]
            if not same:
                raise InputError(f"{where}: there is no column {name!r}; found: {_listed(names)}.")
            found[role] = _only(role, [n for n in same if n == name] or same, where)
            continue
        by_alias: dict[str, list[str]] = {}
        for n in names:
            by_alias.setdefault(_plain(n), []).append(n)
        matches = [by_alias[alias] for alias in _USUAL[role] if alias in by_alias]
        if matches:
            found[role] = _only(role, matches[0], where)
        elif role not in _OPTIONAL and name is None:
            lacking.append(role)
    if lacking:
        raise InputError(f"{where}: {_in_words(lacking, names)}")
    return found


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name.strip()[:40]) for name in names[:_SHOWN]]
    more = [f"{len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else []
    return ", ".join(shown + more) or "none"


def _in_words(lacking: Sequence[str], names: Sequence[str]) -> str:
    """Return what is not there, what is, and how to name it."""
    them = "it" if len(lacking) == 1 else "them"
    options = " ".join(f"--{role}-column NAME" for role in lacking)
    arguments = ", ".join(f'{role}="NAME"' for role in lacking)
    said = (
        f"no {' or '.join(lacking)} column among {_listed(names)}; name {them} with {options} on "
        f"the command line, or {arguments} in read_interactions"
    )
    if "time" in lacking:
        said += ', and an empty --time-column "" where the order of the rows is that of time'
    return f"{said}."


def _only(role: str, same: Sequence[str], where: str) -> str:
    """Return the one column of a name; which of several is meant cannot be guessed."""
    if len(same) > 1:
        named = " and ".join(repr(name.strip()[:40]) for name in same[:2])
        raise InputError(
            f"{where}: {len(same)} columns may be the {role}, such as {named}; rename them so that "
            "one is left."
        )
    return same[0]
