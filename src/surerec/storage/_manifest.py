"""The manifest: what a model folder says of itself, protected by a checksum of its own."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from surerec.interactions import RowsRead
from surerec.storage._layout import ROLES, TABLES, roles_for
from surerec.storage._spec import RecommenderSpec, check_recommenders

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "Counts",
    "DataCard",
    "FileRecord",
    "Manifest",
    "Settings",
    "encode",
    "file_name",
    "is_intact",
    "role_of",
]

FORMAT: Final = "surerec-model"
FORMAT_VERSION: Final = 1

_CHECKSUM: Final = "sha256"
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Counts:
    """How much the statistics hold."""

    users: int
    items: int
    rows: int | None
    """Interactions; None if the counts were given without profiles."""


@dataclass(frozen=True)
class Settings:
    """How the statistics were made."""

    ties: str
    rows: str
    """"dense" or "on-demand"."""


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
    recommenders: dict[str, RecommenderSpec]
    files: dict[str, FileRecord]

    def has_statistics_of(self, other: Manifest) -> bool:
        """Tell whether both speak of the same statistics, whatever name the data go by."""
        mine = (self.counts, self.settings, self.files)
        return mine == (other.counts, other.settings, other.files)

    def card(self) -> dict[str, Any]:
        """Give the content as JSON has it."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> Manifest:
        """Read a content back; ValueError if it is not one that `card` gives."""
        _expect(
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
        _expect(card["counts"], users=int, items=int, rows=(int, type(None)))
        _expect(card["settings"], ties=str, rows=str)
        manifest = cls(
            card["surerec_version"],
            card["created"],
            card["updated"],
            None if card["data"] is None else _data_card(card["data"]),
            Counts(**card["counts"]),
            Settings(**card["settings"]),
            check_recommenders({name: _spec(x) for name, x in card["recommenders"].items()}),
            {name: _file_record(name, record) for name, record in card["files"].items()},
        )
        manifest._check_roles()
        return manifest

    def _check_roles(self) -> None:
        with_profiles = self.data is not None
        needed = roles_for(self.settings.rows, with_profiles=with_profiles)
        roles = [role_of(name) for name in self.files]
        if sorted(roles) != sorted(needed) or with_profiles != (self.counts.rows is not None):
            raise ValueError(roles)


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


def file_name(role: str, sha256: str) -> str:
    """Give the name of the file of that role and content.

    Examples
    --------
    >>> file_name("users", 64 * "a"), file_name("times", 64 * "b")
    ('users-aaaaaaaaaaaaaaaa.arrow', 'times-bbbbbbbbbbbbbbbb.npy')
    """
    kind = "arrow" if role in TABLES else "npy"
    return f"{role}-{sha256[:16]}.{kind}"


def role_of(name: str) -> str:
    """Give the role of a file from its name."""
    return name.partition("-")[0]


def _data_card(value: dict[str, Any]) -> DataCard:
    _expect(value, name=(str, type(None)), origin=(str, type(None)), rows_read=dict)
    _expect(value["rows_read"], **dict.fromkeys(asdict(RowsRead()), int))
    return DataCard(value["name"], value["origin"], RowsRead(**value["rows_read"]))


def _spec(value: object) -> RecommenderSpec:
    _expect(value, kind=str, params=dict)
    assert isinstance(value, dict)  # noqa: S101  # what _expect has just seen
    return RecommenderSpec(value["kind"], value["params"])


def _file_record(name: str, value: object) -> FileRecord:
    _expect(value, bytes=int, sha256=str)
    assert isinstance(value, dict)  # noqa: S101  # what _expect has just seen
    record = FileRecord(value["bytes"], value["sha256"])
    # A name is a role and a checksum, never a path.
    role, is_checksum = role_of(name), _SHA256.fullmatch(record.sha256)
    if role not in ROLES or not is_checksum or name != file_name(role, record.sha256):
        raise ValueError(name)
    return record


def _expect(value: object, **kinds: type | tuple[type, ...]) -> None:
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise ValueError(value)
    for key, kind in kinds.items():
        if not isinstance(value[key], kind):
            raise ValueError(key)  # noqa: TRY004  # not a caller's mistake: the bytes are wrong
