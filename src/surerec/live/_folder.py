"""The folder of a live model: what it promises, where its events are, and models to serve from."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

from surerec._files import check_utf8, file_aside
from surerec.errors import InputError
from surerec.live._ledger import Terms
from surerec.live._postgres import PostgresStore
from surerec.live._sqlite import SqliteStore, held

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from surerec.live._store import Store

SQLITE: Final = "sqlite"

_ABOUT: Final = "live.json"
_FORMAT: Final = "surerec live"
_VERSION: Final = 1
_PRIVATE: Final = 0o700


@dataclass(frozen=True)
class LiveFolder:
    """A folder that a live model was made in.

    Attributes
    ----------
    path : Path
        Where.
    terms : Terms
        What is promised.
    store : str
        "sqlite", or the address of a PostgreSQL database.
    """

    path: Path
    terms: Terms
    store: str

    @classmethod
    def make(cls, path: Path, terms: Terms, store: str) -> Self:
        """Begin a folder; it is one when `finish` has been called."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} is there and not empty: name a new folder.")
        if store != SQLITE and not store.startswith(("postgresql://", "postgres://")):
            given = "an address of another kind" if "://" in store else repr(store)
            raise InputError(
                f"The store is {given}; it must be {SQLITE!r} or an address such as "
                "postgresql://surerec@db.example/shop."
            )
        check_utf8(path)
        path.mkdir(_PRIVATE, parents=True, exist_ok=True)
        (path / "models").mkdir(_PRIVATE)
        return cls(path, terms, store)

    def finish(self) -> None:
        """Write what it is, so that it can be opened; its owner only can read it."""
        about = {"format": _FORMAT, "version": _VERSION, "store": self.store} | asdict(self.terms)
        with file_aside(self.path / _ABOUT, mode=0o600) as aside:
            aside.write_text(json.dumps(about, indent=2) + "\n")

    @staticmethod
    def is_one(path: Path) -> bool:
        """Tell whether a folder is a live model's."""
        return (path / _ABOUT).is_file()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read what a folder is.

        Raises
        ------
        InputError
            If it is no live model's, or of a version that is not known.
        """
        try:
            about: Any = json.loads((path / _ABOUT).read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"{path} is no live model, for it has no {_ABOUT}: make one with "
                f"surerec live init {path} MODEL."
            ) from None
        except ValueError:
            about = None
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise InputError(f"{path / _ABOUT} is damaged; restore it from a copy.")
        if about.get("version") != _VERSION:
            raise InputError(
                f"{path} is a live model of version {about.get('version')}, and this surerec knows "
                f"{_VERSION}: upgrade surerec."
            )
        try:
            terms = Terms(**{each.name: about[each.name] for each in fields(Terms)})
            return cls(path, terms, str(about["store"]))
        except (KeyError, TypeError) as error:
            raise InputError(f"{path / _ABOUT} is damaged; restore it from a copy.") from error

    def open_store(self, *, hold: bool = True) -> Store:
        """Open the store of its events; keep other processes out of it, unless that is done."""
        if self.store == SQLITE:
            return SqliteStore(self._file, hold=hold)
        return PostgresStore(self.store)

    @property
    def _file(self) -> Path:
        return self.path / "events.sqlite"

    def held(self) -> AbstractContextManager[None]:
        """Give a context in which no other process has the store, if it is of one process."""
        return held(self._file) if self.store == SQLITE else nullcontext()

    def model(self, number: int) -> Path:
        """Give the folder of a model by number."""
        return self.path / "models" / f"{number:06d}"

    def make_model(self, number: int) -> Path:
        """Make the folder of a model, which its owner only can read: it will hold histories."""
        folder = self.model(number)
        folder.mkdir(_PRIVATE)
        return folder

    def numbers(self) -> list[int]:
        """Give the numbers of the models that are there, whole or not."""
        return sorted(
            int(each.name) for each in (self.path / "models").iterdir() if each.name.isdigit()
        )

    def remove_before(self, number: int) -> None:
        """Remove the models before one: they hold people's histories."""
        for each in self.numbers():
            if each < number:
                shutil.rmtree(self.model(each), ignore_errors=True)
