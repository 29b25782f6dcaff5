"""What a report is made of, before it is HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


class Strong(str):
    """Text of a table's cell that stands out."""

    __slots__ = ()


@dataclass(frozen=True)
class Heading:
    """The heading of a section."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of plain texts."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Verdicts:
    """Claims: the claim, the verdict, what the numbers say, and on each data set."""

    items: tuple[tuple[str, str, str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Table:
    """A table with a row of headings; the first column names its row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = field(default=frozenset({0}))
    """The columns that hold words; the others hold numbers."""
    folded: bool = False
    """Whether a reader has to open it."""


@dataclass(frozen=True)
class Picture:
    """A figure of the folder, by name."""

    name: str
    caption: str
    alt: str = ""


Block = Heading | Paragraph | Bullets | Verdicts | Table | Picture
