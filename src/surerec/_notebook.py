"""Display of results: HTML tables with bars, figures and pandas frames."""

from __future__ import annotations

from collections import Counter
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_SHOWN = 10
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


def distinct_labels(titles: Sequence[str], ids: Sequence[object]) -> list[str]:
    """Return a label for each item: the title, with the id where two titles are equal.

    Examples
    --------
    >>> distinct_labels(["Table lamp", "Table lamp", "Vase"], [7, 9, 8])
    ['Table lamp (7)', 'Table lamp (9)', 'Vase']
    """
    labels = [" ".join(title.split()) for title in titles]
    n_alike = Counter(labels)
    return [
        f"{label} ({one})" if n_alike[label] > 1 and label != str(one) else label
        for label, one in zip(labels, ids, strict=True)
    ]
