"""Who may come in: the host asked for, the page that asks, the key, its scope and its rate."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import math
import mmap
import os
import struct
import time
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

from surerec.errors import InputError
from surerec.serving._logs import log
from surerec.serving._metrics import REFUSED
from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from surerec.serving._service import Service


_PUBLIC: Final = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
_PUBLIC_FOLDER: Final = "/static/"
_SCOPES: Final = {"/v1/events": "events"}
_NEED_KEY: Final = frozenset({"events", "admin"})  # on loopback too: any local process can connect
_SLOT: Final = struct.Struct("<Qd")
_N_SLOTS: Final = 1024
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_public(path: str) -> bool:
    """Tell whether anybody may have it: the page's own files, the description, health.

    Examples
    --------
    >>> is_public("/static/page.css"), is_public("/v1/model"), is_public("/anything-else")
    (True, False, False)
    """
    return path in _PUBLIC or path.startswith(_PUBLIC_FOLDER)


class Guard:
    """Lets in those who may come, before a byte of their body is read.

    Parameters
    ----------
    app : ASGI application
        What answers those.
    service : Service
        Settings, keys and rates.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._hosts = {host.lower() for host in service.settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        headers = {name: str(value, "latin-1") for name, value in scope["headers"]}
        self._check_host(headers.get(b"host", ""))
        self._check_origin(scope, headers)
        if not is_public(scope["path"]):
            needed = _scope_of(scope["path"])
            if self._service.keyring is not None:
                key_id = self._check_key(needed, headers.get(b"authorization", ""))
                scope["surerec.key"] = key_id
            elif needed in _NEED_KEY and not self._service.settings.insecure_admin:
                REFUSED.labels("key").inc()
                raise Problem(
                    403,
                    "Events and admin requests need an API key, and this server has none: start it "
                    "with --keys, or with --insecure-admin to accept them from any local process.",
                )
        await self._app(scope, receive, send)

    def _check_host(self, host: str) -> None:
        name = host.lower()
        if not name.endswith("]"):
            name = name.rpartition(":")[0] or name
        if self._hosts and name not in self._hosts and "*" not in self._hosts:
            REFUSED.labels("host").inc()
            raise Problem(
                421, "This server does not answer to that host name; see --allowed-hosts."
            )

    def _check_origin(self, scope: Scope, headers: dict[bytes, str]) -> None:
        """Refuse what another site's page makes a visitor's browser send."""
        origin = headers.get(b"origin")
        if origin is None or scope["method"] in _CHANGES_NOTHING:
            return
        allowed = self._service.settings.cors_origins
        try:
            same = urlsplit(origin).netloc == headers.get(b"host", "")
        except ValueError:  # no address at all, such as "http://["
            same = False
        if not same and origin not in allowed and "*" not in allowed:
            REFUSED.labels("origin").inc()
            raise Problem(403, "Pages of other sites may not call this server; see --cors-origins.")

    def _check_key(self, scope: str, authorization: str) -> str:
        kind, _, presented = authorization.partition(" ")
        if kind.lower() != "bearer" or not presented.strip():
            REFUSED.labels("key").inc()
            raise _unauthorized("This needs an API key: send it as 'Authorization: Bearer KEY'.")
        service = self._service
        assert service.keyring is not None  # noqa: S101  # asked only where keys are needed
        try:
            key = service.keyring.find(presented.strip())
        except InputError as error:
            log(logging.ERROR, "keys cannot be read", why=str(error))
            raise Problem(503, "The API keys cannot be read; the log says why.") from None
        if key is None:
            REFUSED.labels("key").inc()
            raise _unauthorized("This API key is not valid, or no longer.")
        if not key.may(scope):
            REFUSED.labels("scope").inc()
            raise Problem(403, f"This API key may not do that: it lacks the scope {scope}.")
        if service.rates is not None and (wait := service.rates.wait(key.key_id)) > 0:
            REFUSED.labels("rate").inc()
            raise Problem(
                429,
                f"This API key has asked too often; try again in {math.ceil(wait)} s.",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        return key.key_id


def _scope_of(path: str) -> str:
    """Return the scope that a key needs for a path."""
    return "admin" if path.startswith("/admin/") else _SCOPES.get(path, "read")


def _unauthorized(detail: str) -> Problem:
    return Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="surerec"'})


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
