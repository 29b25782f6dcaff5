"""Counting one direction of precedence, against scipy's ``A.T @ A`` on the same encoded input.

Run with ``python -m benchmarks.counting``. Everything in one process, best of
five. ``A.T @ A`` counts every pair twice (it is symmetric) and knows no order: it is the usual way
to count co-occurrence, and the nearest thing to a peer that is always at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numba import njit
from rich.console import Console
from rich.table import Table

import surerec as sr
from benchmarks.measuring import best
from surerec._threads import available_threads
from surerec.precedence import lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REPEATS = 5


@njit(nogil=True, cache=True)
def add_ones(ids: NDArray[np.uint32], counts: NDArray[np.uint32]) -> None:
    """Add one for each id, in sequence: what no counting can beat on one core."""
    for place in range(np.uint64(len(ids))):
        counts[ids[place]] += np.uint32(1)


def ceiling(data: sr.Interactions, n_pairs: int) -> float:
    """Give increments per second of one core over ids like those that are counted."""
    ids = np.resize(data.items_taken, min(n_pairs, 200_000_000))
    counts = np.zeros(data.n_items, dtype=np.uint32)
    return len(ids) / best(lambda: add_ones(ids, counts), _REPEATS)[0]


def measure(name: str, data: sr.Interactions, table: Table) -> None:
    ones = np.ones(data.n_rows, dtype=np.int32)
    users_by_items = sp.csr_array(
        (ones, data.items_taken.astype(np.int32), data.offsets), shape=(data.n_users, data.n_items)
    )
    seconds, counts = best(lambda: lanes(data, "order").count_both(lambda _: None)[0], _REPEATS)
    theirs, both_ways = best(lambda: users_by_items.T @ users_by_items, _REPEATS)
    expected = both_ways.toarray()
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(counts + counts.T, expected)
    n_pairs = int(counts.sum())
    per_core = ceiling(data, n_pairs)
    share = n_pairs / seconds / (per_core * available_threads())
    table.add_row(
        name,
        f"{n_pairs / 1e6:,.0f} M",
        f"{seconds:.3f} s",
        f"{theirs:.3f} s",
        f"{theirs / seconds:.1f}×",
        f"{n_pairs / seconds / 1e6:,.0f} M/s",
        f"{share:.0%}",
    )


def main() -> None:
    table = Table(
        "data", "ordered pairs", "surerec", "scipy A.T @ A", "ratio", "pairs", "of the ceiling",
        title=f"Counting one direction, {available_threads()} threads (scipy uses one)",
    )  # fmt: skip
    measure("MovieLens 1M", sr.load_dataset("ml-1m"), table)
    measure("2M synthetic rows", sr.datasets.synthetic(14_000, 5_000, 2_000_000, seed=1), table)
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)
    print("The ceiling is acc[id] += 1 over the same ids, in sequence, on every core at once.")


if __name__ == "__main__":
    main()
