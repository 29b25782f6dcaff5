"""The state of a worker: its model, threads, API keys and rate limits."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from surerec.errors import SurerecError
from surerec.serving._keys import KeyFile, Keyring
from surerec.serving._models import load
from surerec.serving._problems import Problem
from surerec.serving._supervisor import RateLimits, attach
from surerec.serving._telemetry import HELD, MODEL_TIME, SWAPS, WORKERS, log

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    import uvicorn

    from surerec.serving._settings import ServerSettings

Result = TypeVar("Result")

_TICK: Final = 0.2
_RETRY_SECONDS: Final = 10.0
_RELOAD_SECONDS: Final = 300.0
_NOT_LOADED = "The model folder cannot be loaded; the old model is still served. See the log."
_NOT_YET = "Not all workers serve the new model yet. Check the log for the result."


class WorkQueue:
    """A thread pool with a bounded queue.

    Parameters
    ----------
    threads : int
        Number of threads.
    waiting : int
        Number of jobs that may wait.
    seconds : float
        Timeout of a job, including the wait.

    Examples
    --------
    >>> import asyncio
    >>> async def request():
    ...     return await WorkQueue(threads=1, waiting=0, seconds=5).run(lambda: 6 * 7)
    >>> asyncio.run(request())
    42
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._capacity = threads + waiting
        self._seconds = seconds
        self._held = 0

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a job; raise :class:`Problem` if the queue is full or on timeout."""
        if self._held >= self._capacity:
            later = {"Retry-After": "1"}
            raise Problem(503, "The server is busy. Retry in a second.", headers=later)
        loop = asyncio.get_running_loop()
        self._change(+1)
        future = self._pool.submit(job)
        # Released when the thread ends, not on timeout, as a job that still runs uses a thread.
        future.add_done_callback(lambda _: self._release(loop))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            message = (
                f"The request took longer than {self._seconds:g} s. Request fewer items, or retry."
            )
            raise Problem(503, message, headers={"Retry-After": "5"}) from None

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._change, -1)

    def _change(self, by: int) -> None:
        self._held += by
        HELD.set(self._held)


class Service:
    """The state of a worker: its model, threads, API keys and rate limits.

    Workers agree on the model through shared memory. A worker that loads another model writes its
    id there, and the other workers then reload the folder.

    Parameters
    ----------
    settings : ServerSettings
        Settings of the server.
    memory : int
        Descriptor of the shared memory.
    number : int
        Index of the worker in it.
    """

    def __init__(self, settings: ServerSettings, memory: int, number: int = 0) -> None:
        self.settings = settings
        self.model = load(settings.model, settings.scorer)
        self.work = WorkQueue(settings.threads, settings.queue, settings.request_timeout)
        self.keyring = None if settings.keys is None else Keyring(KeyFile(settings.keys))
        self.rates = RateLimits(memory, settings.rate, settings.burst)
        self._shared = attach(memory)
        self._number = number
        self._one_load = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: uvicorn.Server | None = None

    def is_stopping(self) -> bool:
        """Return whether the server is shutting down."""
        return self._server is not None and self._server.should_exit

    async def run(self, server: uvicorn.Server, listener: socket.socket) -> None:
        """Serve until SIGTERM, or until the supervisor ends."""
        self._server = server
        # uvicorn raises it again at the end.
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self.reload()))
        self._spawn(self._tend(server, os.getppid()))
        await server.serve(sockets=[listener])
        WORKERS.set(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self.model.close)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _tend(self, server: uvicorn.Server, parent: int) -> None:
        """Send heartbeats, follow model changes of other workers, and refresh a live model."""
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event
            await asyncio.sleep(_TICK / 10)
        WORKERS.set(1)
        MODEL_TIME.set(time.time())
        log(logging.INFO, "worker ready", worker=os.getpid(), model=self.model.model_id)
        work = self._spawn(self._agree())
        refreshed = time.monotonic()
        while os.getppid() == parent:  # stop if the supervisor has died
            self._post()
            if work.done() and self._shared["target"] != self.model.model_id.encode():
                work = self._spawn(self._follow())
            elif work.done() and time.monotonic() > refreshed + self.settings.worker_timeout / 4:
                # An idle worker would keep files of a model that another worker has replaced.
                work = self._spawn(asyncio.to_thread(self.model.refresh))
                refreshed = time.monotonic()
            await asyncio.sleep(_TICK)
        server.should_exit = True

    def _post(self) -> None:
        row = time.monotonic(), self.model.model_id.encode()
        self._shared["workers"][self._number] = row

    async def reload(self) -> dict[str, Any]:
        """Reload the model folder, and wait until all workers serve it."""
        if not await self._load():
            return {"problem": _NOT_LOADED}
        return await self._agree()

    async def _follow(self) -> None:
        """Load the model that another worker announced; announce it if it changed again."""
        if not await self._load():
            await asyncio.sleep(_RETRY_SECONDS)
        elif self._shared["target"] != self.model.model_id.encode():
            await self._agree()

    async def _load(self) -> bool:
        """Load the folder and replace the model; return whether this succeeded.

        Running requests keep the old model, whose files stay mapped until the last one ends.
        """
        async with self._one_load:
            try:
                model = await asyncio.to_thread(load, self.settings.model, self.settings.scorer)
            except (SurerecError, OSError, MemoryError) as error:
                log(logging.ERROR, "model not loaded", reason=str(error))
                SWAPS.labels("failed").inc()
                return False
            if model.model_id == self.model.model_id:
                model.close()
            else:
                self.model = model
                MODEL_TIME.set(time.time())
            del model
            gc.collect()  # compiled code may hold arrays of the old model
            return True

    async def _agree(self) -> dict[str, Any]:
        """Announce this worker's model, and wait until all workers serve it."""
        model, end = self.model.model_id.encode(), time.monotonic() + _RELOAD_SECONDS
        changed = bool(self._shared["target"] != model)
        self._shared["target"] = model
        self._post()
        while True:
            served = self._shared["workers"]["model"]
            served = served[served != b""]
            if (served == model).all():
                break
            if self._shared["target"] != model or time.monotonic() > end:
                return {"problem": _NOT_YET}
            await asyncio.sleep(_TICK / 4)
        if changed:
            SWAPS.labels("done").inc()
            log(logging.INFO, "model replaced", model=model.decode(), workers=len(served))
        return {"model": model.decode(), "changed": changed, "workers": len(served)}
