"""Blocks of work on all cores: kernels release the GIL, plain threads run them.

Plain threads, not numba's `prange`: they deal blocks out as threads become free, they may be used
from many threads of a server at once and after a fork, and a kernel without them compiles faster.
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

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray


SMALL_WORK = 20_000
"""Units of work, of some nanoseconds each, below which threads do not pay."""

_BLOCKS_PER_THREAD = 16
_AHEAD_PER_THREAD = 4

Block = TypeVar("Block")
Result = TypeVar("Result")


def available_threads() -> int:
    """Return the number of threads to use: ``SUREREC_THREADS``, else the cores given to us."""
    setting = os.environ.get("SUREREC_THREADS", "")
    if not setting:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not setting.isdecimal() or int(setting) < 1:
        raise InputError(f"SUREREC_THREADS is {setting!r}; set it to a whole number of at least 1.")
    return int(setting)


def equal_blocks(work: NDArray[np.integer], n_blocks: int | None = None) -> list[tuple[int, int]]:
    """Cut positions into consecutive blocks of about equal work.

    Parameters
    ----------
    work : array of int
        The work at each position.
    n_blocks : int, optional
        How many blocks at the most; by default several for each thread, so that one that
        turns out slow does not keep the others waiting, but none so small that handing it to a
        thread would take longer than doing it.

    Returns
    -------
    list of (start, stop)
        Consecutive, together covering all positions, none empty.

    Examples
    --------
    >>> equal_blocks(np.array([9, 1, 1, 1, 6]), n_blocks=2)
    [(0, 1), (1, 5)]
    """
    # One unit a position, so that positions without work are spread over the blocks as well.
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

    Only a few blocks are worked on ahead of the one that is asked for, so that results do not pile
    up behind a slow reader.
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


_kept: dict[str, ThreadPoolExecutor] = {}


def _forget_kept() -> None:
    """Leave the parent's threads behind: a child process has none of them."""
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_kept)


_here = local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have `run_together` do all of it in this thread, where many small tasks follow each other.

    Waking another thread costs as much as it saves there, and others may need the cores.
    """
    before = getattr(_here, "alone", False)
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = before


def run_together(task: Callable[[Block], object], blocks: Sequence[Block]) -> None:
    """Run `task` on a few blocks, here and on threads that are kept.

    For work of a fraction of a millisecond, where starting threads would take longer. Whoever is
    free takes the next block, so that nothing waits for a thread that is slow to wake up. The task
    must not call this in turn.
    """
    n_others = min(available_threads(), len(blocks)) - 1
    if n_others < 1 or getattr(_here, "alone", False):
        for block in blocks:
            task(block)
        return
    left = deque(blocks)

    def take() -> None:
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

    # setdefault is atomic: of two that come first at once, one pool is dropped unused.
    pool = _kept.get("pool") or _kept.setdefault("pool", ThreadPoolExecutor(os.cpu_count() or 1))
    others = [pool.submit(take) for _ in range(n_others)]
    try:
        take()
    finally:
        for other in others:
            if not other.cancel():
                other.result()
