"""Parallel blocks of work: kernels release the GIL, Python threads run them.

Python threads instead of numba's `prange` balance the load, work from many server threads and
after a fork, and let kernels compile faster.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from threading import local
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from surerec._progress import progress
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray


SMALL_WORK = 20_000
"""Units of work, of a few nanoseconds each, below which threads do not pay."""

_BLOCKS_PER_THREAD = 16
_AHEAD_PER_THREAD = 4

Block = TypeVar("Block")
Result = TypeVar("Result")


def available_threads() -> int:
    """Return the number of threads: ``SUREREC_THREADS``, else the available cores."""
    setting = os.environ.get("SUREREC_THREADS", "")
    if not setting:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not setting.isdecimal() or int(setting) < 1:
        raise InputError(f"SUREREC_THREADS is {setting!r}; set it to an integer of at least 1.")
    return int(setting)


def equal_blocks(work: NDArray[np.integer], n_blocks: int | None = None) -> list[tuple[int, int]]:
    """Split positions into consecutive blocks of about equal work.

    Parameters
    ----------
    work : array of int
        Work of each position.
    n_blocks : int, optional
        Maximum number of blocks. By default several per thread, which balances the load, but none
        so small that a thread does not pay.

    Returns
    -------
    list of (start, stop)
        Consecutive blocks that cover all positions; none is empty.

    Examples
    --------
    >>> equal_blocks(np.array([9, 1, 1, 1, 6]), n_blocks=2)
    [(0, 1), (1, 5)]
    """
    # One unit per position spreads positions without work over the blocks as well.
    done = np.cumsum(work.astype(np.int64) + 1)
    if not done.size:
        return []
    if n_blocks is None:
        n_blocks = min(_BLOCKS_PER_THREAD * available_threads(), 1 + int(done[-1]) // SMALL_WORK)
    targets = done[-1] * np.arange(1, n_blocks, dtype=np.int64) // n_blocks
    inner = np.searchsorted(done, targets, side="right")
    cuts = np.unique(np.concatenate(([0], inner, [done.size])))
    return list(pairwise(cuts.tolist()))


def run_blocks(task: Callable[[Block], Result], blocks: Iterable[Block]) -> Iterator[Result]:
    """Run `task` on every block, on all cores; yield the results in the order of the blocks.

    Only a few blocks run ahead of the consumer, so that results do not pile up.
    """
    n_threads = available_threads()
    if isinstance(blocks, Sized):
        n_threads = min(n_threads, len(blocks))
    if n_threads <= 1:
        yield from map(task, blocks)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        ahead: deque[Future[Result]] = deque()
        try:
            for block in blocks:
                ahead.append(pool.submit(task, block))
                if len(ahead) > _AHEAD_PER_THREAD * n_threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def for_each(
    one: Callable[[Block], Result],
    work: Sequence[Block],
    doing: str,
    *,
    unit: str = "users",
    at_once: int = 8,
) -> list[Result]:
    """Return the results of a function for each piece of work, on all cores, with a bar."""

    def some(start: int) -> list[Result]:
        return [one(each) for each in work[start : start + at_once]]

    found: list[Result] = []
    with progress(doing, total=len(work), unit=unit) as advance:
        for part in run_blocks(some, range(0, len(work), at_once)):
            found += part
            advance(len(part))
    return found


_kept: dict[str, ThreadPoolExecutor] = {}


if hasattr(os, "register_at_fork"):  # the parent's threads do not exist in a child process
    os.register_at_fork(after_in_child=_kept.clear)


_here = local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Make `run_together` use only this thread, for sequences of many small tasks.

    Waking another thread would cost as much as it saves.
    """
    before = getattr(_here, "alone", False)
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = before


def run_together(task: Callable[[Block], object], blocks: Sequence[Block]) -> None:
    """Run `task` on a few blocks, in this thread and in a permanent thread pool.

    For work below a millisecond, where starting threads would take longer. A free thread fetches
    the next block, so that nothing waits for a slow wake-up. The task must not call this function.
    """
    n_others = min(available_threads(), len(blocks)) - 1
    if n_others < 1 or getattr(_here, "alone", False):
        for block in blocks:
            task(block)
        return
    left = deque(blocks)

    def work() -> None:
        while True:
            try:
                block = left.popleft()
            except IndexError:
                return
            try:
                task(block)
            except BaseException:
                left.clear()
                raise

    # setdefault is atomic: if two threads create a pool at once, one is dropped unused.
    pool = _kept.get("pool") or _kept.setdefault("pool", ThreadPoolExecutor(os.cpu_count() or 1))
    others = [pool.submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        for other in others:
            if not other.cancel():
                other.result()
