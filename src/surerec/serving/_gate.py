"""Checks around every request: connections, timeouts, host, origin, API key and body size.

It also adds the request id, security headers, a log line and metrics.
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

import h11
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from surerec.errors import InputError
from surerec.serving._problems import INTERNAL_ERROR, Problem, problem_response
from surerec.serving._telemetry import REFUSED, REQUESTS, SECONDS, error_fields, log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from surerec.serving._service import Service
    from surerec.serving._settings import ServerSettings


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
    "Cache-Control": "no-cache",  # browsers revalidate files by their ETag
}
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PUBLIC: Final = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
_NO_KEYS: Final = (
    "Events and admin requests need an API key, but this server has no keys. Start it with --keys, "
    "or with --insecure-admin to accept them from any local process."
)
_SERVER_ERROR: Final = 500
_JSON: Final = re.compile(r"\s*application/([^;]+\+)?json\s*(;|$)", re.IGNORECASE)
_LONGEST_HEAD = 16_384
_REST_SECONDS = 1.0  # to drain a request that was answered before its end
_LEAST_RATE = 16_384  # bytes per second at which a client must read
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})

_LENIENT = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a bare line feed, or a folded header


class Gate:
    """Middleware that checks requests, reads their bodies and sends error responses.

    It adds a request id, security headers, a log line and metrics.

    Parameters
    ----------
    app : ASGI application
        The inner application, which gets the body in one message.
    service : Service
        State of the worker.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._settings = service.settings
        self._hosts = {host.lower() for host in service.settings.hosts}
        self._checked: ASGIApp = self._check
        if self._settings.cors_origins:  # outside the checks, so that pages can read errors
            self._checked = CORSMiddleware(
                self._check,
                allow_origins=list(self._settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
                expose_headers=["Retry-After", "Surerec-Model", "X-Request-ID"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        begin = time.perf_counter()
        headers = scope["surerec.headers"] = {
            str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]
        }
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):  # otherwise a proxy has set it
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
            await self._checked(scope, receive, send_wrapped)
        except Exception as error:  # noqa: BLE001  # no detail may reach the client
            failure = error_fields(error)
            if not status:
                await problem_response(INTERNAL_ERROR)(scope, receive, send_wrapped)
        finally:
            _record(scope, request_id, status, time.perf_counter() - begin, failure)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on, or send an error."""
        headers: Mapping[str, str] = scope["surerec.headers"]
        try:
            self._check_host(headers.get("host", ""))
            self._check_origin(scope, headers)
            self._check_key(scope, headers)
            body = await self._body(receive, headers.get("content-length", ""))
            is_json = _JSON.match(headers.get("content-type", ""))
            if body and scope["method"] == "POST" and not is_json:
                _refuse(
                    "type",
                    415,
                    "The body is not declared as JSON. Send 'Content-Type: application/json'.",
                )
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
            return
        if body is None:
            return  # the client disconnected
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_body() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, receive_body, send)

    def _check_host(self, host: str) -> None:
        name = host.lower()
        if not name.endswith("]"):
            name = name.rpartition(":")[0] or name
        if self._hosts and name not in self._hosts and "*" not in self._hosts:
            _refuse("host", 421, "This host name is not accepted. Add it with --allowed-hosts.")

    def _check_origin(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Refuse requests that other web sites send through a visitor's browser."""
        origin = headers.get("origin")
        if origin is None or scope["method"] in _CHANGES_NOTHING:
            return
        same = False
        with suppress(ValueError):  # invalid, such as "http://["
            same = urlsplit(origin).netloc == headers.get("host", "")
        if not same and not {origin, "*"} & set(self._settings.cors_origins):
            _refuse("origin", 403, "This origin is not accepted. Add it with --cors-origins.")

    def _check_key(self, scope: Scope, headers: Mapping[str, str]) -> None:
        path, keyring = scope["path"], self._service.keyring
        if path in _PUBLIC or path.startswith("/static/"):
            return
        needed = "events" if path == "/v1/events" else "read"
        needed = "admin" if path.startswith("/admin/") else needed
        if keyring is None:
            # Also on loopback, as any local process can connect.
            if needed != "read" and not self._settings.insecure_admin:
                _refuse("key", 403, _NO_KEYS)
            return
        kind, _, presented = headers.get("authorization", "").partition(" ")
        who = {"WWW-Authenticate": 'Bearer realm="surerec"'}
        if kind.lower() != "bearer" or not presented.strip():
            message = "The API key is missing. Send it as 'Authorization: Bearer KEY'."
            _refuse("key", 401, message, who)
        try:
            key = keyring.find(presented.strip())
        except InputError as error:
            log(logging.ERROR, "keys cannot be read", reason=str(error))
            raise Problem(503, "The server cannot read its API keys. See its log.") from None
        if key is None:
            _refuse("key", 401, "This API key is not valid. Ask the operator for another one.", who)
        if not key.may(needed):
            _refuse("scope", 403, f"This API key lacks the scope {needed}. Use another key.")
        wait = math.ceil(self._service.rates.wait(key.key_id))
        if wait:
            message = f"This API key exceeds its rate limit. Retry in {wait} s."
            _refuse("rate", 429, message, {"Retry-After": str(wait)})
        scope["surerec.key"] = key.key_id

    async def _body(self, receive: Receive, declared: str) -> bytes | None:
        """Return the body, for any method; None if the client disconnected."""
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
            _refuse("slow", 408, "The request body arrived too slowly. Send it again.")
        if max(size, len(body)) > most:
            _refuse("size", 413, f"The request body exceeds {most:,} bytes. Send smaller requests.")
        return bytes(body)


def _record(
    scope: Scope, request_id: str, status: int, seconds: float, failure: dict[str, Any]
) -> None:
    # The route pattern, never the path or the query, which may contain a user id.
    route = getattr(scope.get("route"), "path", None) or "none"
    method = scope["method"] if scope["method"] in _KNOWN_METHODS else "other"
    REQUESTS.labels(method, route, str(status)).inc()
    SECONDS.labels(route).observe(seconds)
    level = logging.ERROR if failure or status == _SERVER_ERROR else logging.INFO
    key = {"key": scope["surerec.key"]} if "surerec.key" in scope else {}
    ms = round(seconds * 1000, 2)
    about = {"request_id": request_id, "method": method, "route": route, "status": status, "ms": ms}
    log(level, "request", **about, **key, **failure)


def _refuse(
    reason: str, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> NoReturn:
    """Count a refusal and raise its error."""
    REFUSED.labels(reason).inc()
    raise Problem(status, detail, headers=headers)


class StrictConnection(h11.Connection):
    """h11's parser, stricter where a proxy may parse differently.

    Such differences allow request smuggling.
    """

    def next_event(self) -> Any:
        """Return the next event; raise RemoteProtocolError for ambiguous input."""
        in_body = self.their_state is h11.SEND_BODY
        before = self.trailing_data[0] if in_body else b""
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(b"\r\n\r\n")[0]
            if _LENIENT.search(head):
                raise h11.RemoteProtocolError("bare line feed or folded header")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if names >= _FRAMING:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        elif in_body and isinstance(event, h11.EndOfMessage):
            self._check_trailers(before[: len(before) - len(self.trailing_data[0])], event)
        return event

    def _check_trailers(self, end: bytes, event: h11.EndOfMessage) -> None:
        """Refuse an ambiguous end of a chunked body."""
        if len(end) > 1:
            end = end.removeprefix(b"\n")  # line end of the last chunk
        if _LENIENT.search(end) or any(name in _FRAMING for name, _ in event.headers):
            raise h11.RemoteProtocolError("bare line feed, folded or framing header in a trailer")


class GuardedProtocol(H11Protocol):
    """uvicorn's protocol with further limits.

    It uses h11, which limits the size of headers, unlike httptools.

    Parameters
    ----------
    settings : ServerSettings
        Limits `receive_timeout` and `max_connections`.
    **given
        Arguments of uvicorn.
    """

    def __init__(self, settings: ServerSettings, **given: Any) -> None:
        super().__init__(**given)
        self.conn = StrictConnection(h11.SERVER, _LONGEST_HEAD)
        self._settings = settings
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Paused while anything is unread; with a margin, the last bytes of a response could hold
        # the connection.
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self._settings.max_connections:
            later = {"Retry-After": "2"}
            busy = Problem(503, "Too many connections. Retry later.", headers=later)
            self._answer("connections", busy)
        else:
            self._start("head", self._settings.receive_timeout, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.our_state is not h11.DONE:
            self._cancel("rest")
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._start("head", self._settings.receive_timeout, self._too_slow)
        else:
            self._cancel("head")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._cancel(name)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client, for a time in proportion to the unread bytes."""
        super().pause_writing()
        unread = self.transport.get_write_buffer_size() / _LEAST_RATE
        self._start("read", self._settings.receive_timeout + unread, self._unread)

    def resume_writing(self) -> None:
        self._cancel("read")
        super().resume_writing()

    def _unread(self) -> None:
        REFUSED.labels("slow").inc()
        self.transport.abort()  # close() would wait for the client

    def on_response_complete(self) -> None:
        super().on_response_complete()
        answered = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if answered and not self.transport.is_closing():
            # Closing at once would reset the connection of a client that still sends, which
            # would lose the response.
            self._start("rest", _REST_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # sends problem+json instead
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            problem = Problem(400, "The request is not valid HTTP. Check the client or the proxy.")
            self._answer("garbage", problem)
        else:
            REFUSED.labels("garbage").inc()
            self.transport.close()  # a response has already begun

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self._answer("slow", Problem(408, "The headers arrived too slowly. Send them again."))

    def _start(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Start a timer unless it runs, so that single bytes do not prolong it."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, action)

    def _cancel(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()

    def _answer(self, reason: str, problem: Problem) -> None:
        """Send an error outside of any request, and close."""
        REFUSED.labels(reason).inc()
        response = problem_response(problem)
        response.headers.update({**SECURITY_HEADERS, "Connection": "close"})
        head = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
        status = f"HTTP/1.1 {problem.status_code} \r\n".encode()
        self.transport.write(status + head + b"\r\n" + response.body)
        self.transport.close()
