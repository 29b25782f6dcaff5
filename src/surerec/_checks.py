"""Checks that several rooms make alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_offsets(offsets: NDArray[np.int64], end: int) -> None:
    """Raise ValueError unless offsets lead from 0 to `end` and never back.

    Examples
    --------
    >>> check_offsets(np.array([0, 2, 2, 5]), 5)
    """
    if offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
        raise ValueError("offsets lead outside")


def check_whole(name: str, value: object, lowest: int = 1) -> int:
    """Give a whole number of at least `lowest`, or refuse the setting by its name.

    Examples
    --------
    >>> check_whole("k", np.int64(3))
    3
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < lowest:
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least {lowest}.")
    return int(value)
