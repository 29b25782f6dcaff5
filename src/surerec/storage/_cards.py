"""What a manifest says of the data, of their size, of the settings and of each file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surerec.interactions import RowsRead


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
