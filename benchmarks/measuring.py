"""Timing and memory within a contestant's process, and checksums of counts."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

Result = TypeVar("Result")
Figures = dict[str, Any]

_LONG = 20.0  # seconds; a longer first run is not repeated


def best(task: Callable[[], Result], repeats: int) -> tuple[float, Result]:
    """Return the shortest of several times after a warm-up, in seconds, and the last result."""
    begin = perf_counter()
    result = task()
    times = [perf_counter() - begin]
    if times[0] > _LONG:
        return times[0], result
    times.clear()
    started = perf_counter()
    while len(times) < repeats and (not times or perf_counter() - started < _LONG):
        del result  # two results at once would double the peak
        begin = perf_counter()
        result = task()
        times.append(perf_counter() - begin)
    return min(times), result


def each(task: Callable[[int], object], users: NDArray[np.int64], n_warm: int) -> Figures:
    """Time a task for each user, after a warm-up: milliseconds at p50 and p99."""
    for user in users[:n_warm]:
        task(int(user))
    measured = users[n_warm:]
    times = np.empty(len(measured))
    for place, user in enumerate(measured):
        begin = perf_counter()
        task(int(user))
        times[place] = 1000 * (perf_counter() - begin)
    at_p99 = int(np.argsort(times)[min(int(0.99 * len(times)), len(times) - 1)])
    return {
        "p50_ms": float(np.percentile(times, 50)),
        "p99_ms": float(np.percentile(times, 99)),
        "slowest_ms": float(times.max()),
        "n_users": len(measured),
        "user_at_p99": int(measured[at_p99]),
    }


def some_users(n_users: int, n_measured: int, n_warm: int) -> NDArray[np.int64]:
    """Choose users for warm-up and measurement, equal for all contestants."""
    n = min(n_users, n_measured + n_warm)
    return np.random.default_rng(0).choice(n_users, n, replace=False)


def peak_memory() -> int:
    """Return the peak resident size of this process, in bytes.

    On Linux not that of `getrusage`, which begins with the size of the parent process.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_memory() -> int:
    """Return the resident size of this process in bytes, or its peak if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_memory()
    return pages * os.sysconf("SC_PAGE_SIZE")


def forget_peak() -> None:
    """Reset `peak_memory`, if the system supports it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def n_threads() -> int:
    """Return the number of threads of a contestant."""
    return int(os.environ["SUREREC_THREADS"])


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Set the number of threads of surerec within a context."""
    before = os.environ.get("SUREREC_THREADS")
    os.environ["SUREREC_THREADS"] = str(number)
    try:
        yield
    finally:
        del os.environ["SUREREC_THREADS"]
        if before is not None:
            os.environ["SUREREC_THREADS"] = before


def _mixed(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each pair of items, modulo 2⁶⁴ (the constants are SplitMix64's)."""
    mixed = first * np.uint64(0x9E3779B97F4A7C15) + second
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    return mixed


Triples = tuple["NDArray[Any]", "NDArray[Any]", "NDArray[Any]"]


def checksums(parts: Iterable[Triples]) -> Figures:
    """Return the sum of counts weighted by pair, which does not depend on their order.

    Parameters
    ----------
    parts : iterable of (first item, second item, count)
        Those that are left out are zero; pairs of an item with itself are ignored.

    Returns
    -------
    dict
        The number of pairs, a checksum of the counts, and one of counts plus their transpose.
    """
    n_pairs = ordered = both_ways = 0
    for first, second, counts in parts:
        i, h, n = (column.astype(np.uint64) for column in (first, second, counts))
        n[i == h] = 0
        forth, back = _mixed(i, h), _mixed(h, i)
        n_pairs += int(n.sum())
        ordered += int((n * forth).sum(dtype=np.uint64))
        both_ways += int((n * (forth + back)).sum(dtype=np.uint64))
    return {
        "n_pairs": n_pairs,
        "ordered": f"{ordered % 2**64:016x}",
        "both_ways": f"{both_ways % 2**64:016x}",
    }
