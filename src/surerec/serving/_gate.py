"""What every request passes before it is answered.

Its id, security headers and log line; the host, the origin and the API key; the limits of its body.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders

from surerec.errors import InputError
from surerec.serving._problems import SORRY, Problem, problem_response
from surerec.serving._telemetry import REFUSED, REQUESTS, SECONDS, error_fields, log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from surerec.serving._worker import Service


SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PUBLIC: Final = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
_NEED_KEY: Final = frozenset({"events", "admin"})  # on loopback too: any local process can connect
_SERVER_ERROR: Final = 500
_JSON: Final = re.compile(r"\s*application/([^;]+\+)?json\s*(;|$)", re.IGNORECASE)


class Envelope:
    """Gives every request an id, and its answer security headers, a log line and metrics.

    Parameters
    ----------
    app : ASGI application
        Answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        begin = time.perf_counter()
        headers = scope["surerec.headers"] = {
            str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]
        }
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):  # else a gateway gave it
            request_id = uuid.uuid4().hex
        status, failure = 0, {}

        async def send_wrapped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer = MutableHeaders(scope=message)
                answer["X-Request-ID"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    answer.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_wrapped)
        except Exception as error:  # noqa: BLE001  # nothing of it may reach the client
            failure = error_fields(error)
            if not status:
                await problem_response(SORRY)(scope, receive, send_wrapped)
        finally:
            _record(scope, request_id, status, time.perf_counter() - begin, failure)


def _record(
    scope: Scope, request_id: str, status: int, seconds: float, failure: dict[str, Any]
) -> None:
    # The route's pattern, never the path or the query: those may name a user.
    route = getattr(scope.get("route"), "path", None) or "none"
    method = scope["method"] if scope["method"] in _KNOWN_METHODS else "other"
    REQUESTS.labels(method, route, str(status)).inc()
    SECONDS.labels(route).observe(seconds)
    level = logging.ERROR if failure or status == _SERVER_ERROR else logging.INFO
    key = {"key": scope["surerec.key"]} if "surerec.key" in scope else {}
    ms = round(seconds * 1000, 2)
    about = {"request_id": request_id, "method": method, "route": route, "status": status, "ms": ms}
    log(level, "request", **about, **key, **failure)


class Gate:
    """Lets in what may come in, with its body read, and answers the problems raised inside.

    Parameters
    ----------
    app : ASGI application
        Gets the body in one piece.
    service : Service
        Settings, keys and rates.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._settings = service.settings
        self._hosts = {host.lower() for host in service.settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        headers: Mapping[str, str] = scope["surerec.headers"]
        try:
            self._check_host(headers.get("host", ""))
            self._check_origin(scope, headers)
            self._check_key(scope, headers)
            body = await self._body(receive, headers.get("content-length", ""))
            if body and scope["method"] == "POST":
                _check_json(headers.get("content-type", ""))
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
            return
        if body is None:
            return  # the client went away
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_body() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, receive_body, send)

    def _check_host(self, host: str) -> None:
        name = host.lower()
        if not name.endswith("]"):
            name = name.rpartition(":")[0] or name
        if self._hosts and name not in self._hosts and "*" not in self._hosts:
            _refuse("host", 421, "This server does not answer to that host; see --allowed-hosts.")

    def _check_origin(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Refuse what another site's page makes a visitor's browser send."""
        origin = headers.get("origin")
        if origin is None or scope["method"] in _CHANGES_NOTHING:
            return
        same = False
        with suppress(ValueError):  # no address at all, such as "http://["
            same = urlsplit(origin).netloc == headers.get("host", "")
        if not same and not {origin, "*"} & set(self._settings.cors_origins):
            _refuse("origin", 403, "Pages of other sites may not call this; see --cors-origins.")

    def _check_key(self, scope: Scope, headers: Mapping[str, str]) -> None:
        path, keyring = scope["path"], self._service.keyring
        if path in _PUBLIC or path.startswith("/static/"):
            return
        needed = "events" if path == "/v1/events" else "read"
        needed = "admin" if path.startswith("/admin/") else needed
        if keyring is None:
            if needed in _NEED_KEY and not self._settings.insecure_admin:
                _refuse(
                    "key",
                    403,
                    "Events and admin requests need an API key, and this server has none: start it "
                    "with --keys, or with --insecure-admin to accept them from any local process.",
                )
            return
        kind, _, presented = headers.get("authorization", "").partition(" ")
        who = {"WWW-Authenticate": 'Bearer realm="surerec"'}
        if kind.lower() != "bearer" or not presented.strip():
            message = "This needs an API key: send it as 'Authorization: Bearer KEY'."
            _refuse("key", 401, message, who)
        try:
            key = keyring.find(presented.strip())
        except InputError as error:
            log(logging.ERROR, "keys cannot be read", why=str(error))
            raise Problem(503, "The API keys cannot be read; the log has the reason.") from None
        if key is None:
            _refuse("key", 401, "This API key is not valid, or no longer.", who)
        if not key.may(needed):
            _refuse("scope", 403, f"This API key may not do that: it lacks the scope {needed}.")
        wait = math.ceil(self._service.rates.wait(key.key_id))
        if wait:
            message = f"This API key has asked too often; try again in {wait} s."
            _refuse("rate", 429, message, {"Retry-After": str(wait)})
        scope["surerec.key"] = key.key_id

    async def _body(self, receive: Receive, declared: str) -> bytes | None:
        """Return the body, whatever the method: any may have one; None if the client is gone."""
        most, body, more = self._settings.max_body, bytearray(), True
        size = int(declared) if declared.isdecimal() else 0
        try:
            async with asyncio.timeout(self._settings.receive_timeout):
                while more and max(size, len(body)) <= most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            _refuse("slow", 408, "The request's body came too slowly.")
        if max(size, len(body)) > most:
            _refuse("size", 413, f"The request's body is larger than {most:,} bytes.")
        return bytes(body)


def _check_json(content_type: str) -> None:
    if not _JSON.match(content_type):
        raise Problem(415, "The body must be JSON: send 'Content-Type: application/json'.")


def _refuse(
    reason: str, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> NoReturn:
    """Count a refusal and raise its problem."""
    REFUSED.labels(reason).inc()
    raise Problem(status, detail, headers=headers)
