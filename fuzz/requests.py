"""HTTP requests, malformed and merely wrong: each is answered, or refused in a sentence.

A real server on loopback, asked by raw bytes: no 5xx but the documented 503, every refusal a
problem of one sentence, no worker lost, no traceback in the log, and memory that does not grow.
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
    """Send `n` requests to a server, one connection each, and some more to warm up."""
    from fuzz import models  # noqa: PLC0415  # numba takes seconds, and `--help` none

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
            _look_after(tally, server, before)
    return tally


def _send(tally: Tally, server: Served, probabilities: Sequence[tuple[int, int]]) -> None:
    paths = httpx.get(f"{server.url}openapi.json").json()["paths"]
    address = urlsplit(server.url)
    place = (str(address.hostname), int(address.port or 0))

    def one(chance_of: tuple[int, int]) -> Tally:
        mine = Tally(tally.kind)
        message = draw(paths, random.Random(repr(chance_of)))
        example = f"seed {chance_of[0]}, request {chance_of[1]}: {message.data[:300]!r}"
        _try(mine, place, message, example)
        return mine

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for each in threads.map(one, probabilities):
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
                pass  # it had heard enough
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
        # Whoever sends on after a refusal may lose the answer to it: TCP has it so.
        if message.is_long:
            tally.refused += 1
            tally.notes["connections closed on who sent too much"] += 1
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
        return f"a refusal of type {answer.getheader('content-type')}"
    if not has_body:
        return ""
    try:
        told: Any = json.loads(body)
        detail = told["detail"]
    except (ValueError, KeyError, TypeError):
        return "a refusal that is no problem"
    if told.get("status") != answer.status or "\n" in detail or not detail.endswith((".", "?")):
        return "a refusal that is no sentence"
    return "a leak" if any(leak in detail for leak in ("Traceback", ".py", "/tmp")) else ""  # noqa: S108


def _look_after(tally: Tally, server: Served, before: int) -> None:
    """See that the server is as it was."""
    for line in server.lines("worker ended"):
        tally.fail("a worker ended", json.dumps(line))
    if server.ready_workers() != _WORKERS:
        tally.fail("workers are missing", str(server.ready_workers()))
    if "Traceback" in server.log():
        tally.fail("a traceback in the log", server.log().partition("Traceback")[2][:500])
    grown = resident_bytes(server.process.pid) - before
    tally.notes["megabytes that the server has grown by"] = max(0, grown >> 20)
    if grown > _MOST_GROWTH:
        tally.fail("memory grows", f"{grown:,} bytes")
