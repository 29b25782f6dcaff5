"""Stable parallel counting sort: groups rows for profiles and indices."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._kernels import count_codes, place_pairs, place_rows
from surerec._threads import SMALL_WORK, available_threads, run_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


_MOST_COUNTERS = 1 << 26


def group_rows(
    codes: NDArray[np.uint32], n_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort rows by group, stable within each group.

    Parameters
    ----------
    codes : array of uint32
        The group of each row, below `n_groups`.
    n_groups : int
        The number of groups.

    Returns
    -------
    offsets : array of int64, n_groups + 1
        Group ``g`` is ``order[offsets[g]:offsets[g + 1]]``.
    order : array of int64
        The rows.

    Examples
    --------
    >>> offsets, order = group_rows(np.array([1, 0, 1], dtype=np.uint32), 2)
    >>> offsets.tolist(), order.tolist()
    ([0, 1, 3], [1, 0, 2])
    """
    order = np.empty(len(codes), dtype=np.int64)

    def write(start: int, stop: int, cursors: NDArray[np.int64]) -> None:
        place_rows(codes, start, stop, cursors, order)

    return _place(codes, n_groups, write), order


def group_pairs(
    codes: NDArray[np.uint32], n_groups: int, first: NDArray[Any], second: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Sort two values of each row by group, as :func:`group_rows` sorts rows.

    Examples
    --------
    >>> codes, values = np.array([1, 0, 1], dtype=np.uint32), np.array([7, 8, 9])
    >>> [each.tolist() for each in group_pairs(codes, 2, values, -values)]
    [[0, 1, 3], [8, 7, 9], [-8, -7, -9]]
    """
    placed = np.empty_like(first), np.empty_like(second)

    def write(start: int, stop: int, cursors: NDArray[np.int64]) -> None:
        place_pairs(codes, start, stop, cursors, (first, second), placed)

    return _place(codes, n_groups, write), *placed


def _place(
    codes: NDArray[np.uint32], n_groups: int, write: Callable[[int, int, NDArray[np.int64]], None]
) -> NDArray[np.int64]:
    """Write the rows by group, block by block, and return the group offsets."""
    blocks, counts = count_by_block(codes, n_groups)
    sizes = counts.sum(axis=0)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    # Block b writes group g behind the rows of earlier blocks: stable, without locks.
    cursors = np.cumsum(counts, axis=0) + offsets[:-1]

    def write_block(block: tuple[int, tuple[int, int]]) -> None:
        number, (start, stop) = block
        write(start, stop, cursors[number])

    list(run_blocks(write_block, blocks))
    return offsets


def count_by_block(
    codes: NDArray[np.uint32], n_groups: int
) -> tuple[list[tuple[int, tuple[int, int]]], NDArray[np.int64]]:
    """Split rows into blocks for threads, and count the rows of each group in each block.

    Returns
    -------
    blocks : list of (number, (start, stop))
        Consecutive blocks that cover all rows.
    counts : array of int64, blocks + 1 × groups
        Row ``b + 1`` holds the counts of block ``b``; row 0 is zero, so sums are start positions.

    Examples
    --------
    >>> blocks, counts = count_by_block(np.array([1, 0, 1], dtype=np.uint32), 2)
    >>> blocks, counts.tolist()
    ([(0, (0, 3))], [[0, 0], [1, 2]])
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
    return blocks, counts
