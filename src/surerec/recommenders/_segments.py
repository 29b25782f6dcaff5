"""Groups of people that are calibrated apart: the parameter, and the groups by a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from surerec._checks import check_whole
from surerec.calibration import codes_in
from surerec.errors import InputError
from surerec.interactions import UserGroups, read_user_groups

if TYPE_CHECKING:
    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics

_MOST: Final = 10_000
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
