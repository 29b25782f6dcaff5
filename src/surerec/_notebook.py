"""Display of results: HTML tables with bars, figures and pandas frames."""

from __future__ import annotations

from collections import Counter
from html import escape
from math import isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_SHOWN = 10
_LONGEST = 40  # characters of a label
_WIDEST = 84  # characters of a line above a figure
_BAR = "display:inline-block;height:.65em;margin-left:.5em;background:#0f766e;vertical-align:middle"
_CELL = "text-align:left;padding:.1em .8em .1em 0"
_PER_CENT = frozenset(
    {"probability", "entry confidence", "share", "nominal", "observed", "low", "high"}
)


def html_card(
    title: str, frame: pl.DataFrame, note: str, *, bar: str | None = None, n_shown: int = _SHOWN
) -> str:
    """Return a small HTML table: a heading, the first rows and the guarantee.

    Parameters
    ----------
    title, note : str
        Texts above and below the table.
    frame : polars.DataFrame
        The table, with column names as they are shown.
    bar : str, optional
        Column of shares that are also drawn as bars.
    n_shown : int, default=10
        Number of rows.

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


def distinct_labels(
    titles: Sequence[str], ids: Sequence[object], longest: int | None = None
) -> list[str]:
    """Return a label for each item: the title, with the id where two labels would be equal.

    Parameters
    ----------
    titles : sequence of str
        Titles of the items.
    ids : sequence
        Ids of the items.
    longest : int, optional
        Maximum length; longer titles are truncated at a word.

    Examples
    --------
    >>> distinct_labels(["Table lamp, red", "Table lamp, blue", "Vase"], [7, 9, 8], longest=12)
    ['Table lamp… (7)', 'Table lamp… (9)', 'Vase']
    """
    cut = [_cut(" ".join(title.split()), longest) for title in titles]
    n_alike = Counter(cut)
    return [
        f"{label} ({one})" if n_alike[label] > 1 and label != str(one) else label
        for label, one in zip(cut, ids, strict=True)
    ]


def _cut(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    head = text[: longest - 1]
    at_word = head if text[len(head)] == " " else head.rpartition(" ")[0]
    return (at_word if len(at_word) > longest // 2 else head).rstrip(" ,;:-") + "…"


def as_pandas(frame: pl.DataFrame) -> Any:
    """Return a pandas frame; raise InputError if pandas is not installed."""
    try:
        return frame.to_pandas()
    except ModuleNotFoundError as error:
        raise InputError(
            "A pandas frame needs pandas. Run pip install pandas, or use to_frame()."
        ) from error


def bar_figure(
    titles: Sequence[str],
    ids: Sequence[object],
    values: Sequence[float],
    heading: str,
    axis: str,
    behind: Sequence[str] | None = None,
) -> Any:
    """Draw values of items as horizontal bars from top to bottom; return matplotlib's figure.

    Long titles are truncated at a word; `behind` are short texts that follow them.
    Notebooks show the figure; elsewhere save it with ``figure.savefig("picks.png")``.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError("A figure needs matplotlib. Run pip install 'surerec[plots]'.") from error
    labels = distinct_labels(titles, ids, _LONGEST)
    if behind is not None:
        labels = [f"{label} {text}" for label, text in zip(labels, behind, strict=True)]
    lines = wrap(" ".join(heading.split()), _WIDEST)
    height = 0.4 + 0.2 * len(lines) + 0.32 * max(len(labels), 1)
    figure = Figure(figsize=(7, height), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(labels)), values, color="#0f766e")
    axes.set_yticks(range(len(labels)), [label.replace("$", r"\$") for label in labels])
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.set_xlabel(axis)
    above = "\n".join(lines).replace("$", r"\$")
    figure.suptitle(above, x=0.01, horizontalalignment="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
