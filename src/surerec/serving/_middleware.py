"""What every request passes: ids, security headers, a log line, and limits on its body."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import MutableHeaders

from surerec.serving._logs import error_fields, log
from surerec.serving._metrics import REFUSED, REQUESTS, SECONDS
from surerec.serving._problems import SORRY, Problem, problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SERVER_ERROR: Final = 500
_CLOSE = {"Connection": "close"}
_DRAINED = 8  # times the limit that is read and thrown away, so that the answer is seen
_DRAINED_SECONDS = 1.0


class Envelope:
    """Wraps every request and its answer.

    Parameters
    ----------
    app : ASGI application
        What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        begin = time.perf_counter()
        request_id = _request_id(scope)
        status = 0

        async def send_wrapped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        error_told: dict[str, Any] = {}
        try:
            await self._app(scope, receive, send_wrapped)
        except Exception as error:  # noqa: BLE001  # nothing of it may reach the client
            error_told = error_fields(error)
            if not status:
                await problem_response(SORRY)(scope, receive, send_wrapped)
        finally:
            seconds = time.perf_counter() - begin
            _tell(scope, request_id, status, seconds, error_told)


class Answering:
    """Answers with the problems that the layers inside raise.

    Inside CORS, so that a page of an allowed origin can read them.

    Parameters
    ----------
    app : ASGI application
        What may raise a Problem before it answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._app(scope, receive, send)
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)


def _request_id(scope: Scope) -> str:
    """Keep the id that a gateway gave, if it is one; else make one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return uuid.uuid4().hex


def _tell(
    scope: Scope, request_id: str, status: int, seconds: float, error: dict[str, Any]
) -> None:
    # The route's pattern, never the path or the query: those may name a person.
    route = getattr(scope.get("route"), "path", None) or "none"
    method = scope["method"] if scope["method"] in _KNOWN_METHODS else "other"
    REQUESTS.labels(method, route, str(status)).inc()
    SECONDS.labels(route).observe(seconds)
    level = logging.ERROR if error or status == _SERVER_ERROR else logging.INFO
    key = scope.get("surerec.key")
    log(
        level,
        "request",
        request_id=request_id,
        method=method,
        route=route,
        status=status,
        ms=round(seconds * 1000, 2),
        **({"key": key} if key else {}),
        **error,
    )


class BodyLimit:
    """Reads the body before anything looks at it.

    Parameters
    ----------
    app : ASGI application
        What gets the body in one piece.
    most : int
        Bytes.
    seconds : float
        Time that the whole body may take to come.
    """

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, whatever its method: any may have one."""
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._most:
            await self._refuse(receive)
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(receive)
        except TimeoutError:
            REFUSED.labels("slow").inc()
            raise Problem(408, "The request's body came too slowly.", headers=_CLOSE) from None
        if body is None:
            return  # the client went away
        if body and scope["method"] == "POST" and not _is_json(headers.get(b"content-type", b"")):
            raise Problem(415, "The body must be JSON: send 'Content-Type: application/json'.")
        given = False

        async def receive_body() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_body, send)

    async def _read(self, receive: Receive) -> bytes | None:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > self._most:
                await self._refuse(receive)
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _refuse(self, receive: Receive) -> None:
        # Closing on a client that is still sending would reset the connection, and our answer
        # with it; a little patience lets it be read.
        REFUSED.labels("size").inc()
        try:
            async with asyncio.timeout(_DRAINED_SECONDS):
                left = _DRAINED * self._most
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            pass
        raise Problem(
            413, f"The request's body is larger than {self._most:,} bytes.", headers=_CLOSE
        )


def _is_json(content_type: bytes) -> bool:
    kind = content_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or (
        kind.startswith(b"application/") and kind.endswith(b"+json")
    )
