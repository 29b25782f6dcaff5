"""A lock between processes that the operating system releases when its holder dies."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock file at `path`; create its folder if necessary.

    The file exists only while a process holds it or waits for it. On a file system without locks
    nothing is locked: files are still replaced atomically, so at worst work is done twice.

    Parameters
    ----------
    path : Path
        The lock file.
    wait : bool, default=True
        Wait while another process holds the lock; else raise BlockingIOError.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("ab")
        except FileNotFoundError:
            if path.parent.is_dir():  # an invalid name, or a dangling link
                raise
            continue  # another process has just removed the folder
        with file:
            try:
                _acquire(file, wait=wait)
            except BlockingIOError:
                raise
            except OSError:
                pass
            if not _is_at(file, path):
                continue  # its last holder removed it while we waited
            try:
                yield
            finally:
                with suppress(OSError):  # Windows keeps a file that is open
                    path.unlink()
            return


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _acquire(file: IO[bytes], *, wait: bool) -> None:
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError:
                if not wait:
                    raise BlockingIOError from None
                time.sleep(0.2)
            else:
                return

else:
    import fcntl

    def _acquire(file: IO[bytes], *, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
