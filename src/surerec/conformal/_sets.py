"""Which items a stated confidence lets in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from surerec._arguments import check_number, check_numbers, check_wholes, is_number
from surerec._checks import check_whole
from surerec._shown import shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


DEFAULT_CONFIDENCE = 0.9
"""What the command line and the server take where no level is given."""

MOST_LEVELS = 1e15
_BETWEEN = "numbers that are not negative, and a significance at most 1"
TOLERANCE = 1e-9
"""1 − 0.9 is a little less than 0.1 in floats."""


def in_set(counts: ArrayLike, levels: int, significance: float) -> NDArray[np.bool_]:
    """Tell which items have a p-value above the significance level ε.

    Parameters
    ----------
    counts : array-like of int
        The p-values as counts: ``p = counts / levels``.
    levels : int
        The number of levels, l + 1.
    significance : float
        ε; the confidence is 1 − ε.

    Examples
    --------
    A p-value of 0.1 is out at confidence 0.9, though ``1 - 0.9 < 0.1`` in floats:

    >>> in_set([1, 2], 10, 1 - 0.9)
    array([False,  True])
    """
    check_number("significance", significance, 0, 1, "between 0 and 1", ends=(True, True))
    border = left_out_up_to(significance, check_whole("levels", levels, lowest=0))
    return check_wholes("counts", counts) > border


def left_out_up_to(significance: ArrayLike, levels: ArrayLike) -> NDArray[np.int64]:
    """Give the highest count that ε leaves out, ⌊ε · levels⌋: every set's border (paper.md 17).

    Examples
    --------
    >>> int(left_out_up_to(1 - 0.9, 10))
    1
    """
    epsilon, of = _flat("significance", significance, 1.0), _flat("levels", levels, MOST_LEVELS)
    if epsilon.ndim and of.ndim and len(epsilon) != len(of):
        raise InputError(f"{len(epsilon):,} significances and {len(of):,} levels do not match.")
    at = epsilon * of
    return np.floor(at + TOLERANCE).astype(np.int64)


def border_of(significance: float, levels: int) -> int:
    """Give the same for one set.

    Examples
    --------
    >>> border_of(1 - 0.9, 10)
    1
    """
    check_number("significance", significance, 0, 1, "between 0 and 1", ends=(True, True))
    return math.floor(significance * levels + TOLERANCE)


def _flat(name: str, given: ArrayLike, most: float) -> NDArray[np.float64]:
    """Give a number, or a list of them, of 0 to `most`."""
    if is_number(given):
        return np.asarray(check_number(name, given, 0, most, _BETWEEN, ends=(True, True)))
    numbers = check_numbers(name, given)
    if not ((numbers >= 0) & (numbers <= most)).all():
        raise InputError(f"{name} is {shown(given)}; all of it must be {_BETWEEN}.")
    return numbers


def entry_confidence(counts: ArrayLike, levels: int) -> NDArray[np.float64]:
    """Give the confidence above which each item is in the set: 1 − p.

    An item is in the set at every confidence above this one, and not at it, so one answer serves
    every confidence that may be asked for later. One division keeps it exact to the last digit: a
    confidence written as 0.7 compares rightly with 1 − 3/10.

    Examples
    --------
    >>> entry_confidence([3, 10], 10)
    array([0.7, 0. ])
    """
    of = check_whole("levels", levels)
    return (of - check_wholes("counts", counts)) / of


def highest_confidence(n_calibration: int) -> float:
    """Give the highest confidence at which l calibration items can still leave anything out.

    The smallest p-value is ``1/(l + 1)``; above a confidence of ``l/(l + 1)`` everything is in.

    Examples
    --------
    >>> highest_confidence(9), highest_confidence(0)
    (0.9, 0.0)
    """
    n = check_whole("n_calibration", n_calibration, lowest=0)
    return n / (n + 1)


def significance_of(confidence: float | None, significance: float | None) -> float:
    """Return ε from either of the two ways to state it; by default the confidence is 0.9.

    Examples
    --------
    >>> significance_of(None, 0.1), round(significance_of(None, None), 3)
    (0.1, 0.1)
    """
    if confidence is not None and significance is not None:
        raise InputError("Give confidence or significance (1 − confidence), not both.")
    if significance is None and confidence is None:
        confidence = DEFAULT_CONFIDENCE
    name = "confidence" if significance is None else "significance"
    value = confidence if significance is None else significance
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; it must be a number between 0 and 1.")
    if not abs(value) <= MOST_LEVELS:
        raise InputError(f"{name} is {shown(value)}; it must be between 0 and 1.")
    number = float(value)
    if not 0 < number < 1:
        percent = number / 100
        hint = f"; did you mean {percent:g}?" if 1 < number < 100 else "."  # noqa: PLR2004
        raise InputError(f"{name} is {number:g}; it must be between 0 and 1{hint}")
    return number if name == "significance" else 1 - number
