"""HTTP as it comes over a connection, within limits of time, size and number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from surerec.serving._metrics import REFUSED
from surerec.serving._middleware import SECURITY_HEADERS
from surerec.serving._problems import PROBLEM_TYPE, Problem

if TYPE_CHECKING:
    import asyncio


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
    """

    head_seconds = 10.0
    """Time in which a request's head must be complete, and that a client may pause in reading."""
    most_connections = 1_000
    """One more is told to come back, and closed."""

    head_timer: asyncio.TimerHandle | None = None
    rest_timer: asyncio.TimerHandle | None = None
    unread_timer: asyncio.TimerHandle | None = None
    unread_since = 0.0
    patience = 0.0
    """Seconds for which the answer under way may still wait for its reader."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        most = self.config.h11_max_incomplete_event_size
        self.conn = StrictConnection(h11.SERVER, *(() if most is None else (most,)))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Paused as long as anything waits to be read: with a margin, the last bytes of an answer
        # could hold the connection.
        transport.set_write_buffer_limits(high=0)
        self.patience = self.head_seconds
        if len(self.connections) > self.most_connections:
            REFUSED.labels("connections").inc()
            self._say(
                Problem(503, "Too many connections; try again later.", headers={"Retry-After": "2"})
            )
            return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.our_state is not h11.DONE:
            self._rest_came()
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._await_head()
        else:
            self._head_came()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._rest_came()
        self._was_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a reader, for a time in proportion to what is unread, all in all."""
        super().pause_writing()
        self.unread_since = self.loop.time()
        self.patience += self.transport.get_write_buffer_size() / _LEAST_RATE
        self.unread_timer = self.loop.call_later(self.patience, self._unread)

    def resume_writing(self) -> None:
        self._was_read()
        super().resume_writing()

    def _was_read(self) -> None:
        if self.unread_timer is not None:
            self.unread_timer.cancel()
            self.unread_timer = None
            is_over = self.cycle is None or self.cycle.response_complete
            waited = self.loop.time() - self.unread_since
            self.patience = self.head_seconds if is_over else self.patience - waited

    def _unread(self) -> None:
        self.unread_timer = None
        REFUSED.labels("slow").inc()
        self.transport.abort()  # closing would wait until all is read

    def on_response_complete(self) -> None:
        if self.unread_timer is None:
            self.patience = self.head_seconds
        super().on_response_complete()
        answered = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if answered and not self.transport.is_closing():
            # Closing at once would reset the connection of a client that still sends, and the
            # answer would be lost with it.
            self.rest_timer = self.loop.call_later(_REST_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # ours is for people
        REFUSED.labels("garbage").inc()
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.close()  # this request's answer has begun: there is no second one
            return
        self._say(Problem(400, "This is not an HTTP request that can be understood."))

    def _await_head(self) -> None:
        # One timer for the whole head: a byte now and then does not prolong it.
        if self.head_timer is None:
            self.head_timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _head_came(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _rest_came(self) -> None:
        if self.rest_timer is not None:
            self.rest_timer.cancel()
            self.rest_timer = None

    def _too_slow(self) -> None:
        self.head_timer = None
        if not self.transport.is_closing():
            REFUSED.labels("slow").inc()
            self._say(Problem(408, "The request's head came too slowly."))

    def _say(self, problem: Problem) -> None:
        """Answer outside of any request, and close."""
        body = problem.body()
        headers = {
            **SECURITY_HEADERS,
            **problem.headers,
            "Content-Type": PROBLEM_TYPE,
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {problem.status} \r\n{head}\r\n".encode() + body)
        self.transport.close()


def guarded_protocol(seconds: float, most: int) -> type[GuardedProtocol]:
    """Give the protocol with limits of its own.

    Parameters
    ----------
    seconds : float
        Time in which a request's head must be complete.
    most : int
        Connections at a time.
    """
    limits = {"head_seconds": seconds, "most_connections": most}
    return type("LimitedProtocol", (GuardedProtocol,), limits)
