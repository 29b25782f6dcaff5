"""Rows gathered by group, stable and on all cores: the counting sort under profiles and indices."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from surerec._kernels import count_codes, place_rows
from surerec._threads import SMALL_WORK, available_threads, run_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MOST_COUNTERS = 1 << 26


def group_rows(
    codes: NDArray[np.uint32], n_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order rows by group, keeping the order within each group.

    Parameters
    ----------
    codes : array of uint32
        The group of each row, below `n_groups`.
    n_groups : int
        The number of groups.

    Returns
    -------
    offsets : array of int64, n_groups + 1
        Group ``g`` stands at ``order[offsets[g]:offsets[g + 1]]``.
    order : array of int64
        The rows.

    Examples
    --------
    >>> offsets, order = group_rows(np.array([1, 0, 1], dtype=np.uint32), 2)
    >>> offsets.tolist(), order.tolist()
    ([0, 1, 3], [1, 0, 2])
    """
    worth = 1 + len(codes) // SMALL_WORK
    n_blocks = max(1, min(available_threads(), worth, _MOST_COUNTERS // max(n_groups, 1)))
    cuts = np.linspace(0, len(codes), n_blocks + 1).astype(np.int64)
    blocks = list(enumerate(pairwise(cuts.tolist())))
    counts = np.zeros((len(blocks) + 1, n_groups), dtype=np.int64)

    def count(block: tuple[int, tuple[int, int]]) -> None:
        number, (start, stop) = block
        count_codes(codes[start:stop], counts[number + 1])

    list(run_blocks(count, blocks))
    sizes = counts.sum(axis=0)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    # Block b writes group g behind what the blocks before it hold of g: stable, with no locks.
    cursors = np.cumsum(counts, axis=0) + offsets[:-1]
    order = np.empty(len(codes), dtype=np.int64)

    def write(block: tuple[int, tuple[int, int]]) -> None:
        number, (start, stop) = block
        place_rows(codes, start, stop, cursors[number], order)

    list(run_blocks(write, blocks))
    return offsets, order
