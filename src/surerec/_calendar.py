"""Days: times are microseconds since 1970, and people think in days."""

from __future__ import annotations

from typing import Final

import numpy as np

DAY: Final = 86_400_000_000
"""Microseconds of a day."""


def day_of(time: int) -> str:
    """Give the day of an instant in microseconds since 1970.

    Examples
    --------
    >>> day_of(1_000_000_000_000_000)
    '2001-09-09'
    """
    return str(np.datetime64(time, "us").astype("datetime64[D]"))
