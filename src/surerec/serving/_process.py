"""Worker processes: the socket that they share, the line to each, and how one is started."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surerec._threads import available_threads
from surerec.errors import InputError

if TYPE_CHECKING:
    from surerec.serving._settings import Settings

_BACKLOG = 1024
_UNACKNOWLEDGED_MS = 30_000
_LONGEST = 1 << 20


def listen(host: str, port: int) -> socket.socket:
    """Give a listening socket; InputError if the address or the port cannot be had."""
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror:
        raise InputError(f"{host!r} is no address of this machine; try 127.0.0.1.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} of {host} is in use by another program; choose another with --port, "
                "or 0 for a free one."
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{host!r} is no address of this machine; try 127.0.0.1.") from None
        raise InputError(f"Cannot listen on {host}:{port} ({error.strerror}).") from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        # Whoever asks and then never reads would hold the answer in memory for hours.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    return listener


def url_of(listener: socket.socket) -> str:
    """Give the address as a browser takes it."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Channel:
    """One end of the pair.

    Parameters
    ----------
    reader, writer
        Of :meth:`open`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Channel:
        """Use one end of a pair of sockets in this event loop."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LONGEST))

    def say(self, what: str, **fields: Any) -> None:
        """Send a message; to one who is gone it is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"what": what, **fields}).encode() + b"\n")

    async def hear(self) -> dict[str, Any] | None:
        """Wait for a message; None when the other end is gone."""
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


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
