"""A worker process: one event loop that answers, some threads that compute."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import uvicorn

from surerec.errors import SurerecError
from surerec.serving._app import create_app
from surerec.serving._keys import KeyFile, Keyring
from surerec.serving._living import load
from surerec.serving._logs import configure, error_fields, log
from surerec.serving._metrics import HELD, MODEL_TIME, WORKERS
from surerec.serving._models import ModelHolder
from surerec.serving._process import Channel
from surerec.serving._protocol import guarded_protocol
from surerec.serving._service import RateLimits, Service, WorkQueue
from surerec.serving._settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable


CANNOT_SERVE = 3
"""The exit code of a worker that could not load its model."""

_ACCEPTED_AT_ONCE = 4
_LONGEST_HEAD = 16_384
_RELOAD_SECONDS = 300.0


class _SharedSocket(socket.socket):
    """The listening socket of all workers."""

    def listen(self, backlog: int = 0) -> None:
        """Leave the queue as the supervisor set it.

        asyncio takes its backlog for two things: the queue's length, and how many connections one
        worker accepts in a row, which should be few, so that the others get some.
        """


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it answers."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()


class Worker:
    """Serves until it is told to stop, or until the supervisor is gone."""

    def __init__(self, settings: Settings, channel: Channel, rate_memory: int) -> None:
        self._settings = settings
        self._channel = channel
        self._models = ModelHolder(load(settings.model), load)
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        work = WorkQueue(settings.threads, settings.queue, settings.request_timeout, HELD.set)
        self._service = Service(
            settings,
            self._models,
            work,
            self._ask_reload,
            is_stopping=lambda: self._server.should_exit,
        )
        if settings.keys is not None:
            self._service.keyring = Keyring(KeyFile(settings.keys))
            self._service.rates = RateLimits(rate_memory, settings.rate, settings.burst)
        config = uvicorn.Config(
            create_app(self._service),
            http=guarded_protocol(settings.receive_timeout, settings.max_connections),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # any number will do
            timeout_graceful_shutdown=settings.shutdown_timeout,  # type: ignore[arg-type]
            h11_max_incomplete_event_size=_LONGEST_HEAD,
        )
        self._server = _Server(config, self._say_ready)

    async def run(self, listener: socket.socket) -> None:
        """Serve until told to stop."""
        listening = asyncio.create_task(self._listen())
        await self._server.serve(sockets=[listener])
        WORKERS.set(0)
        listening.cancel()
        await asyncio.to_thread(self._models.current.close)

    def _say_ready(self) -> None:
        WORKERS.set(1)
        MODEL_TIME.set(time.time())
        self._channel.say("ready", model=self._models.current.model_id)

    async def _listen(self) -> None:
        while (message := await self._channel.hear()) is not None:
            what = message["what"]
            if what == "prepare":
                await self._prepare(message["model"])
            elif what == "swap":
                self._models.swap()
                MODEL_TIME.set(time.time())
                self._channel.say("swapped", model=self._models.current.model_id)
            elif what == "discard":
                self._models.discard()
            elif what == "reloaded":
                future = self._answers.pop(message["number"], None)
                if future is not None and not future.done():
                    future.set_result(message["result"])
            elif what == "ping":
                self._channel.say("pong")
                self._refresh()
            elif what == "stop":
                break
        # Told to stop, or the supervisor is gone: nobody would restart us, so nobody needs us.
        self._server.should_exit = True

    def _refresh(self) -> None:
        """Bring a live model up to date in the background: an idle worker would keep old files."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(asyncio.to_thread(self._models.current.refresh))

    async def _prepare(self, wanted: str) -> None:
        try:
            await asyncio.to_thread(self._models.prepare, self._settings.model, wanted)
        except Exception as error:  # noqa: BLE001  # whatever it is, the old model stays
            log(logging.ERROR, "model not prepared", **error_fields(error))
            self._channel.say("unprepared", model=wanted)
        else:
            self._channel.say("prepared", model=wanted)

    async def _ask_reload(self) -> dict[str, Any]:
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        self._channel.say("reload", number=number)
        try:
            async with asyncio.timeout(_RELOAD_SECONDS):
                return await future
        except TimeoutError:
            return {
                "problem": "The takeover has not ended yet; the log will say what became of it."
            }


async def _serve(given: dict[str, Any]) -> int:
    settings = Settings.model_validate(given["settings"])
    configure(settings.log_level, settings.log_format)
    channel = await Channel.open(socket.socket(fileno=given["control"]))
    try:
        worker = Worker(settings, channel, given["rates"])
    except SurerecError as error:
        log(logging.ERROR, "worker cannot serve", why=str(error))
        return CANNOT_SERVE
    await worker.run(_SharedSocket(fileno=given["listener"]))
    channel.close()
    return 0


def main() -> None:
    """Run a worker; started by the supervisor only."""
    given = json.loads(sys.stdin.read())
    # A progress bar is for a person at a terminal, not for a log.
    os.environ["TTY_COMPATIBLE"] = "0"
    sys.exit(asyncio.run(_serve(given)))


if __name__ == "__main__":
    main()
