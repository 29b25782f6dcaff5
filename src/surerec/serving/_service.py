"""What a worker answers with: its model, the threads that compute, keys and rates."""

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
_NOT_LOADED = "The model folder cannot be loaded, so the old model is served on; see the log."
_NOT_YET = "Not all workers serve the new model yet; the log will have the result."


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

    Examples
    --------
    >>> import asyncio
    >>> async def ask():
    ...     return await WorkQueue(threads=1, waiting=0, seconds=5).run(lambda: 6 * 7)
    >>> asyncio.run(ask())
    42
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._capacity = threads + waiting
        self._seconds = seconds
        self._held = 0

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a job; a :class:`Problem` if the queue is full or the time is up."""
        if self._held >= self._capacity:
            later = {"Retry-After": "1"}
            raise Problem(503, "The server is busy; try again in a second.", headers=later)
        loop = asyncio.get_running_loop()
        self._change(+1)
        future = self._pool.submit(job)
        # Released when the thread is done, not when the client has given up: a job that runs on
        # after its time still takes a place, or slow work would pile up behind the limit.
        future.add_done_callback(lambda _: self._release(loop))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            message = f"The answer took longer than {self._seconds:g} s; ask for less, or later."
            raise Problem(503, message, headers={"Retry-After": "5"}) from None

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._change, -1)

    def _change(self, by: int) -> None:
        self._held += by
        HELD.set(self._held)


class Service:
    """What a worker answers with: its model, threads, keys and rates.

    Workers agree on the model through the shared memory. One that has loaded another model from
    the folder, after a reload or a restart, names it there; the others load the folder, too.

    Parameters
    ----------
    settings : ServerSettings
        Of the server.
    memory : int
        Descriptor of the shared memory.
    number : int
        The worker's place in it.
    """

    def __init__(self, settings: ServerSettings, memory: int, number: int = 0) -> None:
        self.settings = settings
        self.model = load(settings.model)
        self.work = WorkQueue(settings.threads, settings.queue, settings.request_timeout)
        self.keyring = None if settings.keys is None else Keyring(KeyFile(settings.keys))
        self.rates = RateLimits(memory, settings.rate, settings.burst)
        self._shared = attach(memory)
        self._number = number
        self._one_load = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: uvicorn.Server | None = None

    def is_stopping(self) -> bool:
        """Return whether it takes no further requests."""
        return self._server is not None and self._server.should_exit

    async def run(self, server: uvicorn.Server, listener: socket.socket) -> None:
        """Serve until SIGTERM, or until the supervisor is gone."""
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
        """Post signs of life, follow the other workers, and refresh a live model."""
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event
            await asyncio.sleep(_TICK / 10)
        WORKERS.set(1)
        MODEL_TIME.set(time.time())
        log(logging.INFO, "worker ready", worker=os.getpid(), model=self.model.model_id)
        work = self._spawn(self._agree())
        refreshed = time.monotonic()
        while os.getppid() == parent:  # else nobody would restart us, so nobody needs us
            self._post()
            if work.done() and self._shared["wanted"] != self.model.model_id.encode():
                work = self._spawn(self._follow())
            elif work.done() and time.monotonic() > refreshed + self.settings.worker_timeout / 4:
                # An idle worker would keep the files of a live model that another has refitted.
                work = self._spawn(asyncio.to_thread(self.model.refresh))
                refreshed = time.monotonic()
            await asyncio.sleep(_TICK)
        server.should_exit = True

    def _post(self) -> None:
        row = time.monotonic(), self.model.model_id.encode()
        self._shared["workers"][self._number] = row

    async def reload(self) -> dict[str, Any]:
        """Load what the model folder holds now, and wait until all workers serve it."""
        if not await self._load():
            return {"problem": _NOT_LOADED}
        return await self._agree()

    async def _follow(self) -> None:
        """Load what another worker has found in the folder; if it has changed again, name that."""
        if not await self._load():
            await asyncio.sleep(_RETRY_SECONDS)
        elif self._shared["wanted"] != self.model.model_id.encode():
            await self._agree()

    async def _load(self) -> bool:
        """Load the folder beside the model, and swap; return whether it could be loaded.

        Requests under way keep the model that they began with; its files are mapped until the last
        of them has ended.
        """
        async with self._one_load:
            try:
                model = await asyncio.to_thread(load, self.settings.model)
            except (SurerecError, OSError, MemoryError) as error:
                log(logging.ERROR, "model not taken over", why=str(error))
                SWAPS.labels("failed").inc()
                return False
            if model.model_id == self.model.model_id:
                model.close()
            else:
                self.model = model
                MODEL_TIME.set(time.time())
            del model
            gc.collect()  # what compiling left behind may hold arrays of the old model
            return True

    async def _agree(self) -> dict[str, Any]:
        """Name this worker's model to all, and wait until they serve it."""
        model, end = self.model.model_id.encode(), time.monotonic() + _RELOAD_SECONDS
        changed = bool(self._shared["wanted"] != model)
        self._shared["wanted"] = model
        self._post()
        while True:
            served = self._shared["workers"]["model"]
            served = served[served != b""]
            if (served == model).all():
                break
            if self._shared["wanted"] != model or time.monotonic() > end:
                return {"problem": _NOT_YET}
            await asyncio.sleep(_TICK / 4)
        if changed:
            SWAPS.labels("done").inc()
            log(logging.INFO, "model taken over", model=model.decode(), workers=len(served))
        return {"model": model.decode(), "changed": changed, "workers": len(served)}
