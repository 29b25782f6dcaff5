"""The supervisor: keeps the workers alive, and brings a new model to all of them."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from typing import TYPE_CHECKING, Any

from surerec.errors import InputError, SurerecError
from surerec.serving._living import load
from surerec.serving._logs import log
from surerec.serving._metrics import RESTARTS, SWAPS, forget_process
from surerec.serving._process import WorkerProcess

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from surerec.serving._settings import Settings


_SHORT_LIFE = 10.0
_LONGEST_PAUSE = 30.0
_BEYOND_SHUTDOWN = 5.0
_NOT_TAKEN_OVER = (
    "The model folder cannot be taken over, so the old model is served on; the log says why."
)


class Supervisor:
    """Runs the workers until it is told to stop.

    SIGTERM and SIGINT stop it gracefully; SIGHUP takes over what the model folder holds now.

    Parameters
    ----------
    settings : Settings
        Of the server.
    listener : socket
        That the workers accept from.
    rates : int
        Descriptor of the memory for rate limits.
    on_ready : callable
        Called once, when all workers answer.
    """

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        rates: int,
        on_ready: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._rates = rates
        self._on_ready = on_ready
        self._workers: dict[int, WorkerProcess] = {}
        self._model = ""
        self._stop = asyncio.Event()
        self._failed = False
        self._was_ready = False
        self._one_reload = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Serve until stopped; InputError if no worker can start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self.reload()))
        self._model = await asyncio.to_thread(self._verify)
        keepers = [asyncio.create_task(self._keep(n)) for n in range(self._settings.workers)]
        watcher = asyncio.create_task(self._watch())
        await self._stop.wait()
        for worker in self._workers.values():
            worker.channel.say("stop")
        patience = self._settings.shutdown_timeout + _BEYOND_SHUTDOWN
        _, late = await asyncio.wait(keepers, timeout=patience)
        for worker in self._workers.values() if late else ():
            log(logging.WARNING, "worker did not stop in time", worker=worker.process.pid)
            worker.kill()
        await asyncio.gather(*keepers)
        watcher.cancel()
        if self._failed:
            raise InputError("The workers cannot start; the log above says why.")

    def _ask_to_stop(self) -> None:
        if self._stop.is_set():  # asked twice: somebody is in a hurry
            for worker in self._workers.values():
                worker.kill()
        self._stop.set()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, place: int) -> None:
        """Keep one place filled: a worker that ends is replaced, at once the first time."""
        short_lives = 0
        while not self._stop.is_set():
            worker = await WorkerProcess.start(self._settings, self._listener.fileno(), self._rates)
            self._workers[place] = worker
            await self._attend(worker)
            code = await worker.process.wait()
            worker.gone()
            del self._workers[place]
            forget_process(worker.process.pid)
            if self._stop.is_set():
                return
            if not self._was_ready:
                self._failed = True
                self._stop.set()
                return
            lived = time.monotonic() - worker.started
            short_lives = short_lives + 1 if lived < _SHORT_LIFE else 0
            pause = 0.0 if short_lives < 2 else min(0.25 * 2**short_lives, _LONGEST_PAUSE)  # noqa: PLR2004
            RESTARTS.inc()
            log(logging.WARNING, "worker ended", worker=worker.process.pid, code=code, pause=pause)
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass

    async def _attend(self, worker: WorkerProcess) -> None:
        """Hear what a worker says until it is gone."""
        while (message := await worker.channel.hear()) is not None:
            worker.heard = time.monotonic()
            match message["what"]:
                case "ready":
                    self._greet(worker, message["model"])
                case "prepared" | "unprepared" as what:
                    worker.answer("prepare", done=what == "prepared")
                case "swapped":
                    worker.model = message["model"]
                    worker.answer("swap", done=True)
                case "reload":
                    self._spawn(self._reload_for(worker, message["number"]))

    def _greet(self, worker: WorkerProcess, model: str) -> None:
        worker.model = model
        log(logging.INFO, "worker ready", worker=worker.process.pid, model=model)
        if self._stop.is_set():
            worker.channel.say("stop")
        ready = [other for other in self._workers.values() if other.model is not None]
        if not self._was_ready and len(ready) == self._settings.workers:
            self._was_ready = True
            self._on_ready()
        if model != self._model:  # the folder has changed since the others looked
            self._spawn(self.reload())

    async def _watch(self) -> None:
        """End a worker that says nothing any more; a new one takes its place."""
        limit = self._settings.worker_timeout
        while True:
            await asyncio.sleep(limit / 4)
            for worker in list(self._workers.values()):
                if worker.model is None:
                    continue  # still loading
                if time.monotonic() - worker.heard > limit:
                    log(logging.ERROR, "worker hangs", worker=worker.process.pid)
                    worker.kill()
                worker.channel.say("ping")

    async def _reload_for(self, worker: WorkerProcess, number: int) -> None:
        worker.channel.say("reloaded", number=number, result=await self.reload())

    async def reload(self) -> dict[str, Any]:
        """Bring what the folder holds now to all workers: all of them, or none.

        It is verified here; then every worker verifies and loads it beside the old one; only when
        all have, they swap. A worker that dies meanwhile comes back with the new one.
        """
        async with self._one_reload:
            try:
                wanted = await asyncio.to_thread(self._verify)
            except (SurerecError, OSError, MemoryError) as error:
                log(logging.ERROR, "model not taken over", why=str(error))
                SWAPS.labels("failed").inc()
                return {"problem": _NOT_TAKEN_OVER}
            others = [
                worker
                for worker in self._workers.values()
                if worker.model is not None and worker.model != wanted
            ]
            prepared = await asyncio.gather(*(w.ask("prepare", model=wanted) for w in others))
            failed = [
                worker
                for worker, done in zip(others, prepared, strict=True)
                if not done and worker.process.returncode is None
            ]
            if failed:
                log(logging.ERROR, "model not taken over", why=f"{len(failed)} workers could not")
                SWAPS.labels("failed").inc()
                for worker in others:
                    worker.channel.say("discard")
                return {"problem": _NOT_TAKEN_OVER}
            ready = [worker for worker, done in zip(others, prepared, strict=True) if done]
            await asyncio.gather(*(worker.ask("swap") for worker in ready))
            changed = wanted != self._model
            self._model = wanted
            if changed:
                SWAPS.labels("done").inc()
                log(logging.INFO, "model taken over", model=wanted, workers=len(ready))
            return {"model": wanted, "changed": changed, "workers": len(self._workers)}

    def _verify(self) -> str:
        model = load(self._settings.model)
        try:
            return model.model_id
        finally:
            model.close()
            del model
            gc.collect()  # what compiling left behind may hold arrays of it
