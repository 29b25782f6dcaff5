"""Finding the columns by their usual names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ROLES: Final = ("user", "item", "time", "rating")

# Compared without case, spaces, "_" and "-", and without RecBole's ":type".
_USUAL: Final[dict[str, tuple[str, ...]]] = {
    "user": (
        "userid", "user", "uid", "userno", "customerid", "reviewerid", "visitorid",
        "householdid",
    ),
    "item": (
        "itemid", "item", "movieid", "movie", "iid", "productid", "asin", "bookid", "trackid",
        "artistid", "imdbid", "gameid", "appid", "isbn",
    ),
    "time": (
        "timestamp", "datetime", "tstamp", "time", "date", "ts", "unixtime", "unixreviewtime",
        "ratedat", "createdat", "unixtimestamp", "transactiontimestamp",
    ),
    "rating": ("rating", "weight", "score", "stars", "value", "preference", "overall"),
}  # fmt: skip


def _plain(name: str) -> str:
    name = name.strip().strip('"').split(":")[0]
    return "".join(c for c in name.lower() if c.isalnum())


def looks_like_header(names: Sequence[str], wanted: Mapping[str, str | None]) -> bool:
    """Tell whether the fields of a first line are names of columns rather than data."""
    usual = {alias for aliases in _USUAL.values() for alias in aliases}
    asked = {_plain(name) for name in wanted.values() if name}
    return any(_plain(name) in usual | asked for name in names)


def find_columns(
    names: Sequence[str], wanted: Mapping[str, str | None], where: str
) -> dict[str, str]:
    """Match roles to columns.

    Parameters
    ----------
    names : sequence of str
        The columns that are there.
    wanted : mapping of str to (str or None)
        For each role of ``ROLES`` the column that the caller named, None to look for it, or "" to
        take it if there is one.
    where : str
        The file or frame, for messages.

    Returns
    -------
    dict of str to str
        The column of each role; "rating", and what may be absent, only if there is one.

    Examples
    --------
    >>> find_columns(["userId", "movieId", "rating", "timestamp"], {}, "ratings.csv")
    {'user': 'userId', 'item': 'movieId', 'time': 'timestamp', 'rating': 'rating'}
    """
    found = {}
    listed = ", ".join(repr(name.strip()) for name in names) or "none"
    for role in ROLES:
        name = wanted.get(role)
        if name:
            same = [n for n in names if name in (n, n.strip(), n.strip().split(":")[0])]
            if not same:
                raise InputError(f"{where}: there is no column {name!r}; found: {listed}.")
            found[role] = _only(role, [n for n in same if n == name] or same, where)
            continue
        by_alias: dict[str, list[str]] = {}
        for n in names:
            by_alias.setdefault(_plain(n), []).append(n)
        matches = [by_alias[alias] for alias in _USUAL[role] if alias in by_alias]
        if matches:
            found[role] = _only(role, matches[0], where)
        elif role != "rating" and name is None:
            raise InputError(
                f"{where}: no {role} column among {listed}; "
                f"name it with {role}= in Python or --{role} on the command line."
            )
    return found


def _only(role: str, same: Sequence[str], where: str) -> str:
    """Give the one column of a name; which of several is meant cannot be guessed."""
    if len(same) > 1:
        named = " and ".join(repr(name.strip()[:40]) for name in same[:2])
        raise InputError(
            f"{where}: {len(same)} columns may be the {role}, such as {named}; rename them so that "
            "one is left."
        )
    return same[0]
