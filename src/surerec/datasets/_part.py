"""A file on its way: the bytes so far, and beside them what they are the beginning of."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surerec._files import DISK_FULL
from surerec._inputs import parse_json
from surerec.datasets._http import SourceError
from surerec.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Part:
    """``target.part`` with its sidecar ``target.part.json``.

    Parameters
    ----------
    target : Path
        Where the finished file will be.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(target.name + ".part")
        self._sidecar = target.with_name(target.name + ".part.json")

    def state(self) -> tuple[int, str, int | None]:
        """Give the bytes so far, what tells their version, and the full size; 0 if unknown."""
        try:
            about = parse_json(self._sidecar.read_bytes())
            version, total = about["version"], about["total"]
            if isinstance(version, str) and (total is None or isinstance(total, int)):
                return self.path.stat().st_size, version, total
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, "", None

    def begin(self, version: str | None, total: int | None) -> None:
        """Forget earlier bytes; remember what the coming ones belong to."""
        self.remove()
        if version:
            about = json.dumps({"version": version, "total": total})
            self._sidecar.write_text(about, encoding="utf-8")

    def remove(self) -> None:
        """Leave nothing behind."""
        self.path.unlink(missing_ok=True)
        self._sidecar.unlink(missing_ok=True)

    def finish(self) -> Path:
        """Put the complete file in its place, in one step."""
        self.path.replace(self.target)
        self._sidecar.unlink(missing_ok=True)
        return self.target


@contextmanager
def disk_errors(what: str, folder: Path, needed: int | None = None) -> Iterator[None]:
    """Turn the disk's errors into a sentence that says what is needed, and where."""
    try:
        if needed is not None and shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 -- same sentence
        yield
    except FetchError:
        raise
    except OSError as error:
        raise _disk_error(what, folder, needed, error) from error


def _disk_error(what: str, folder: Path, needed: int | None, error: OSError) -> SourceError:
    elsewhere = "or set SUREREC_CACHE to a folder elsewhere"
    if error.errno in DISK_FULL:
        amount = f"{needed / 1e6:,.1f} MB are needed" if needed else "the disk is full"
        return SourceError(
            "disk full",
            f"{what} does not fit into {folder}: {amount}; make room there {elsewhere}.",
        )
    reason = (error.strerror or str(error)).lower()
    return SourceError(
        reason, f"{what} cannot be written into {folder} ({reason}); make it writable {elsewhere}."
    )
