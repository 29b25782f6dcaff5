"""Writing files: checksums, the cache folder and atomic replacement."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from surerec._inputs import as_input_error
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


_MOST_LINKS = 40  # the limit of Linux
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def digest(path: Path, algorithm: str) -> str:
    """Return a file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def cache_folder() -> Path:
    """Return the cache folder: ``SUREREC_CACHE``, else the platform's cache folder."""
    setting = os.environ.get("SUREREC_CACHE")
    return Path(setting).expanduser() if setting else platformdirs.user_cache_path("surerec")


def check_utf8(path: Path) -> None:
    """Raise InputError for a path that is not valid UTF-8: Arrow and polars cannot open it.

    Examples
    --------
    >>> check_utf8(Path("café"))
    """
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        name = str(path).encode("utf-8", "backslashreplace").decode()
        raise InputError(
            f"The path '{name}' is not valid UTF-8, so its files cannot be read. Use another name."
        ) from None


def holds_output(folder: Path, marks: set[str], what: str) -> bool:
    """Return whether a folder holds earlier output; raise InputError for any other content.

    Parameters
    ----------
    folder : Path
        The folder to write, which may be absent or empty.
    marks : set of str
        Names of files that the output has.
    what : str
        The output, such as "an audit".
    """
    check_utf8(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file. Use a folder.")
    with as_input_error(folder, "cannot be read"):
        names = {each.name for each in folder.iterdir()} if folder.exists() else set[str]()
    if names and not names >= marks:
        raise InputError(f"{folder}: contains files that are not {what}. Use another folder.")
    return bool(names)


def is_stream(path: Path) -> bool:
    """Return whether a path is a device, a pipe or an open descriptor: none can be replaced.

    Examples
    --------
    >>> is_stream(Path("/dev/null")), is_stream(Path("picks.csv"))
    (True, False)
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _is_open(path)


def _is_open(path: Path) -> bool:
    """Return whether a path is a file descriptor, such as /dev/stdout."""
    for _ in range(_MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        if folder.name == "fd" and folder.parts[1:2] in {("proc",), ("dev",)}:
            return True
        if not path.is_symlink():
            return False
        path = folder / path.readlink()
    return False


@contextmanager
def file_aside(path: Path, *, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary path that replaces the file on success (atomic write).

    A device or a pipe is written to directly. For a symbolic link the target is replaced, even if
    it does not exist yet. A file keeps its permissions; a folder is an error.

    Parameters
    ----------
    path : Path
        The file.
    mode : int, optional
        Permissions, set before the first byte is written. By default those of the replaced file,
        or the default of the process.
    """
    if is_stream(path):
        yield path
        return
    target = follow(path)
    if target.is_dir():
        raise _os_error(errno.EISDIR, path)
    is_there = target.exists()
    if is_there and not os.access(target, os.W_OK):
        raise _os_error(errno.EACCES, path)
    aside = _beside(target)
    try:
        if mode is None and is_there:
            mode = stat.S_IMODE(target.stat().st_mode)
        if mode is not None:
            os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            aside.chmod(mode | stat.S_IWUSR)
        yield aside
        if mode is not None:
            aside.chmod(mode)
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def folder_aside(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `folder` on success.

    For a symbolic link the target is replaced, not the link.
    """
    check_utf8(folder)
    folder = follow(folder)
    aside = _beside(folder)
    try:
        aside.mkdir()
        yield aside
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def follow(path: Path) -> Path:
    """Return the target of a symbolic link, existing or not; other paths unchanged."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise _os_error(errno.ELOOP, path)
    return target


def _os_error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def _beside(path: Path) -> Path:
    if not path.name:
        raise _os_error(errno.EISDIR, path)
    # A unique name: a cluster may run one task twice at once, on two machines.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
