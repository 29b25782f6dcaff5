"""The manifest: what a model folder says of itself, protected by a checksum of its own."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from surerec._checks import MOST
from surerec.interactions import RowsRead
from surerec.storage._cards import Counts, DataCard, FileRecord, Settings
from surerec.storage._expect import expect
from surerec.storage._layout import (
    MOST_TEXT,
    PART_ROLES,
    ROLES,
    file_name,
    role_of,
    roles_for,
)
from surerec.storage._parts import RecommenderCard

if TYPE_CHECKING:
    from collections.abc import Mapping


FORMAT: Final = "surerec-model"
FORMAT_VERSION: Final = 5
"""The one format that is read and written."""

_CHECKSUM: Final = "sha256"
_SHA256 = re.compile("[0-9a-f]{64}")


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
        """Tell whether both speak of the same statistics, whatever name the data go by."""
        mine = (self.counts, self.settings, self._statistics_files())
        return mine == (other.counts, other.settings, other._statistics_files())

    def keeping(self, old: Manifest) -> Manifest:
        """Give this manifest with the other recommenders of one of the same statistics.

        Its own come first: whoever names none gets what was saved last.
        """
        recommenders = self.recommenders | {
            name: each for name, each in old.recommenders.items() if name not in self.recommenders
        }
        parts = _part_files(recommenders)
        files = {name: each for name, each in (old.files | self.files).items() if name in parts}
        return replace(
            self,
            created=old.created,
            recommenders=recommenders,
            files=self._statistics_files() | files,
        )

    def card(self) -> dict[str, Any]:
        """Give the content as JSON has it."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **asdict(self),
            "recommenders": {name: each.card() for name, each in self.recommenders.items()},
        }

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> Manifest:
        """Read a content back; ValueError if it is not one that `card` gives."""
        expect(
            card,
            format=str,
            format_version=int,
            surerec_version=str,
            created=str,
            updated=str,
            data=(dict, type(None)),
            counts=dict,
            settings=dict,
            recommenders=dict,
            files=dict,
        )
        expect(card["counts"], users=int, items=int, rows=(int, type(None)))
        _check_sizes(card["counts"])
        expect(card["settings"], ties=str, rows=str)
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
        parts = PART_ROLES.values()
        return {name: each for name, each in self.files.items() if role_of(name) not in parts}

    def _check_files(self) -> None:
        """See that every file has its one use, and every use its file."""
        with_profiles = self.data is not None
        needed = roles_for(self.settings.rows, with_profiles=with_profiles)
        of_statistics = self._statistics_files()
        roles = [role_of(name) for name in of_statistics]
        if sorted(roles) != sorted(needed) or with_profiles != (self.counts.rows is not None):
            raise ValueError(roles)
        if self.files.keys() - of_statistics.keys() != _part_files(self.recommenders):
            raise ValueError("parts")


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
    expect(value, name=(str, type(None)), origin=(str, type(None)), rows_read=dict)
    expect(value["rows_read"], **dict.fromkeys(asdict(RowsRead()), int))
    _check_sizes(value["rows_read"])
    return DataCard(value["name"], value["origin"], RowsRead(**value["rows_read"]))


def _check_sizes(sizes: Mapping[str, int | None]) -> None:
    """Refuse numbers of things that nothing in memory can have."""
    if not all(size is None or 0 <= size <= MOST for size in sizes.values()):
        raise ValueError(sizes)


def _part_files(recommenders: Mapping[str, RecommenderCard]) -> set[str]:
    return {name for each in recommenders.values() for name in each.files()}


def _file_record(name: str, value: object) -> FileRecord:
    record = FileRecord(**expect(value, bytes=int, sha256=str))
    # A name is a role and a checksum, never a path.
    role, is_checksum = role_of(name), _SHA256.fullmatch(record.sha256)
    if role not in ROLES or not is_checksum or name != file_name(role, record.sha256):
        raise ValueError(name)
    if not 0 <= record.bytes <= (MOST_TEXT if role == PART_ROLES["texts"] else MOST):
        raise ValueError(record.bytes)
    return record
