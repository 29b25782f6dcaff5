"""Who may come in: the host asked for, the page that asks, the key, its scope and its rate."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final
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
