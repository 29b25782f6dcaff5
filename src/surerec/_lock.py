"""One process at a time: a lock that the operating system drops when its holder dies."""

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
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`; wait for it as long as another holds it.

    The file is there only as long as somebody holds it or waits for it. A file system that knows
    no locks gives none: what is written under the lock still appears in one step, so at worst the
    same work is done twice.
    """
    while True:
        with path.open("ab") as file:
            with suppress(OSError):
                _acquire(file)
            if not _is_at(file, path):
                continue  # its last holder took it away while we waited
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

    def _acquire(file: IO[bytes]) -> None:
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError:
                time.sleep(0.2)
            else:
                return

else:
    import fcntl

    def _acquire(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
