"""Checks that several rooms make alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._kernels import first_bad_profile
from surerec._shown import shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST: Final = 2**63 - 1
"""The largest whole number that kernels know."""


def check_offsets(offsets: NDArray[np.int64], end: int) -> None:
    """Raise ValueError unless offsets lead from 0 to `end` and never back.

    Examples
    --------
    >>> check_offsets(np.array([0, 2, 2, 5]), 5)
    """
    # Compared, not subtracted: the difference of two damaged ones may be too large for its type.
    falls = not len(offsets) or bool((offsets[1:] < offsets[:-1]).any())
    if falls or offsets[0] != 0 or offsets[-1] != end:
        raise ValueError("offsets lead outside")


def check_profiles(offsets: NDArray[np.int64], items: NDArray[np.uint32], n_items: int) -> None:
    """Raise ValueError unless these are profiles: no item twice, and none that is not there.

    Kernels keep room for each item once, and do not look where they write.

    Examples
    --------
    >>> check_profiles(np.array([0, 2, 3]), np.array([0, 1, 1], dtype=np.uint32), 2)
    """
    check_offsets(offsets, len(items))
    if first_bad_profile(offsets, items, n_items) >= 0:
        raise ValueError("a profile has an item twice, or one that is not there")


def check_whole(name: str, value: object, lowest: int = 1, highest: int = MOST) -> int:
    """Give a whole number from `lowest` to `highest`, or refuse the setting by its name.

    Examples
    --------
    >>> check_whole("k", np.int64(3))
    3
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < lowest:
        raise InputError(
            f"{name} is {shown(value)}; it must be a whole number of at least {lowest}."
        )
    if value > highest:
        raise InputError(
            f"{name} is {shown(value)}; it must be a whole number of at most {highest:,}."
        )
    return int(value)
