"""What every writer of files needs: checksums, and the errors of a full disk."""

from __future__ import annotations

import errno
import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DISK_FULL", "digest"]

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def digest(path: Path, algorithm: str) -> str:
    """Give a file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()
