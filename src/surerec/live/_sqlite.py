"""Events in SQLite: embedded, of one process."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from surerec.errors import InputError, StoreError
from surerec.live._store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit is on the disk
    "secure_delete = ON",  # what is deleted is overwritten
)

_NO_ROOM: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)  # what may come of a full disk
_LEAST_ROOM: Final = 1 << 16  # bytes, that the log of changes and its index need at the least


class SqliteStore(Store):
    """Events in one file; what was acknowledged is on the disk.

    Parameters
    ----------
    path : Path
        The file; it is made if it is not there, and can be read by its owner only.
    hold : bool, default=True
        Keep other processes out; the workers of one server do not, as it does so for them.

    Raises
    ------
    InputError
        If another process has it open, or it is no store of this version.
    """

    def __init__(self, path: Path, *, hold: bool = True) -> None:
        super().__init__()
        self._path = path
        self._connection: Any = None
        self._files: dict[Path, tuple[int, int]] = {}
        self._is_damaged = False
        self._holding = ExitStack()
        if hold:
            self._holding.enter_context(held(path))
        try:
            with self._errors():
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
                self._connection = sqlite3.connect(
                    path, isolation_level=None, check_same_thread=False, timeout=10
                )
                for pragma in _PRAGMAS:
                    self._connection.execute(f"PRAGMA {pragma}")
            self._prepare()
            self._files = {each: _identity(each) for each in self._paths() if each.exists()}
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The file."""
        return str(self._path)

    def _paths(self) -> list[Path]:
        """Return the files of the store: each stays while one connection is open."""
        return [self._path.with_name(self._path.name + end) for end in ("", "-wal", "-shm")]

    def check(self) -> None:
        """Check that the files are whole as far as was seen, and those that were opened.

        A removed file would be written on by this process, and lost when it ends.
        """
        if self._is_damaged:
            raise self._damaged()
        if any(_identity(path) != known for path, known in self._files.items()):
            raise StoreError(
                f"{self._path} was removed or replaced while it was open, and nothing of this was "
                "kept: stop what has it open, restore it from a copy, and start again.",
                reason="file removed or replaced",
            )

    def _damaged(self) -> StoreError:
        return StoreError(
            f"{self._path} is no event store that can be read; restore it from a copy.",
            reason="damaged",
        )

    def _begin(self, *, write: bool) -> Any:
        self.check()
        self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        return self._connection.execute

    def _run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.executemany(statement, rows)

    def _commit(self) -> None:
        try:
            self.check()
            self._connection.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        with suppress(sqlite3.Error):  # a full disk may have rolled back already
            self._connection.execute("ROLLBACK")

    def _has_tables(self, run: Any) -> bool:
        found = run("SELECT 1 FROM sqlite_master WHERE name = 'surerec_meta'", ()).fetchone()
        return found is not None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                self._is_damaged = True  # nothing is acknowledged into it any more
                raise self._damaged() from error
            if code == sqlite3.SQLITE_FULL or (code in _NO_ROOM and self._is_disk_full()):
                raise StoreError(
                    f"{self._path}: the disk is full; nothing of this was kept, and nothing that "
                    "was acknowledged is lost: make room and send it again.",
                    reason="disk full",
                ) from error
            raise StoreError(
                f"{self._path} cannot be read or written ({error}); nothing of this was kept, and "
                "nothing that was acknowledged is lost: send it again."
            ) from error

    def _is_disk_full(self) -> bool:
        """Tell whether that is why a file could not be made or lengthened."""
        with suppress(OSError):
            return shutil.disk_usage(self._path.parent).free < _LEAST_ROOM
        return False

    def compact(self) -> None:
        """Overwrite what was deleted, in the log of changes too, so that no disk holds it."""
        with self._lock, self._errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file; another process may open it then."""
        with self._lock:
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()
            self._holding.close()


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from another of its name; of a missing one, what no file has."""
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_dev, found.st_ino


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes out of a store; the system lets go when this one ends, however.

    Raises
    ------
    InputError
        If another process has it open.
    """
    with sole(path.with_name(path.name + ".lock")) as is_sole:
        if not is_sole:
            raise InputError(
                f"Another process has {path} open: one server at a time, or keep events in "
                "PostgreSQL, which several may share."
            )
        yield


@contextmanager
def sole(lock: Path) -> Iterator[bool]:
    """Tell whether no other process is in here with this lock file, and keep others out."""
    try:
        import fcntl  # noqa: PLC0415  # POSIX only, as serving is
    except ModuleNotFoundError:
        raise InputError("Live models need Linux or macOS.") from None
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
