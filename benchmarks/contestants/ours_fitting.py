"""surerec: precedence counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

import surerec as sr
from benchmarks.contestant import since_start
from benchmarks.data import profiles
from benchmarks.measuring import (
    best,
    checksums,
    forget_peak,
    peak_memory,
    resident_memory,
    threads,
)
from surerec._threads import equal_blocks, run_blocks
from surerec.precedence import lanes, spans
from surerec.precedence.kernels import count_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from benchmarks.measuring import Figures, Triples
    from surerec.precedence import Spans

_MOST_IDS = 100_000_000


def _ignore(_: float) -> None:
    pass


def _triples(rows: Iterable[NDArray[np.unsignedinteger]]) -> Iterator[Triples]:
    for item, row in enumerate(rows):
        others = np.flatnonzero(row)
        yield np.full(len(others), item), others, row[others]


def count_one_direction(folder: str, repeats: int) -> Figures:
    """Count every row of one direction."""
    data = profiles(folder)
    seconds, counts = best(lambda: lanes(data, "order").count_both(_ignore)[0], repeats)
    peak = peak_memory()
    with threads(1):
        alone, _ = best(lambda: lanes(data, "order").count_both(_ignore)[0], repeats)
    return {
        "seconds": seconds,
        "one_thread_seconds": alone,
        "peak": peak,
        **checksums(_triples(counts)),
    }


def count_both_directions(folder: str, repeats: int) -> Figures:
    """Count both directions, as `fit` does by default."""
    data = profiles(folder)
    seconds, statistics = best(lambda: sr.count_precedence(data), repeats)
    peak = peak_memory()
    items = range(statistics.n_items)
    sums = checksums(_triples(map(statistics.followers, items)))
    before = _triples(map(statistics.predecessors, items))
    turned = checksums((h, i, n) for i, h, n in before)
    return {
        "seconds": seconds,
        "peak": peak,
        "rows": type(statistics.rows).__name__,
        **sums,
        "predecessors": turned["ordered"],
    }


@njit(nogil=True, cache=True)
def _add_ones(ids: NDArray[np.uint32], passes: int, counts: NDArray[Any]) -> None:
    for _ in range(passes):
        for place in range(np.uint64(len(ids))):
            counts[ids[place]] += np.uint16(1)


def _ceiling(ids: NDArray[np.uint32], counts: NDArray[Any], repeats: int) -> float:
    """Return increments per second of one core, over ids in sequence, with equal counters."""
    passes = max(1, _MOST_IDS // len(ids))
    return passes * len(ids) / best(lambda: _add_ones(ids, passes, counts), repeats)[0]


def _ids_of_spans(index: Spans, n_wanted: int) -> NDArray[np.uint32]:
    """Concatenate evenly spread spans in the order in which the kernel reads them.

    About as many ids as there are rows: laid out in full they would lie in slow memory, where the
    profiles that the kernel reads do not, and the ceiling would be too low.
    """
    step = max(1, int(index.work.sum()) // n_wanted)
    ends = zip(index.starts[::step], index.stops[::step], strict=True)
    return np.concatenate([index.items[start:stop] for start, stop in ends])


def share_of_ceiling(folder: str, repeats: int) -> Figures:
    """Time the kernel on one core, and adding ones to counters in sequence over the same ids.

    The ceiling is the higher of two: over the ids of spans, and over the profiles as they lie.
    """
    data = profiles(folder)
    index = spans(data, "followers", "order")
    matrix = np.zeros((data.n_items, data.n_items), dtype=index.counter)
    parts = (index.offsets, index.starts, index.stops, index.items)
    # Adds to the rows of an earlier repeat, which is as fast as counting from zero.
    seconds, _ = best(lambda: count_rows(0, data.n_items, *parts, matrix), repeats)
    rate = int(index.work.sum()) / seconds
    ceilings = {
        "over_spans": _ceiling(_ids_of_spans(index, data.n_rows), matrix[0], repeats),
        "over_profiles": _ceiling(data.item_codes, matrix[0], repeats),
    }
    ceiling = max(ceilings.values())
    return {"pairs_per_second": rate, "ceiling": ceiling, "share": rate / ceiling, **ceilings}


def _two_cores(ids: NDArray[np.uint32], counters: NDArray[Any], repeats: int) -> float:
    """Return increments per second of two cores at once, each over the ids in sequence."""
    passes = max(1, _MOST_IDS // len(ids))
    both = [counters.copy(), counters.copy()]
    with threads(2):
        work = lambda each: _add_ones(ids, passes, each)  # noqa: E731
        seconds, _ = best(lambda: list(run_blocks(work, both)), repeats)
    return 2 * passes * len(ids) / seconds


def whole_fit(folder: str, repeats: int) -> Figures:
    """Time `count_precedence` on two threads and on one, and plain sums on two cores.

    Peak memory is that of the fit, without the process and its input.
    """
    sr.count_precedence(sr.datasets.synthetic(random_state=1))  # compiled, and imported
    data = profiles(folder)
    before = resident_memory()
    forget_peak()
    with threads(2):
        seconds, statistics = best(lambda: sr.count_precedence(data), repeats)
    peak = peak_memory() - before
    counter = statistics.rows.followers(0).dtype
    result = sum(array.nbytes for array in statistics.rows.arrays().values())
    del statistics
    with threads(1):
        alone, _ = best(lambda: sr.count_precedence(data), repeats)
    lengths = np.diff(data.offsets)
    n_pairs = int((lengths * (lengths - 1) // 2).sum())
    counters = np.zeros(data.n_items, dtype=counter)
    ids = _ids_of_spans(spans(data, "followers", "order"), min(data.n_rows, _MOST_IDS // 5))
    ceilings = {
        "over_spans": _two_cores(ids, counters, repeats),
        "over_profiles": _two_cores(data.item_codes, counters, repeats),
    }
    return {
        "seconds": seconds,
        "one_thread_seconds": alone,
        "peak": peak,
        "result_bytes": result,
        "n_pairs": n_pairs,
        "share": n_pairs / seconds / max(ceilings.values()),
        "ceiling": max(ceilings.values()),
        **ceilings,
    }


def fit_within(folder: str, memory: int, repeats: int) -> Figures:
    """Time a fit with a memory budget, and the count of every row without storing it."""
    data = profiles(folder)
    seconds, statistics = best(lambda: sr.count_precedence(data, memory=memory), repeats)
    peak = peak_memory()
    del statistics
    index = spans(data, "followers", "order")
    work = index.work
    # Few rows at a time: a block is one allocation.
    blocks = equal_blocks(work + data.n_items, max(1, data.n_items // 64))

    def count_all() -> None:
        for _ in run_blocks(lambda block: index.count_rows(block).shape, blocks):
            pass

    counting, _ = best(count_all, repeats)
    n_pairs = int(work.sum())
    return {
        "seconds": seconds,
        "peak": peak,
        "counting_seconds": counting,
        "n_pairs": n_pairs,
        "n_rows": data.n_rows,
        "ns_per_pair": 1e9 * seconds / n_pairs,
    }


def first_recommendation(folder: str, memory: int | None) -> Figures:
    """Time a Parquet file to the first recommendation, from the start of the process."""
    data = sr.read_interactions(Path(folder) / "rows.parquet")
    marks: dict[str, Any] = {"read_by": since_start()}
    statistics = sr.count_precedence(data, memory=memory)
    marks["fitted_by"] = since_start()
    picks = sr.InductiveConformal("CM12").fit(statistics).recommend(data.users[0], confidence=0.9)
    marks |= {"seconds": since_start(), "peak": peak_memory(), "set_size": len(picks)}
    # The other direction is served as well.
    sr.TransductiveConformal("max").fit(statistics).recommend(data.users[1], confidence=0.9)
    return marks | {"peak_after_crs": peak_memory(), "rows": type(statistics.rows).__name__}
