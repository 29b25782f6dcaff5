"""Detection of columns by standard names."""

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
_USERS: Final = (
    "user", "customer", "client", "visitor", "member", "account", "person", "reviewer", "reader",
    "viewer", "listener", "player", "buyer", "shopper", "subscriber", "student", "author", "device",
    "household", "session", "basket",
)  # fmt: skip
_ITEMS: Final = (
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
# Apart from the verbs, because "viewtime" and "playtime" are durations.
_EVENTS: Final = ("event", "order", "purchase", "transaction", "invoice", "review", "rating",
                  "interaction", "click", "visit", "sale", "checkin", "log")  # fmt: skip

# Most likely first; compared without case, spaces, "_", "-" and RecBole's ":type".
_USUAL: Final[dict[str, tuple[str, ...]]] = {
    "user": ("userid", "user", "uid", *(noun + end for noun in _USERS for end in _IDS)),
    "item": (
        "itemid", "item", "iid", "asin", "isbn", "imdbid", "tmdbid", "ean", "gtin", "upc",
        *(noun + end for noun in _ITEMS for end in _IDS),
    ),
    "time": (
        "timestamp", "datetime", "tstamp", "time", "date", "ts", "unixtime", "unixreviewtime",
        "unixtimestamp", "epoch", "when",
        *(noun + end for noun in _EVENTS for end in _INSTANTS[2:-1]),
        *(verb + end for end in _INSTANTS for verb in _DONE),  # bare last: it may be a flag
    ),
    "rating": ("rating", "weight", "score", "stars", "value", "preference", "overall"),
    "title": (
        "title", "name", *(noun + end for end in ("title", "name") for noun in _ITEMS),
        "description", *(f"{noun}description" for noun in _ITEMS), "label",
    ),
    "genres": ("genres",),
    "score": ("score",),
    "rank": ("rank",),
}  # fmt: skip


def _plain(name: str) -> str:
    name = name.strip().strip('"').split(":")[0]
    return "".join(c for c in name.lower() if c.isalnum())


def looks_like_header(names: Sequence[str], requested: Mapping[str, str | None]) -> bool:
    """Return whether the fields of a first line are column names rather than data.

    They are if one of them was requested, if two have different standard roles, or if none is a
    number or a date: data rows have at least a time.

    Examples
    --------
    >>> looks_like_header(["kunde", "artikel", "datum"], {})
    True
    >>> looks_like_header(["17", "book", "2024-05-01"], {})
    False
    """
    plain = {_plain(name) for name in names}
    if plain & {_plain(name) for name in requested.values() if name}:
        return True
    roles = [role for role in {*ROLES, *requested} if plain & set(_USUAL[role])]
    return len(roles) > 1 or not any(_NUMBER.match(name) for name in names)


def find_columns(
    names: Sequence[str], requested: Mapping[str, str | None], where: str
) -> dict[str, str]:
    """Find the column of each role.

    Parameters
    ----------
    names : sequence of str
        Column names of the source.
    requested : mapping of str to (str or None)
        For each role the column that the caller named, None to detect a required column, or "" to
        detect an optional one; by default all of ``ROLES``.
    where : str
        File or frame, for messages.

    Returns
    -------
    dict of str to str
        Column of each role; optional roles only if there is a column.

    Examples
    --------
    >>> find_columns(["userId", "movieId", "rating", "timestamp"], {}, "ratings.csv")
    {'user': 'userId', 'item': 'movieId', 'time': 'timestamp', 'rating': 'rating'}
    """
    found, missing = {}, []
    for role in requested or ROLES:
        name = requested.get(role)
        if name:
            same = [n for n in names if name in (n, n.strip(), n.strip().split(":")[0])]
            if not same:
                raise InputError(
                    f"{where}: no column {name!r}. Use one of its columns: {_listed(names)}."
                )
            found[role] = _only(role, [n for n in same if n == name] or same, where)
            continue
        by_alias: dict[str, list[str]] = {}
        for n in names:
            by_alias.setdefault(_plain(n), []).append(n)
        matches = [by_alias[alias] for alias in _USUAL[role] if alias in by_alias]
        if matches:
            found[role] = _only(role, matches[0], where)
        elif role not in _OPTIONAL and name is None:
            missing.append(role)
    if missing:
        arguments = ", ".join(f'{role}="NAME"' for role in missing)
        no_times = ', or time="" if the rows are in time order' if "time" in missing else ""
        raise InputError(
            f"{where}: no {' or '.join(missing)} column among {_listed(names)}. Pass "
            f"{arguments}{no_times}."
        )
    return found


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name.strip()[:40]) for name in names[:_SHOWN]]
    more = [f"{len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else []
    return ", ".join(shown + more) or "none"


def _only(role: str, same: Sequence[str], where: str) -> str:
    """Return the only column of a role; raise InputError if there are several."""
    if len(same) > 1:
        named = " and ".join(repr(name.strip()[:40]) for name in same[:2])
        raise InputError(
            f"{where}: {len(same)} columns may be the {role} column, such as {named}. Rename all "
            "but one."
        )
    return same[0]
