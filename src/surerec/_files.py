"""What every writer of files needs: checksums, the cache folder, the errors of a full disk."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import platformdirs

__all__ = ["DISK_FULL", "cache_folder", "digest"]

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
