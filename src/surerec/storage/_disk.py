"""How a folder is changed: files appear whole, names are durable, one process at a time."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from surerec._files import DISK_FULL, check_utf8, digest
from surerec._lock import exclusive
from surerec._memory import in_words
from surerec.errors import InputError
from surerec.storage._folder import LOCK, is_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from surerec.storage._cards import FileRecord


_BINARY = getattr(os, "O_BINARY", 0)  # of Windows


def is_there(path: Path, record: FileRecord) -> bool:
    """Tell whether a file is there and whole, so that saving again repairs a damaged one."""
    try:
        is_plain = path.is_file() and not path.is_symlink()
        same_size = is_plain and path.stat().st_size == record.bytes
        return same_size and digest(path, "sha256") == record.sha256
    except OSError:
        return False


def require_room(folder: Path, needed: int) -> None:
    """Raise the error of a full disk before anything is written."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{in_words(needed)} needed, {in_words(free)} free")


def write(
    path: Path, pieces: Iterable[memoryview], advance: Callable[[float], None] = lambda _: None
) -> None:
    """Put a complete file in its place in one step, on the disk before it has its name.

    Nobody may read it who may not list its folder: those of a private folder are private.
    """
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    mode = stat.S_IMODE(path.parent.stat().st_mode) & 0o666
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode | 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
            advance(piece.nbytes)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def remove_others(folder: Path, keep: Collection[str]) -> None:
    """Remove the data files that are not kept, and what interrupted saves left."""
    for entry in list(folder.iterdir()):
        if is_ours(entry.name) and entry.name not in keep:
            with suppress(OSError):  # Windows keeps what a reader has open; the next save tries
                entry.unlink()


def sync_folder(folder: Path) -> None:
    """Make names durable, where folders can be synced: not on Windows."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; make the folder, and take it away if it stays empty."""
    with ExitStack() as stack:
        while True:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            if is_new:
                stack.callback(_remove_if_empty, folder)
            try:
                stack.enter_context(exclusive(folder / LOCK))
                break
            except FileNotFoundError:
                continue  # another saver gave up and took the folder away while we waited
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def writing_errors(folder: Path) -> Iterator[None]:
    """Turn the disk's errors into a sentence that says what to do; refuse an unreadable name."""
    check_utf8(folder)
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in DISK_FULL:
            raise InputError(
                f"The model does not fit into {folder} ({reason}), and nothing was changed; make "
                "room there, or save into a folder elsewhere."
            ) from error
        raise InputError(
            f"The model cannot be written into {folder} ({reason}); make it writable, or save "
            "into a folder elsewhere."
        ) from error
