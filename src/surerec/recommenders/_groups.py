"""The parameter `groups` of what is calibrated over users."""

from __future__ import annotations

from typing import Final, TypeAlias

from surerec._checks import check_whole
from surerec.errors import InputError

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
