"""Random command lines over every subcommand, with valid and invalid values.

A command exits with 0, or with 2 and an error on stderr. It has no traceback, ends in time and
leaves no partial files. Most commands run in this process, some in a process of their own.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from fuzz.command_lines import LINES, make_files
from fuzz.tally import Tally, signature
from surerec.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

AS_PROCESSES: Final = 200
"""The number of 5,000 commands that run in a process of their own."""

_OF: Final = 5000
_SECONDS: Final = 60
_EXIT_CODES: Final = {0, 2}
_DEPTH: Final = ("in", "side")  # so that "../.." stays in the scratch folder
_MADE: Final = "made"  # folder of the outputs, cleared regularly
_CLEARED_EVERY: Final = 50


class _TooLongError(BaseException):
    """A command did not end in time."""


@dataclass(frozen=True)
class _Done:
    code: int
    out: str
    err: str
    failure: str = ""


def run(n: int, random_state: int) -> Tally:
    """Run random command lines, and count the outcomes."""
    tally = Tally("commands")
    with TemporaryDirectory(prefix="surerec-fuzz-") as scratch, _inside(Path(scratch, *_DEPTH)):
        make_files()
        before = _files()
        for number in range(n):
            if number % _CLEARED_EVERY == 0:
                shutil.rmtree(_MADE, ignore_errors=True)
                Path(_MADE).mkdir()
            random = np.random.default_rng((random_state, number))
            words = LINES[int(random.integers(len(LINES)))](random)
            alone = random.random() < AS_PROCESSES / _OF
            tally.notes["in a process of their own"] += alone
            done = _as_process(words) if alone else _in_process(words)
            line = (
                f"line {number}, random_state {random_state}: surerec {' '.join(map(repr, words))}"
            )
            _judge(tally, done, line[:1000])
        if changed := sorted(before ^ (_files() & before)):
            names = [name for name, _ in changed]
            tally.fail("other files changed", str(names))
    return tally


def _judge(tally: Tally, done: _Done, line: str) -> None:
    left = [path for path in Path().rglob("*") if path.name.endswith((".part", ".tmp"))]
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if done.failure:
        tally.fail(done.failure, line)
    elif done.code not in _EXIT_CODES:
        tally.fail(f"exit code {done.code}", f"{line}: {done.err[-300:]}")
    elif "Traceback" in done.err:
        tally.fail("a traceback", f"{line}: {done.err[-300:]}")
    elif left:
        tally.fail("a partial file is left", f"{line}: {left}")
    elif done.code and not _has_one_message(done):
        tally.fail("an error without a message", f"{line[:300]}: {done.err[-500:]!r}")
    elif done.code:
        tally.refused += 1
    else:
        tally.answered += 1


def _has_one_message(done: _Done) -> bool:
    """Return whether an error is one line of ours, or typer's usage message."""
    ours = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    usage = "Usage:" in done.err + done.out or "─ Error ─" in done.err
    return usage or (len(ours) == 1 and done.err.rstrip().endswith(ours[0].rstrip()))


def _in_process(words: list[str]) -> _Done:
    out, err = _Stream(), _Stream()
    before = sys.argv
    sys.argv = ["surerec", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err), _within_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return _Done(code, out.text(), err.text())
    except _TooLongError:
        return _Done(-1, out.text(), err.text(), f"took more than {_SECONDS} seconds")
    except BaseException as error:  # noqa: BLE001  # panics of polars are not Exceptions
        return _Done(-1, out.text(), err.text(), signature(error))
    finally:
        sys.argv = before
    return _Done(0, out.text(), err.text())


def _as_process(words: list[str]) -> _Done:
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(  # noqa: S603  # our own command
            [sys.executable, "-m", "surerec", *words],
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return _Done(-1, "", "", f"took more than {_SECONDS} seconds")
    except ValueError:  # a NUL, which no operating system accepts
        return _Done(2, "", "Error: no such command line\n")
    return _Done(
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )


class _Stream(io.TextIOWrapper):
    """A text stream with a byte buffer, like the real ones."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape")

    def text(self) -> str:
        """Return all that was written."""
        self.flush()
        raw = self.buffer.getvalue()  # type: ignore[attr-defined]
        return str(raw.decode(errors="replace"))


@contextmanager
def _within_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder with an empty cache and no network."""
    environment = {"SUREREC_CACHE": str(folder / "cache"), "PIP_NO_INDEX": "1", "NO_COLOR": "1",
               "PIP_FIND_LINKS": str(folder), "https_proxy": "http://127.0.0.1:9",
               "http_proxy": "http://127.0.0.1:9", "PIP_CONFIG_FILE": os.devnull}  # fmt: skip
    before, old = Path.cwd(), {name: os.environ.get(name) for name in environment}
    folder.mkdir(parents=True)
    os.environ.update(environment)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _files() -> set[tuple[str, bytes]]:
    return {
        (str(path), path.read_bytes())
        for path in Path().rglob("*")
        if path.is_file() and path.parts[0] not in {_MADE, "cache"} and path.name != ".lock"
    }
