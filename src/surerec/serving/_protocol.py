"""HTTP as it comes over a connection, within limits of time, size and number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from surerec.serving._gate import SECURITY_HEADERS
from surerec.serving._problems import Problem, problem_response
from surerec.serving._telemetry import REFUSED

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from surerec.serving._settings import ServerSettings

_LONGEST_HEAD = 16_384
_REST_SECONDS = 1.0  # for the rest of a request that was answered before it ended
_LEAST_RATE = 16_384  # bytes a second at which an answer must be read
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})

_LENIENT = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a bare line feed, or a folded header


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
            self._await_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.our_state is not h11.DONE:
            self._cancel("rest")
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._await_head()
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

    def _await_head(self) -> None:
        self._start("head", self._settings.receive_timeout, self._too_slow)

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
        status = f"HTTP/1.1 {problem.status} \r\n".encode()
        self.transport.write(status + head + b"\r\n" + response.body)
        self.transport.close()
