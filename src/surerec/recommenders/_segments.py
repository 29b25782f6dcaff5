"""Groups of people that are calibrated apart: the parameter, and the groups by a column."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from surerec._checks import check_whole
from surerec.errors import InputError
from surerec.futures import codes_in
from surerec.interactions import UserGroups, read_user_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics

_MOST: Final = 10_000
_PART: Final = "user_groups"  # the name of the parts that hold them
Groups: TypeAlias = "int | str | tuple[str, int] | list[str | int]"
"""How many groups by the number of known items; or a column of people's own; or both."""


def parse_groups(groups: object) -> tuple[str | None, int]:
    """Give the column of people's own, if there is one, and how many groups by known items.

    Examples
    --------
    >>> parse_groups(3), parse_groups("country"), parse_groups(("country", 3))
    ((None, 3), ('country', 1), ('country', 3))
    """
    if isinstance(groups, str) and groups.strip():
        return groups, 1
    if isinstance(groups, (tuple, list)):
        if len(groups) == 2 and isinstance(groups[0], str) and groups[0].strip():  # noqa: PLR2004
            return groups[0], check_whole("the number in groups", groups[1], highest=_MOST)
    elif not isinstance(groups, str):
        return None, check_whole("groups", groups, highest=_MOST)
    raise InputError(
        f"groups is {groups!r}; it must be a number of groups by known items, the name of a column "
        'of the people\'s own, such as "country", or both, such as ("country", 3).'
    )


def stored_groups(groups: object) -> object:
    """Return the parameter as a model folder keeps it."""
    return list(groups) if isinstance(groups, tuple) else groups


def read_groups(groups: object, given: Any, interactions: Interactions) -> UserGroups | None:
    """Look up the group of each user; None where there are none by a column."""
    column = parse_groups(groups)[0]
    if column is None and given is not None:
        raise InputError(
            "user_groups was given, and groups is a number: name their column, as in "
            'groups="country".'
        )
    if column is None or given is None:
        return None
    return read_user_groups(given, column, interactions.users)


def renewed_groups(
    before: UserGroups, given: Any, past: PrecedenceStatistics, now: Interactions
) -> UserGroups:
    """Give the groups of users as they are now: those given, else those that they had."""
    if given is not None:
        return read_user_groups(given, before.column, now.users)
    return before if past.interactions is now else before.moved(codes_in(past, now)[0])


def groups_by_id(groups: UserGroups, interactions: Interactions) -> dict[Any, str | None]:
    """Give the group of each user by id."""
    return {user: groups.label(code) for code, user in enumerate(interactions.users.ids)}


def groups_to_parts(
    groups: UserGroups | None,
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Give the arrays and the texts that a model folder keeps of groups."""
    if groups is None:
        return {}, {}
    return {_PART: groups.codes}, {_PART: json.dumps(groups.names, ensure_ascii=False)}


def groups_from_texts(
    groups: object, texts: Mapping[str, str]
) -> tuple[UserGroups | None, dict[str, str]]:
    """Read the names of groups, of nobody yet, and give the other texts; ValueError if wrong."""
    rest = {name: text for name, text in texts.items() if name != _PART}
    column = parse_groups(groups)[0]
    if (column is None) != (_PART not in texts):
        raise ValueError("its groups are missing, or not its own")
    if column is None:
        return None, rest
    names = json.loads(texts[_PART])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the names of its groups are not a list of texts")
    return UserGroups(column, tuple(names), np.empty(0, dtype=np.int32)), rest


def groups_from_arrays(
    named: UserGroups | None, arrays: Mapping[str, NDArray[Any]], n_users: int
) -> tuple[UserGroups | None, dict[str, NDArray[Any]]]:
    """Read everybody's groups, whose names were read before, and give the other arrays."""
    rest = dict(arrays)
    if named is None:
        return None, rest
    codes = rest.pop(_PART)
    if (
        codes.shape != (n_users,)
        or codes.dtype.kind != "i"
        or codes.min(initial=0) < -1
        or codes.max(initial=-1) >= len(named.names)
    ):
        raise ValueError("the groups are not those of its users")
    return replace(named, codes=codes), rest
