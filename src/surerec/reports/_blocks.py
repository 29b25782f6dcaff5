"""The blocks of a report."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from surerec.errors import InputError

FLOOR_NOTE: Final = (
    "A cell such as ≥ 0.118 is the smallest ε that any set can guarantee: the model did not know "
    "some of the items consumed next, or there are few calibration users. Below it, there is no "
    "set size."
)
"""Note below a table in which :func:`size_cell` returns a floor."""


def size_cell(size: float | None, floor: float | None) -> str:
    """Format a set size, or without one the smallest ε that can be guaranteed.

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
    """Bold text of a table cell."""

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
    """Claims, each with its verdict, an explanation, and a bullet for each data set."""

    items: tuple[tuple[str, str, str, tuple[str, ...]], ...]


class Table(NamedTuple):
    """A table with a header; the first column names the rows."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})
    """Columns of text; the others hold numbers."""
    folded: bool = False
    """Whether the table is collapsed at first."""


class Picture(NamedTuple):
    """A figure, by its name."""

    name: str
    caption: str
    alt: str = ""


Block = Heading | Paragraph | Bullets | Verdicts | Table | Picture


@cache
def load_texts(package: str, name: str) -> dict[str, Any]:
    """Load the texts or numbers of a report from a JSON file of a package."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def require_plots() -> None:
    """Check that matplotlib is installed, before a long computation.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError(
            "The figures of the report need matplotlib. Install surerec[plots]."
        ) from error
    del mpl
