"""What results look like where people look at them: tables with bars, figures, pandas frames."""

from __future__ import annotations

from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_SHOWN = 10
_LONGEST = 40  # characters of a label
_BAR = "display:inline-block;height:.65em;margin-left:.5em;background:#0f766e;vertical-align:middle"
_CELL = "text-align:left;padding:.1em .8em .1em 0"
_PER_CENT = frozenset(
    {"probability", "comes in above", "share", "promised", "delivered", "low", "high"}
)


def html_card(
    title: str, frame: pl.DataFrame, note: str, *, bar: str | None = None, n_shown: int = _SHOWN
) -> str:
    """Give a small table as HTML: a heading, the first rows, what is promised.

    Parameters
    ----------
    title, note : str
        Above and below.
    frame : polars.DataFrame
        The table, with columns as they are to be read.
    bar : str, optional
        A column of shares that are drawn as bars too.
    n_shown : int, default=10
        How many rows.

    Examples
    --------
    >>> import polars as pl
    >>> "Star &lt;Wars&gt;" in html_card("A set", pl.DataFrame({"item": ["Star <Wars>"]}), "None.")
    True
    """
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in frame.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL}">{_cell(value, name, is_bar=name == bar)}</td>'
            for name, value in row.items()
        )
        + "</tr>"
        for row in frame.head(n_shown).iter_rows(named=True)
    )
    left = len(frame) - n_shown
    more = f"<p>… and {left:,} more</p>" if left > 0 else ""
    return (
        f"<div><p><strong>{escape(title)}</strong></p><table><thead><tr>{head}</tr></thead>"
        f'<tbody>{rows}</tbody></table>{more}<p style="max-width:48em">{escape(note)}</p></div>'
    )


def _cell(value: object, name: str, *, is_bar: bool) -> str:
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "–"
    if not isinstance(value, float):
        return escape(f"{value:,}" if _whole(value) else str(value))
    width = f"{6 * min(max(value, 0.0), 1.0):.2f}em"
    text = f"{value:.1%}" if name in _PER_CENT else f"{value:.3f}"
    return text + (f'<span style="{_BAR};width:{width}"></span>' if is_bar else "")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def as_pandas(frame: pl.DataFrame) -> Any:
    """Give a frame as pandas has it, or say in a sentence that pandas is not installed."""
    try:
        return frame.to_pandas()
    except ModuleNotFoundError as error:
        raise InputError(
            "A pandas frame needs pandas: pip install pandas, or take to_frame()."
        ) from error


def bar_figure(labels: Sequence[str], values: Sequence[float], title: str, axis: str) -> Any:
    """Draw values as horizontal bars, the first above; give matplotlib's figure.

    Notebooks show it as it is; elsewhere ``figure.savefig("picks.png")`` keeps it.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError("A figure needs matplotlib: pip install 'surerec[plots]'.") from error
    figure = Figure(figsize=(7, 0.6 + 0.32 * max(len(labels), 1)), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(labels)), values, color="#0f766e")
    names = [f"{each[: _LONGEST - 1]}…" if len(each) > _LONGEST else each for each in labels]
    axes.set_yticks(range(len(labels)), [name.replace("$", r"\$") for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.set_xlabel(axis)
    axes.set_title(title.replace("$", r"\$"), loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
