"""The supervisor of the worker processes, and their shared memory."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
import logging
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
from prometheus_client import multiprocess

from surerec._threads import available_threads
from surerec.errors import InputError
from surerec.serving._models import load
from surerec.serving._telemetry import RESTARTS, log

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.serving._settings import ServerSettings


_BACKLOG: Final = 1024
_UNACKNOWLEDGED_MS: Final = 30_000
_TICK: Final = 0.1
_SHORT_LIFE: Final = 10.0
_LONGEST_PAUSE: Final = 30.0
_BEYOND_SHUTDOWN: Final = 5.0
_SHARED: Final = np.dtype(
    [
        ("target", "S12"),  # id of the model that all workers should serve
        ("workers", [("seen", np.float64), ("model", "S12")], 64),  # heartbeat and served model
        ("rates", [("key", np.uint64), ("due", np.float64)], 1024),
    ]
)


def shared_memory() -> IO[bytes]:
    """Return memory shared by all processes: an unnamed file whose descriptor they inherit."""
    file = TemporaryFile()  # noqa: SIM115  # open while the server runs
    os.ftruncate(file.fileno(), _SHARED.itemsize)
    return file


def attach(descriptor: int) -> Any:
    """Return a view of the shared memory: "target", "workers" and "rates"."""
    return np.frombuffer(mmap.mmap(descriptor, _SHARED.itemsize), dtype=_SHARED)[0]


class RateLimits:
    """Rate limits of API keys (generic cell rate algorithm).

    A slot holds the time at which the requests of a key would be due at the allowed rate. A key may
    be ahead of it by `burst` requests.

    Parameters
    ----------
    descriptor : int
        Descriptor of the :func:`shared_memory`.
    rate : float
        Requests per second.
    burst : int
        Requests that may arrive at once.

    Examples
    --------
    >>> with shared_memory() as memory:
    ...     limits = RateLimits(memory.fileno(), rate=1.0, burst=2)
    ...     [limits.wait("ann", now=100.0) for _ in range(3)], limits.wait("bob", now=100.0)
    ([0.0, 0.0, 1.0], 0.0)
    """

    def __init__(self, descriptor: int, rate: float, burst: int) -> None:
        self._descriptor = descriptor
        self._slots = attach(descriptor)["rates"]
        self._gap = 1.0 / rate
        self._ahead = burst * self._gap

    def wait(self, key_id: str, now: float | None = None) -> float:
        """Count a request and return 0, or return the seconds until it is allowed."""
        # All processes share the monotonic clock.
        at = time.monotonic() if now is None else now
        tag = int.from_bytes(hashlib.blake2b(key_id.encode(), digest_size=8).digest(), "little")
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            known = np.flatnonzero(self._slots["key"] == tag)
            # A new key gets a free slot, or the one unused for longest.
            place = known[0] if len(known) else np.argmin(self._slots["due"])
            due = max(at, float(self._slots["due"][place])) if len(known) else at
            excess = due + self._gap - at - self._ahead
            if excess > 1e-9:  # noqa: PLR2004  # rounding errors
                return excess
            self._slots[place] = tag, due + self._gap
            return 0.0
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise InputError if the address or port is not available."""
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=kind, flags=flags)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]  # Python appends the address
        raise InputError(
            f"Cannot listen on {host}, port {port} ({why}). Use another --host, such as "
            "127.0.0.1, or another --port, or --port 0 for a free one."
        ) from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        # Otherwise a client that never reads keeps its response in memory for hours.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    return listener


def _url_of(listener: socket.socket) -> str:
    """Return the address as a URL."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


@dataclass
class _Place:
    """A slot for a worker, whose process is restarted when it ends."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    not_before: float = 0.0
    short_lives: int = 0


class Supervisor:
    """Runs the workers until SIGTERM or SIGINT, which stop it gracefully.

    SIGHUP makes the workers reload the model folder.

    Parameters
    ----------
    settings : ServerSettings
        Settings of the server.
    listener : socket
        Listening socket of all workers.
    memory : int
        Descriptor of the :func:`shared_memory`.
    """

    def __init__(self, settings: ServerSettings, listener: socket.socket, memory: int) -> None:
        self._settings = settings
        self._listener = listener
        self._memory = memory
        self._shared = attach(memory)
        self._places = [_Place(number) for number in range(settings.workers)]
        self._stopping = self._was_ready = self._failed = False

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Serve until stopped; raise InputError if the model cannot be loaded or workers fail.

        Parameters
        ----------
        on_ready : callable
            Called once with the address of the server, when all workers are ready.
        """
        stop, reload = self._on_stop, self._on_reload
        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        before = {number: signal.signal(number, each) for number, each in handlers.items()}
        try:
            model = load(self._settings.model, self._settings.scorer)
            self._shared["target"] = model.model_id.encode()
            model.close()
            del model
            gc.collect()  # compiled code may hold its arrays
            while not self._stopping:
                for place in self._places:
                    self._attend(place)
                if not self._was_ready and all(self._seen(place) for place in self._places):
                    self._was_ready = True
                    on_ready(_url_of(self._listener))
                time.sleep(_TICK)
            self._end_all()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._failed:
            raise InputError("The workers cannot start. See the log above for the reason.")

    def _on_stop(self, *_: Any) -> None:
        for place in self._places if self._stopping else ():  # a second signal: stop at once
            if place.process is not None:
                place.process.kill()
        self._stopping = True

    def _on_reload(self, *_: Any) -> None:
        """Signal one worker, which announces the new model to the others."""
        for place in self._places:
            if place.process is not None and self._seen(place):
                place.process.send_signal(signal.SIGHUP)
                break

    def _seen(self, place: _Place) -> float:
        """Return the time of a worker's last heartbeat; 0 before the first."""
        return float(self._shared["workers"]["seen"][place.number])

    def _attend(self, place: _Place) -> None:
        """Start a missing worker, kill a hanging one, and schedule the restart of an ended one."""
        now, process = time.monotonic(), place.process
        if process is None:
            if now >= place.not_before:
                place.process, place.started = self._start(place.number), now
            return
        seen = self._seen(place)
        if seen and now - seen > self._settings.worker_timeout:
            log(logging.ERROR, "worker hangs", worker=process.pid)
            process.kill()
            process.wait()
        code = process.poll()
        if code is None:
            return
        place.process = None
        self._shared["workers"][place.number] = 0.0, b""
        multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
        if not self._was_ready:
            self._failed = self._stopping = True
            return
        place.short_lives = place.short_lives + 1 if now - place.started < _SHORT_LIFE else 0
        pause = 0.0 if place.short_lives < 2 else 0.25 * 2.0**place.short_lives  # noqa: PLR2004
        place.not_before = now + min(pause, _LONGEST_PAUSE)
        RESTARTS.inc()
        log(logging.WARNING, "worker ended", worker=process.pid, code=code, pause=pause)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        """Start a worker process.

        It is a new interpreter, as threads of polars do not survive a fork. It has its own session,
        so that Ctrl-C reaches only the supervisor, which stops workers gracefully.
        """
        share = max(1, available_threads() // self._settings.workers)
        descriptors = {"listener": self._listener.fileno(), "memory": self._memory}
        settings = self._settings.model_dump(mode="json")
        given = json.dumps({"settings": settings, "number": number, **descriptors})
        return subprocess.Popen(  # noqa: S603  # our own command
            [sys.executable, "-P", "-m", "surerec.serving._worker", given],
            stdin=subprocess.DEVNULL,
            pass_fds=tuple(descriptors.values()),
            start_new_session=True,
            env={"SUREREC_THREADS": str(share), **os.environ},
        )

    def _end_all(self) -> None:
        running = [place.process for place in self._places if place.process is not None]
        for process in running:
            process.terminate()
        end = time.monotonic() + self._settings.shutdown_timeout + _BEYOND_SHUTDOWN
        for process in running:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                log(logging.WARNING, "worker did not stop in time", worker=process.pid)
                process.kill()
                process.wait()
