"""A request's body: all of it within a size and a time, or none of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from surerec.serving._metrics import REFUSED
from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_CLOSE = {"Connection": "close"}
_DRAINED = 8  # times the limit that is read and thrown away, so that the answer is seen
_DRAINED_SECONDS = 1.0


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
