"""Malformed and invalid HTTP requests to a server on loopback.

The server never answers 5xx except for the documented 503. Every error is a problem document of one
sentence. No worker ends, the log has no traceback, and memory does not grow.
"""

from __future__ import annotations

import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx

from benchmarks.serving_processes import Served, resident_bytes
from fuzz.messages import Message, draw
from fuzz.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORKERS: Final = 2
_AT_ONCE: Final = 4
_SECONDS: Final = 20.0
_PROBLEM: Final = "application/problem+json"
_BUSY: Final = 503
_MOST_GROWTH: Final = 200 << 20
_WARM_UP: Final = 100


def run(n: int, random_state: int) -> Tally:
    """Send `n` requests to a server, after some to warm up, on one connection each."""
    from fuzz import models  # noqa: PLC0415  # slow to import

    tally = Tally("requests")
    with TemporaryDirectory() as name:
        folder = models.save(Path(name))[0]
        with Served(folder, _WORKERS) as server:
            _send(
                Tally("warm-up"),
                server,
                [(random_state, -1 - number) for number in range(_WARM_UP)],
            )
            before = resident_bytes(server.process.pid)
            _send(tally, server, [(random_state, number) for number in range(n)])
            _check_server(tally, server, before)
    return tally


def _send(tally: Tally, server: Served, seeds: Sequence[tuple[int, int]]) -> None:
    paths = httpx.get(f"{server.url}openapi.json").json()["paths"]
    address = urlsplit(server.url)
    place = (str(address.hostname), int(address.port or 0))

    def one(seed: tuple[int, int]) -> Tally:
        mine = Tally(tally.kind)
        message = draw(paths, random.Random(repr(seed)))
        example = f"random_state {seed[0]}, request {seed[1]}: {message.data[:300]!r}"
        _try(mine, place, message, example)
        return mine

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for each in threads.map(one, seeds):
            tally.merge(each)


def _try(tally: Tally, place: tuple[str, int], message: Message, example: str) -> None:
    answer: HTTPResponse | None = None
    body = b""
    try:
        with socket.create_connection(place, timeout=_SECONDS) as connection:
            try:
                for piece in message.pieces():
                    connection.sendall(piece)
                    time.sleep(message.pause)
            except OSError:
                pass  # the server closed the connection
            if message.hangs_up:
                tally.answered += 1
                return
            answer = HTTPResponse(connection, method=message.method)
            answer.begin()
            body = answer.read()
    except TimeoutError:
        tally.fail(f"no answer in {_SECONDS:.0f} s", example)
        return
    except (HTTPException, OSError) as error:
        # A client that sends on after an error may lose the answer: that is how TCP works.
        if message.is_long:
            tally.refused += 1
            tally.notes["connections closed during a long request"] += 1
        else:
            tally.fail(f"no answer: {type(error).__name__}", example)
        return
    _judge(tally, message, answer, body, example)


def _judge(tally: Tally, message: Message, answer: HTTPResponse, body: bytes, example: str) -> None:
    status = answer.status
    if status < 400:
        tally.answered += 1
    elif status >= 500 and status != _BUSY:
        tally.fail(f"status {status}", example)
    elif wrong := _what_is_wrong(answer, body, has_body=message.method != "HEAD"):
        tally.fail(f"status {status}: {wrong}", example)
    else:
        tally.refused += 1
        if status == _BUSY:
            tally.notes["busy (503)"] += 1


def _what_is_wrong(answer: HTTPResponse, body: bytes, *, has_body: bool) -> str:
    if answer.getheader("content-type") != _PROBLEM:
        return f"an error of type {answer.getheader('content-type')}"
    if not has_body:
        return ""
    try:
        reply: Any = json.loads(body)
        detail = reply["detail"]
    except (ValueError, KeyError, TypeError):
        return "an error without a problem document"
    if reply.get("status") != answer.status or "\n" in detail or not detail.endswith((".", "?")):
        return "an error without a sentence"
    return "a leak" if any(leak in detail for leak in ("Traceback", ".py", "/tmp")) else ""  # noqa: S108


def _check_server(tally: Tally, server: Served, before: int) -> None:
    """Check that the server is intact."""
    for line in server.lines("worker ended"):
        tally.fail("a worker ended", json.dumps(line))
    if server.ready_workers() != _WORKERS:
        tally.fail("workers are missing", str(server.ready_workers()))
    if "Traceback" in server.log():
        tally.fail("a traceback in the log", server.log().partition("Traceback")[2][:500])
    grown = resident_bytes(server.process.pid) - before
    tally.notes["growth of the server in megabytes"] = max(0, grown >> 20)
    if grown > _MOST_GROWTH:
        tally.fail("memory grows", f"{grown:,} bytes")
