"""The measured servers: ours, and a bare FastAPI endpoint."""

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
from typing import Any, Self

import httpx

_BARE = """
import os, signal, socket, sys
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
class Query(BaseModel):
    user: str | int | None = None
    confidence: float = 0.9
    k: int | None = None
app, body = FastAPI(), b"x" * int(os.environ["BARE_BYTES"])
@app.post("/")
async def answer(query: Query) -> Response:
    return Response(body, media_type="application/json")
# With an explicit protocol, as asyncio's default keeps Nagle's algorithm, which adds 40 ms.
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
    """Return a process and its descendants."""
    children: list[int] = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, listed.read_text().split())
    return [process, *(each for child in children for each in family(child))]


def is_running(process: int) -> bool:
    """Return whether a process is running and not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process and its descendants, shared pages included."""
    pages = 0
    for each in family(process):
        with suppress(OSError):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(process: int) -> int:
    """Return the number of open files of a process and its descendants."""
    found = 0
    for each in family(process):
        with suppress(OSError):
            found += len(os.listdir(f"/proc/{each}/fd"))  # noqa: PTH208  # names alone
    return found


class _Process:
    """A server that stops at the end of its context."""

    url: str
    process: subprocess.Popen[bytes]
    _folder: TemporaryDirectory[str]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        """Return the log."""
        return self._log.read_text()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the log on an event."""
        whole = (x for x in self.log().splitlines(keepends=True) if x.endswith("\n"))
        lines = (json.loads(line) for line in whole if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    async def busiest(self) -> int:
        """Return the live worker that answered most of the latest requests."""
        while True:
            ended = {line["worker"] for line in self.lines("worker ended")}
            done = [int(line["process"]) for line in self.lines("request")[-40:]]
            if latest := [worker for worker in done if worker not in ended]:
                return max(latest, key=latest.count)
            await asyncio.sleep(0.1)

    def workers(self) -> list[int]:
        """Return the process ids of the workers, the latest last."""
        return [line["worker"] for line in self.lines("worker ready")]

    async def wait_for(self, event: str, n: int) -> None:
        """Wait until the log has an event `n` times."""
        while len(self.lines(event)) < n:  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.1)

    def ready_workers(self) -> int:
        """Return the number of ready workers."""
        text = httpx.get(f"{self.url}metrics").text
        found = re.search(r"^surerec_workers_ready (\S+)", text, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))


class Bare(_Process):
    """An endpoint that reads the same request and sends as many prepared bytes."""

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
