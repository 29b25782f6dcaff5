"""The parts of a worker: threads that compute, the rates of API keys, settings and models."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import mmap
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from surerec.serving._keys import Keyring
    from surerec.serving._models import ModelHolder
    from surerec.serving._settings import Settings


_SLOT: Final = struct.Struct("<Qd")
_N_SLOTS: Final = 1024
Result = TypeVar("Result")


class WorkQueue:
    """Runs requests' work in threads, and refuses what would only pile up.

    Parameters
    ----------
    threads : int
        Work done at a time.
    waiting : int
        Work that may wait beyond that.
    seconds : float
        What an answer may take, waiting included.
    on_change : callable, optional
        Told how much is held whenever that changes.

    Examples
    --------
    >>> import asyncio
    >>> async def ask():
    ...     return await WorkQueue(threads=1, waiting=0, seconds=5).run(lambda: 6 * 7)
    >>> asyncio.run(ask())
    42
    """

    def __init__(
        self,
        threads: int,
        waiting: int,
        seconds: float,
        on_change: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._capacity = threads + waiting
        self._seconds = seconds
        self._on_change = on_change
        self._held = 0

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a job; a :class:`Problem` if the queue is full or the time is up."""
        if self._held >= self._capacity:
            raise Problem(
                503,
                "The server is busy; try again in a second.",
                headers={"Retry-After": "1"},
            )
        loop = asyncio.get_running_loop()
        self._change(+1)
        future = self._pool.submit(job)
        # Released when the thread is done, not when the client has given up: a job that runs on
        # after its time still takes a place, or slow work would pile up behind the limit.
        future.add_done_callback(lambda _: _tell(loop, self._change, -1))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise Problem(
                503,
                f"The answer took longer than {self._seconds:g} s; ask for less, or later.",
                headers={"Retry-After": "5"},
            ) from None

    def _change(self, by: int) -> None:
        self._held += by
        self._on_change(self._held)


def _tell(loop: asyncio.AbstractEventLoop, change: Callable[[int], None], by: int) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(change, by)


def shared_memory() -> IO[bytes]:
    """Give the memory of all rates: a file without a name, whose descriptor workers inherit."""
    file = TemporaryFile()  # noqa: SIM115  # held as long as the server runs
    os.ftruncate(file.fileno(), _SLOT.size * _N_SLOTS)
    return file


class RateLimits:
    """How soon each key may ask again (the generic cell rate algorithm).

    A slot holds the time at which a key's requests so far would have been due at the allowed rate;
    a key may run ahead of it by `burst` requests.

    Parameters
    ----------
    descriptor : int
        Of what :func:`shared_memory` made.
    rate : float
        Requests a second.
    burst : int
        Requests that may come at once.

    Examples
    --------
    >>> with shared_memory() as memory:
    ...     limits = RateLimits(memory.fileno(), rate=1.0, burst=2)
    ...     [limits.wait("ann", now=100.0) for _ in range(3)], limits.wait("bob", now=100.0)
    ([0.0, 0.0, 1.0], 0.0)
    """

    def __init__(self, descriptor: int, rate: float, burst: int) -> None:
        self._descriptor = descriptor
        self._slots = mmap.mmap(descriptor, _SLOT.size * _N_SLOTS)
        self._gap = 1.0 / rate
        self._ahead = burst * self._gap

    def wait(self, key_id: str, now: float | None = None) -> float:
        """Count a request; give 0, or the seconds after which it would be allowed."""
        # The monotonic clock is the system's: the same in all workers.
        at = time.monotonic() if now is None else now
        tag = int.from_bytes(hashlib.blake2b(key_id.encode(), digest_size=8).digest(), "little") | 1
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            place, due = self._find(tag)
            due = max(due, at)
            excess = due + self._gap - at - self._ahead
            if excess > 1e-9:  # noqa: PLR2004  # sums of gaps are not exact
                return excess
            _SLOT.pack_into(self._slots, place * _SLOT.size, tag, due + self._gap)
            return 0.0
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _find(self, tag: int) -> tuple[int, float]:
        """Give a key's slot and time; a new key takes a free slot, or the longest unused."""
        oldest, oldest_due = 0, float("inf")
        for step in range(_N_SLOTS):
            place = (tag + step) % _N_SLOTS
            found, due = _SLOT.unpack_from(self._slots, place * _SLOT.size)
            if found == tag:
                return place, due
            if found == 0:
                return place, 0.0
            if due < oldest_due:
                oldest, oldest_due = place, due
        return oldest, 0.0


@dataclass
class Service:
    """A worker's parts."""

    settings: Settings
    models: ModelHolder
    work: WorkQueue
    reload: Callable[[], Awaitable[dict[str, Any]]]
    """Asks for a takeover by all workers; gives what became of it."""
    keyring: Keyring | None = None
    rates: RateLimits | None = None
    is_stopping: Callable[[], bool] = field(default=lambda: False)
