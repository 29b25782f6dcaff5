"""The manifest: what a model folder says of itself, protected by a checksum of its own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from surerec._checks import MOST
from surerec.interactions import RowsRead
from surerec.storage._files import (
    MOST_TEXT,
    ROLES,
    STATE_ROLES,
    file_name,
    role_of,
    roles_for,
)
from surerec.storage._spec import RecommenderSpec, check_recommenders, check_state_name

if TYPE_CHECKING:
    from surerec.storage._spec import JSON


FORMAT: Final = "surerec-model"
FORMAT_VERSION: Final = 6
"""The one format that is read and written."""

_CHECKSUM: Final = "sha256"
_SHA256: Final = re.compile("[0-9a-f]{64}")
_OR_NOT: Final = (str, type(None))
_CARD: Final = {
    "format": str,
    "format_version": int,
    "surerec_version": str,
    "created": str,
    "updated": str,
    "data": (dict, type(None)),
    "counts": {"users": int, "items": int, "rows": (int, type(None))},
    "settings": {"ties": str, "rows": str},
    "recommenders": dict,
    "files": dict,
}
_DATA: Final = {
    "name": _OR_NOT,
    "origin": _OR_NOT,
    "rows_read": dict.fromkeys(asdict(RowsRead()), int),
}
_RECOMMENDER: Final = {"kind": str, "params": dict, "arrays": dict, "texts": dict}
_FILE: Final = {"bytes": int, "sha256": str}


@dataclass(frozen=True)
class Counts:
    """How much the statistics hold."""

    users: int
    items: int
    rows: int | None
    """Interactions; None if the counts were given without profiles."""

    def sizes(self) -> dict[str, int]:
        """Return the dimensions of arrays by name."""
        found = {"n_users": self.users, "n_items": self.items}
        return found if self.rows is None else {**found, "n_rows": self.rows}


@dataclass(frozen=True)
class Settings:
    """How the statistics were made."""

    ties: str
    rows: str
    """"dense", "bounded", "on-demand" or "none"."""


@dataclass(frozen=True)
class DataCard:
    """What the data are, where they came from, and what became of their rows."""

    name: str | None
    origin: str | None
    rows_read: RowsRead


@dataclass(frozen=True)
class FileRecord:
    """What a file must be."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class RecommenderCard:
    """A recommender as the manifest has it: of its state, the file of each array and text."""

    kind: str
    params: Mapping[str, JSON]
    arrays: Mapping[str, str]
    texts: Mapping[str, str]

    @classmethod
    def from_card(cls, name: str, value: object) -> RecommenderCard:
        """Read it back; ValueError if it is no such card."""
        found = cls(**_expect(value, _RECOMMENDER))
        check_recommenders({name: RecommenderSpec(found.kind, found.params)})
        for kind, role in STATE_ROLES.items():
            for key, file in getattr(found, kind).items():
                check_state_name(name, key)
                if not isinstance(file, str) or role_of(file) != role:
                    raise ValueError(file)
        return found


@dataclass(frozen=True)
class Manifest:
    """All that a folder says of itself."""

    surerec_version: str
    created: str
    """When these statistics were first stored, UTC."""
    updated: str
    """When the folder was last saved into, UTC."""
    data: DataCard | None
    counts: Counts
    settings: Settings
    recommenders: dict[str, RecommenderCard]
    files: dict[str, FileRecord]

    def has_statistics_of(self, other: Manifest) -> bool:
        """Return whether both are of the same statistics, whatever name the data go by."""
        mine = (self.counts, self.settings, self._statistics_files())
        return mine == (other.counts, other.settings, other._statistics_files())

    def keeping(self, old: Manifest) -> Manifest:
        """Return this manifest with the other recommenders of one of the same statistics.

        Its own come first: whoever names none gets what was saved last.
        """
        recommenders = self.recommenders | {
            name: each for name, each in old.recommenders.items() if name not in self.recommenders
        }
        states = _state_files(recommenders)
        files = {name: each for name, each in (old.files | self.files).items() if name in states}
        return replace(
            self,
            created=old.created,
            recommenders=recommenders,
            files=self._statistics_files() | files,
        )

    def card(self) -> dict[str, Any]:
        """Return the content as JSON has it."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> Manifest:
        """Read a content back; ValueError if it is not one that `card` returns."""
        _expect(card, _CARD)
        _check_sizes(card["counts"])
        manifest = cls(
            card["surerec_version"],
            card["created"],
            card["updated"],
            None if card["data"] is None else _data_card(card["data"]),
            Counts(**card["counts"]),
            Settings(**card["settings"]),
            {
                name: RecommenderCard.from_card(name, each)
                for name, each in card["recommenders"].items()
            },
            {name: _file_record(name, record) for name, record in card["files"].items()},
        )
        manifest._check_files()
        return manifest

    def _statistics_files(self) -> dict[str, FileRecord]:
        others = STATE_ROLES.values()
        return {name: each for name, each in self.files.items() if role_of(name) not in others}

    def _check_files(self) -> None:
        """Check that every file has its one use, and every use its file."""
        with_profiles = self.data is not None
        needed = roles_for(self.settings.rows, with_profiles=with_profiles)
        of_statistics = self._statistics_files()
        roles = [role_of(name) for name in of_statistics]
        if sorted(roles) != sorted(needed) or with_profiles != (self.counts.rows is not None):
            raise ValueError(roles)
        if self.files.keys() - of_statistics.keys() != _state_files(self.recommenders):
            raise ValueError("states")


def encode(card: dict[str, Any]) -> bytes:
    """Write a content as canonical JSON with the checksum of the rest at its end.

    There is one way to write a content, so that a reader who writes it again and compares
    notices every changed byte, a blank or a digit of the checksum included.
    """
    text = json.dumps(card, indent=2, allow_nan=False)
    checksum = hashlib.sha256(text.encode("ascii")).hexdigest()
    sealed = json.dumps({**card, _CHECKSUM: checksum}, indent=2, allow_nan=False)
    return (sealed + "\n").encode("ascii")


def is_intact(card: dict[str, Any], raw: bytes) -> bool:
    """Take the checksum out of a content as it was read; tell whether the bytes are its own."""
    card.pop(_CHECKSUM, None)
    try:
        return encode(card) == raw
    except (ValueError, RecursionError):
        return False


def _data_card(value: dict[str, Any]) -> DataCard:
    _expect(value, _DATA)
    _check_sizes(value["rows_read"])
    return DataCard(value["name"], value["origin"], RowsRead(**value["rows_read"]))


def _check_sizes(sizes: Mapping[str, int | None]) -> None:
    """Refuse numbers of things that nothing in memory can have."""
    if not all(size is None or 0 <= size <= MOST for size in sizes.values()):
        raise ValueError(sizes)


def _state_files(recommenders: Mapping[str, RecommenderCard]) -> set[str]:
    return {
        name
        for each in recommenders.values()
        for name in (*each.arrays.values(), *each.texts.values())
    }


def _file_record(name: str, value: object) -> FileRecord:
    record = FileRecord(**_expect(value, _FILE))
    # A name is a role and a checksum, never a path.
    role, is_checksum = role_of(name), _SHA256.fullmatch(record.sha256)
    if role not in ROLES or not is_checksum or name != file_name(role, record.sha256):
        raise ValueError(name)
    if not 0 <= record.bytes <= (MOST_TEXT if role == STATE_ROLES["texts"] else MOST):
        raise ValueError(record.bytes)
    return record


def _expect(value: object, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value that has exactly these keys, each of its kind; else raise ValueError."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise ValueError(value)
    for key, kind in kinds.items():
        if isinstance(kind, Mapping):
            _expect(value[key], kind)
        # No field is true or false, which Python takes for 1 and 0.
        elif not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise ValueError(key)  # noqa: TRY004  # not a caller's mistake: the bytes are wrong
    return value
