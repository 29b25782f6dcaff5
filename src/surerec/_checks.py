"""Checks of settings that several rooms make alike."""

from __future__ import annotations

import numpy as np

from surerec.errors import InputError

__all__ = ["check_whole"]


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
