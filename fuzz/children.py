"""A child process that answers requests, one line of JSON each, and may crash."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import IO, Any, Self


class Child:
    """Runs a module that reads requests and writes replies; restarted after a crash.

    Parameters
    ----------
    module : str
        The module to run; its argument is the memory limit in megabytes.
    megabytes : int
        Memory limit beyond what the process uses after its start.
    """

    def __init__(self, module: str, megabytes: int) -> None:
        self._command = [sys.executable, "-m", module, str(megabytes)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the reply; without one, the reason under "failed"."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        line = _line(process.stdout, seconds)
        if line.endswith(b"\n"):
            reply: dict[str, Any] = json.loads(line)
            return reply
        if process.poll() is None and line == b"":
            time.sleep(0.2)  # the output closes shortly before the process ends
        code = process.poll()
        self._end()
        if code is None:
            return {"failed": f"no answer in {seconds:.0f} s"}
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return {"failed": f"the process died: {died}"}

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  # our own command
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "TTY_COMPATIBLE": "0", "PYTHONWARNINGS": "ignore"},
        )

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


def _line(stream: IO[bytes], seconds: float) -> bytes:
    """Read to the end of a line or of the stream, or until the timeout."""
    found, end = b"", time.monotonic() + seconds
    while not found.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(stream.fileno(), 1 << 16) if ready else b""
        if not piece:
            break
        found += piece
    return found
