"""Validity and efficiency of recommendation sets (paper.md 13 and 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._arguments import check_mask, check_wholes
from surerec._checks import check_whole
from surerec.conformal import left_out_up_to

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_LEVELS: Final = 100_000_000

EPSILONS: Final = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The significance levels of the paper's figures, 0.05 to 0.95."""


class Validity(NamedTuple):
    """For each significance level, of one user."""

    missed: NDArray[np.float64]
    """Share of the test items that the set left out: the validity error."""
    let_in: NDArray[np.float64]
    """Share of the other candidates that the set let in: the efficiency error."""
    size: NDArray[np.int64]
    """Items in the set."""


def validity(
    counts: NDArray[np.int64],
    levels: int,
    relevant: NDArray[np.bool_],
    epsilons: tuple[float, ...] = EPSILONS,
) -> Validity:
    """Measure the sets at several significance levels.

    Parameters
    ----------
    counts : array of int
        p-values of the candidates as counts: ``p = counts / levels``.
    levels : int
        Number of levels.
    relevant : array of bool
        Which candidates are test items.
    epsilons : tuple of float, optional
        The significance levels.

    Examples
    --------
    >>> found = validity(np.array([1, 3, 4]), 4, np.array([True, False, True]), (0.25, 0.75))
    >>> found.missed.tolist(), found.let_in.tolist(), found.size.tolist()
    ([0.5, 0.5], [1.0, 0.0], [2, 1])
    """
    check_whole("levels", levels, highest=_MOST_LEVELS)
    counts = check_wholes("counts", counts, 0, levels)
    relevant = check_mask("relevant", relevant, len(counts))
    # Counting at every level once serves all significance levels.
    inside_above = _above(counts, levels)
    relevant_above = _above(counts[relevant], levels)
    cut = left_out_up_to(epsilons, levels)
    size, hits = inside_above[cut], relevant_above[cut]
    n_relevant, n_other = int(relevant.sum()), int((~relevant).sum())
    return Validity(
        missed=1 - hits / max(n_relevant, 1),
        let_in=(size - hits) / max(n_other, 1),
        size=size,
    )


def _above(counts: NDArray[np.int64], levels: int) -> NDArray[np.int64]:
    """Give for each cut 0 … levels the number of counts above it."""
    at = np.bincount(counts, minlength=levels + 1)
    return len(counts) - np.cumsum(at)
