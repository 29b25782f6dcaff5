"""The servers that are measured: ours, and a bare FastAPI endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from types import TracebackType

_BARE = """
import os, signal, socket, sys
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
class Asked(BaseModel):
    user: str | int | None = None
    confidence: float = 0.9
    k: int | None = None
app, body = FastAPI(), b"x" * int(os.environ["BARE_BYTES"])
@app.post("/")
async def answer(asked: Asked) -> Response:
    return Response(body, media_type="application/json")
# Its protocol named, for else asyncio leaves Nagle's algorithm on, and small answers take 40 ms.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(1024)
children = []
for _ in range(int(sys.argv[2])):
    if not (child := os.fork()):
        config = uvicorn.Config(app, http="h11", loop="asyncio", access_log=False,
                                log_level="error", backlog=1024)
        uvicorn.Server(config).run(sockets=[listener])
        os._exit(0)
    children.append(child)
def stop(*_):
    for child in children:
        os.kill(child, signal.SIGKILL)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
signal.pause()
"""


def family(process: int) -> list[int]:
    """Give a process and all below it."""
    children: list[int] = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, listed.read_text().split())
    return [process, *(each for child in children for each in family(child))]


def resident_bytes(process: int) -> int:
    """Give the resident memory of a process and all below it; what they share counts for each."""
    pages = 0
    for each in family(process):
        with suppress(OSError):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _Process:
    """A server that is stopped when it is no longer needed."""

    url: str
    process: subprocess.Popen[bytes]
    _folder: TemporaryDirectory[str]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.terminate()
        self.process.wait(40)
        self._folder.cleanup()


class Served(_Process):
    """``surerec serve``, its log, and its workers."""

    def __init__(self, model: Path, n_workers: int, *options: str) -> None:
        self.n_workers = n_workers
        self._folder = TemporaryDirectory()
        self._log = Path(self._folder.name) / "log"
        command = [sys.executable, "-m", "surerec", "serve", str(model), "--port", "0"]
        command.append("--insecure-admin")  # some scenarios reload
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(  # noqa: S603  # our own command
                [*command, "--workers", str(n_workers), "--log-format", "json", *options],
                stderr=out,
            )
        while not (found := re.search(r" at (http://\S+/) with", self._log.read_text())):
            if self.process.poll() is not None:
                sys.exit(self._log.read_text())
            time.sleep(0.05)
        self.url = found[1]

    def log(self) -> str:
        """Give what the server has written so far."""
        return self._log.read_text()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Give the log's lines about an event."""
        whole = (x for x in self.log().splitlines(keepends=True) if x.endswith("\n"))
        told = (json.loads(line) for line in whole if line.startswith("{"))
        return [line for line in told if line["event"] == event]

    async def busiest(self) -> int:
        """Give the living worker that has answered most of the latest requests."""
        while True:
            ended = {line["worker"] for line in self.lines("worker ended")}
            done = [int(line["process"]) for line in self.lines("request")[-40:]]
            if latest := [worker for worker in done if worker not in ended]:
                return max(latest, key=latest.count)
            await asyncio.sleep(0.1)

    def workers(self) -> list[int]:
        """Give the workers' process ids, the latest last."""
        return [line["worker"] for line in self.lines("worker ready")]

    async def wait_for(self, event: str, n: int) -> None:
        """Wait until the log tells of an event so many times."""
        while len(self.lines(event)) < n:  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.1)

    def ready_workers(self) -> int:
        """Give how many workers answer."""
        text = httpx.get(f"{self.url}metrics").text
        found = re.search(r"^surerec_workers_ready (\S+)", text, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))


class Bare(_Process):
    """An endpoint that reads the same question, and sends as many bytes that it has at hand."""

    def __init__(self, n_bytes: int, n_workers: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._folder = TemporaryDirectory()
        script = Path(self._folder.name) / "bare.py"
        script.write_text(_BARE)
        self.process = subprocess.Popen(  # noqa: S603  # our own command
            [sys.executable, str(script), str(port), str(n_workers)],
            env={**os.environ, "BARE_BYTES": str(n_bytes)},
        )
        self.url = f"http://127.0.0.1:{port}/"
        for _ in range(300):
            try:
                httpx.post(self.url, json={})
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return
        sys.exit("The bare endpoint did not start.")
