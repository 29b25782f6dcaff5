"""A worker as its supervisor sees it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surerec._threads import available_threads
from surerec.serving._control import Channel

if TYPE_CHECKING:
    from surerec.serving._settings import Settings


class WorkerProcess:
    """A process, and the line to it."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.process = process
        self.channel = channel
        self.model: str | None = None
        """What it serves; None until it is ready."""
        self.started = time.monotonic()
        self.heard = self.started
        """When it last said anything."""
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._is_gone = False

    @classmethod
    async def start(cls, settings: Settings, listener: int, rates: int) -> WorkerProcess:
        """Give a worker process that was just started.

        A new interpreter, not a fork: threads of polars do not survive a fork. In a session of its
        own, so that Ctrl-C reaches only the supervisor, who lets it end what it is doing.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = {"listener": listener, "rates": rates, "control": theirs.fileno()}
            environment = dict(os.environ)
            share = max(1, available_threads() // settings.workers)
            environment.setdefault("SUREREC_THREADS", str(share))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "surerec.serving._worker",
                stdin=asyncio.subprocess.PIPE,
                pass_fds=tuple(descriptors.values()),
                start_new_session=True,
                env=environment,
            )
        given = {"settings": settings.model_dump(mode="json"), **descriptors}
        assert process.stdin is not None  # noqa: S101  # as it is a pipe
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(given).encode())
            process.stdin.write_eof()
        return cls(process, await Channel.open(ours))

    async def ask(self, what: str, **fields: Any) -> bool:
        """Give whether it did what it is told here; one that dies did not."""
        if self._is_gone:
            return False
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[what] = future
        self.channel.say(what, **fields)
        return await future

    def answer(self, what: str, *, done: bool) -> None:
        """Say that it did what it was asked, or could not."""
        future = self._waiting.pop(what, None)
        if future is not None and not future.done():
            future.set_result(done)

    def gone(self) -> None:
        """Give up on everything that it was asked, and whatever it will be."""
        self._is_gone = True
        for what in list(self._waiting):
            self.answer(what, done=False)
        self.channel.close()

    def kill(self) -> None:
        """End it now."""
        with suppress(ProcessLookupError):
            self.process.kill()
