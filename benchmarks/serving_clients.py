"""HTTP clients: wrk if installed, else our own; and a check of the answers."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

import surerec as sr
from surerec.serving._models import model_id
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.serving_processes import Served

_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_K = 10
_N_USERS = 200


def timings(url: str, body: bytes, n_connections: int, seconds: float) -> dict[str, float]:
    """Repeat a request; return requests per second, and the median and 99th percentile in ms."""
    if shutil.which("wrk"):
        return _wrk(url, body, n_connections, seconds)
    return asyncio.run(_ask_for(url, body, n_connections, seconds))


def _wrk(url: str, body: bytes, n_connections: int, seconds: float) -> dict[str, float]:
    with TemporaryDirectory() as name:
        script = Path(name) / "ask.lua"
        script.write_text(
            'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
            f"wrk.body = [==[{body.decode()}]==]\n"
        )
        command = ["wrk", "-t1", f"-c{n_connections}", "--latency", "-s", str(script), url]
        for length in ("1s", f"{max(1, round(seconds))}s"):  # the first warms up
            time.sleep(0.5)  # until earlier requests are finished
            done = subprocess.run(  # noqa: S603  # our own command
                [*command, f"-d{length}"], capture_output=True, text=True, check=True
            )
    if "Socket errors" in done.stdout:
        raise SystemExit(done.stdout)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    percentiles = {
        name: float(number) * _UNITS[unit]
        for name, number, unit in re.findall(r"(\d\d)%\s+([\d.]+)(us|ms|s)", done.stdout)
    }
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    assert rate is not None
    return {
        "rate": float(rate[1]),
        "p50": percentiles["50"],
        "p99": percentiles["99"],
        "refused": float(refused[1]) if refused else 0.0,
    }


async def _ask_for(url: str, body: bytes, n_connections: int, seconds: float) -> dict[str, float]:
    consumed: list[float] = []
    async with httpx.AsyncClient(headers={"Content-Type": "application/json"}) as client:

        async def ask(end: float) -> None:
            while time.perf_counter() < end:
                begin = time.perf_counter()
                (await client.post(url, content=body)).raise_for_status()
                consumed.append(time.perf_counter() - begin)

        for length in (1.0, seconds):
            consumed.clear()
            end = time.perf_counter() + length
            await asyncio.gather(*(ask(end) for _ in range(n_connections)))
    p50, p99 = np.percentile(consumed, [50, 99]) * 1000
    rate = len(consumed) / seconds
    return {"rate": rate, "p50": float(p50), "p99": float(p99), "refused": 0.0}


def some_users(folder: Path) -> list[Any]:
    """Return the first users of the model in a folder."""
    users = sr.load(folder, verify=False).statistics_.interactions.users
    return users.ids.head(_N_USERS).to_list()


@dataclass(frozen=True)
class Answer:
    """The result of a request; `status` is 0 if it was lost twice."""

    user: Any
    status: int
    model: str
    items: tuple[Any, ...]
    tries: int
    seconds: float = 0.0


async def load(
    url: str, users: Sequence[Any], end: asyncio.Event, *, n_connections: int
) -> list[Answer]:
    """Request sets on several connections until stopped; retry lost requests."""
    answers: list[Answer] = []

    async def ask(number: int) -> None:
        client = httpx.AsyncClient(base_url=url, timeout=30)
        while not end.is_set():
            number += 1
            user = users[number % len(users)]
            answer, begin = Answer(user, 0, "", (), 2), time.perf_counter()
            for attempt in (1, 2):
                try:
                    response = await client.post(
                        "v1/recommendations", json={"user": user, "confidence": 0.9, "k": _K}
                    )
                except httpx.TransportError:
                    await client.aclose()
                    client = httpx.AsyncClient(base_url=url, timeout=30)
                    continue
                rows = response.json().get("items", [])
                model = response.headers.get("surerec-model", "")
                items = tuple(row["item_id"] for row in rows)
                consumed = time.perf_counter() - begin
                answer = Answer(user, response.status_code, model, items, attempt, consumed)
                break
            answers.append(answer)
        await client.aclose()

    await asyncio.gather(*(ask(97 * number) for number in range(n_connections)))
    return answers


async def garbage(server: Served, *, may_die: bool = False) -> None:
    """Send 300 invalid or too large requests; each must get an error."""
    address = httpx.URL(server.url)

    async def one(data: bytes) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            writer.write(data)
            await writer.drain()
            first = await asyncio.wait_for(reader.readline(), 10)
            assert b" 4" in first or (may_die and not first), first
        except ConnectionError:
            pass  # the server closed the connection early
        finally:
            writer.close()

    head = b"POST /v1/recommendations HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\n"
    kinds = (
        os.urandom(300) + b"\r\n\r\n",
        head + b'Content-Length: 5\r\n\r\n{"us}',
        head + b"Content-Length: 10000000\r\n\r\n" + b" " * 400_000,
        b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
    )
    for _ in range(25):
        await asyncio.gather(*(one(kind) for kind in kinds for _ in range(3)))


class Expected:
    """The expected answers of all models that were served."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self._known: dict[tuple[str, Any], tuple[Any, ...]] = {}

    def add(self, folder: Path) -> None:
        """Add the model in a folder."""
        self._models[model_id(read_card(folder))] = sr.load(folder, verify=False)

    def judge(self, answers: list[Answer]) -> dict[str, Any]:
        """Count wrong, lost, repeated and rejected (full queue) requests."""
        served = [answer for answer in answers if answer.status == 200]
        busy = sum(answer.status == 503 for answer in answers)
        lost = sum(answer.status == 0 for answer in answers)
        other = len(answers) - len(served) - busy - lost
        return {
            "answers": len(answers),
            "wrong": other + sum(answer.items != self._right(answer) for answer in served),
            "lost": lost,
            "retried": sum(answer.tries > 1 for answer in answers),
            "busy": busy,
            "models": len({answer.model for answer in served}),
        }

    def _right(self, answer: Answer) -> tuple[Any, ...]:
        key = answer.model, answer.user
        if key not in self._known:
            picks = self._models[answer.model].recommend(answer.user, confidence=0.9, k=_K)
            self._known[key] = tuple(picks.items)
        return self._known[key]
