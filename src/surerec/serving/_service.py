"""What the operations need of a worker: its model, its settings, and threads that compute."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from surerec.serving._guard import RateLimits
    from surerec.serving._keys import Keyring
    from surerec.serving._models import ModelHolder
    from surerec.serving._settings import Settings


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
