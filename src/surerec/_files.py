"""What every writer of files needs: checksums, the cache folder, complete or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterator


DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def digest(path: Path, algorithm: str) -> str:
    """Give a file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def cache_folder() -> Path:
    """Give the path of the cache: ``SUREREC_CACHE``, else where the platform keeps caches."""
    setting = os.environ.get("SUREREC_CACHE")
    return Path(setting).expanduser() if setting else platformdirs.user_cache_path("surerec")


@contextmanager
def file_aside(path: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the file's name at the end: complete or not at all."""
    aside = _beside(path)
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def folder_aside(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill, which takes the other's name and place when it is complete."""
    aside = _beside(folder)
    try:
        aside.mkdir()
        yield aside
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _beside(path: Path) -> Path:
    # A name of its own: a cluster may try one piece of work twice at once, on two machines.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
