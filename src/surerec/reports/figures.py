"""The style of figures: readable in grey, by colour-blind readers, and in small print.

The module needs matplotlib, so import it only where figures are drawn.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

__all__ = ["FORMATS", "LINES", "Line", "panels", "plain", "render", "styled"]

FORMATS: Final = ("png", "svg", "pdf")


class Line(NamedTuple):
    """The style of one series: colour, dashes and marker."""

    color: str
    linestyle: Any
    marker: str

    def thin(self) -> dict[str, Any]:
        """Return the keyword arguments of a thin line."""
        return {**self._asdict(), "linewidth": 1.6, "markersize": 4.5}


LINES: Final = (
    # The palette of Okabe and Ito, ordered so that neighbours differ in lightness too.
    Line("#0072B2", "-", "o"),
    Line("#E69F00", (0, (5, 1.5)), "s"),
    Line("#000000", (0, (1, 1.2)), "^"),
    Line("#CC79A7", (0, (4, 1, 1, 1)), "D"),
    Line("#009E73", (0, (7, 2)), "v"),
    Line("#D55E00", (0, (2, 1)), "P"),
    Line("#56B4E9", (0, (3, 1, 1, 1, 1, 1)), "X"),
)

_RC: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 3.2,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 150,
    "svg.fonttype": "path",  # a reader may lack the font
    "svg.hashsalt": "surerec",  # makes files reproducible
    "pdf.fonttype": 42,
}


def styled() -> Any:
    """Return a context manager that applies the style."""
    return mpl.rc_context(_RC)


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Iterator[Axes]]:
    """Build a figure of panels, without the global state of pyplot."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, iter(figure.subplots(rows, columns, squeeze=False).flat)


def render(figure: Figure) -> dict[str, bytes]:
    """Return the figure in every format."""
    no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": None}
    # Computes the layout once for all formats.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    found = {}
    for kind in FORMATS:
        buffer = BytesIO()
        figure.savefig(buffer, format=kind, metadata=no_date[kind])
        found[kind] = buffer.getvalue()
    return found


def plain(text: str, longest: int = 40) -> str:
    """Return a name without formulas or a leading underscore (which hides it), and shortened."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return (" " + short if short.startswith("_") else short).replace("$", r"\$")
