"""The blocks of a report, before they are HTML."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from surerec.errors import InputError

FLOOR_NOTE: Final = (
    "A cell such as ≥ 0.118 is the smallest ε that any set can guarantee there, as some of what "
    "users consumed next was unknown to the model or the calibration users are few: below it no "
    "set size is given."
)
"""What tables say below them where :func:`size_cell` gives the floor."""


def size_cell(size: float | None, floor: float | None) -> str:
    """Format a set size, or the smallest ε that can be guaranteed where there is no size.

    Examples
    --------
    >>> size_cell(1234.4, 0.02), size_cell(None, 0.1172), size_cell(float("nan"), None)
    ('1,234', '≥ 0.118', '–')
    """
    if size is not None and not math.isnan(size):
        return f"{size:,.0f}"
    if floor is None or math.isnan(floor):
        return "–"
    return f"≥ {math.ceil(round(1000 * floor, 6)) / 1000:.3f}"


class Strong(str):
    """Text of a table's cell that stands out."""

    __slots__ = ()


class Heading(NamedTuple):
    """The heading of a section."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """Plain text."""

    text: str


class Bullets(NamedTuple):
    """A list of plain texts."""

    items: tuple[str, ...]


class Verdicts(NamedTuple):
    """Claims: the claim, the verdict, what the numbers say, and on each data set."""

    items: tuple[tuple[str, str, str, tuple[str, ...]], ...]


class Table(NamedTuple):
    """A table with a row of headings; the first column names its row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})
    """The columns that hold words; the others hold numbers."""
    folded: bool = False
    """Whether a reader has to open it."""


class Picture(NamedTuple):
    """A figure of the folder, by name."""

    name: str
    caption: str
    alt: str = ""


Block = Heading | Paragraph | Bullets | Verdicts | Table | Picture


def require_plots() -> None:
    """Check that figures can be drawn, before hours of work.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError(
            "The figures of the report need matplotlib: install surerec[plots]."
        ) from error
    del mpl
