"""Checks that several rooms make alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

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
    if offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
        raise ValueError("offsets lead outside")


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
