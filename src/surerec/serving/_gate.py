"""What every request passes before it is answered.

Limits of time, size and number of connections; its id, security headers and log line; the host, the
origin and the API key; the limits of its body.
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
from surerec.serving._problems import SORRY, Problem, problem_response
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
    "Cache-Control": "no-cache",  # files are asked for again, and answered by their ETag
}
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PUBLIC: Final = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
_NO_KEYS: Final = (
    "Events and admin requests need an API key, and this server has none: start it with --keys, or "
    "with --insecure-admin to accept them from any local process."
)
_SERVER_ERROR: Final = 500
_JSON: Final = re.compile(r"\s*application/([^;]+\+)?json\s*(;|$)", re.IGNORECASE)
_LONGEST_HEAD = 16_384
_REST_SECONDS = 1.0  # for the rest of a request that was answered before it ended
_LEAST_RATE = 16_384  # bytes a second at which an answer must be read
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})

_LENIENT = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a bare line feed, or a folded header


class Gate:
    """Lets in what may come in, with its body read, and answers the problems raised inside.

    Every request gets an id, and its answer security headers, a log line and metrics.

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
        self._checked: ASGIApp = self._check
        if self._settings.cors_origins:  # around the checks: a page may read why it was refused
            self._checked = CORSMiddleware(
                self._check,
                allow_origins=list(self._settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
                expose_headers=["Retry-After", "Surerec-Model", "X-Request-ID"],
            )

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
            await self._checked(scope, receive, send_wrapped)
        except Exception as error:  # noqa: BLE001  # nothing of it may reach the client
            failure = error_fields(error)
            if not status:
                await problem_response(SORRY)(scope, receive, send_wrapped)
        finally:
            _record(scope, request_id, status, time.perf_counter() - begin, failure)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        headers: Mapping[str, str] = scope["surerec.headers"]
        try:
            self._check_host(headers.get("host", ""))
            self._check_origin(scope, headers)
            self._check_key(scope, headers)
            body = await self._body(receive, headers.get("content-length", ""))
            is_json = _JSON.match(headers.get("content-type", ""))
            if body and scope["method"] == "POST" and not is_json:
                _refuse(
                    "type", 415, "The body must be JSON: send 'Content-Type: application/json'."
                )
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
            # On loopback too: any local process can connect.
            if needed != "read" and not self._settings.insecure_admin:
                _refuse("key", 403, _NO_KEYS)
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


def _refuse(
    reason: str, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> NoReturn:
    """Count a refusal and raise its problem."""
    REFUSED.labels(reason).inc()
    raise Problem(status, detail, headers=headers)


class StrictConnection(h11.Connection):
    """h11's parser without the forms that a proxy in front may read differently.

    Such a difference lets one request hide in another (request smuggling).
    """

    def next_event(self) -> Any:
        """Return the next event; RemoteProtocolError for what can be read in two ways."""
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
        """Refuse an end of a chunked body that can be read in two ways."""
        if len(end) > 1:
            end = end.removeprefix(b"\n")  # of the line end behind the chunk before
        if _LENIENT.search(end) or any(name in _FRAMING for name, _ in event.headers):
            raise h11.RemoteProtocolError("bare line feed, folded or framing header in a trailer")


class GuardedProtocol(H11Protocol):
    """uvicorn's protocol with limits that it lacks.

    h11 rather than httptools, because h11 bounds the size of a head.

    Parameters
    ----------
    settings : ServerSettings
        With the limits: `receive_timeout` and `max_connections`.
    **given
        From uvicorn.
    """

    def __init__(self, settings: ServerSettings, **given: Any) -> None:
        super().__init__(**given)
        self.conn = StrictConnection(h11.SERVER, _LONGEST_HEAD)
        self._settings = settings
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Paused as long as anything waits to be read: with a margin, the last bytes of an answer
        # could hold the connection.
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self._settings.max_connections:
            later = {"Retry-After": "2"}
            busy = Problem(503, "Too many connections; try again later.", headers=later)
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
        """Wait for a reader, for a time in proportion to what is unread."""
        super().pause_writing()
        unread = self.transport.get_write_buffer_size() / _LEAST_RATE
        self._start("read", self._settings.receive_timeout + unread, self._unread)

    def resume_writing(self) -> None:
        self._cancel("read")
        super().resume_writing()

    def _unread(self) -> None:
        REFUSED.labels("slow").inc()
        self.transport.abort()  # closing would wait until all is read

    def on_response_complete(self) -> None:
        super().on_response_complete()
        answered = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if answered and not self.transport.is_closing():
            # Closing at once would reset the connection of a client that still sends, and the
            # answer would be lost with it.
            self._start("rest", _REST_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # ours is a problem
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            problem = Problem(400, "This is not an HTTP request that can be understood.")
            self._answer("garbage", problem)
        else:
            REFUSED.labels("garbage").inc()
            self.transport.close()  # this request's answer has begun: there is no second one

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self._answer("slow", Problem(408, "The request's head came too slowly."))

    def _start(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Start a timer, unless it runs: a byte now and then does not prolong it."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, action)

    def _cancel(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()

    def _answer(self, reason: str, problem: Problem) -> None:
        """Answer outside of any request, and close."""
        REFUSED.labels(reason).inc()
        response = problem_response(problem)
        response.headers.update({**SECURITY_HEADERS, "Connection": "close"})
        head = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
        status = f"HTTP/1.1 {problem.status_code} \r\n".encode()
        self.transport.write(status + head + b"\r\n" + response.body)
        self.transport.close()
