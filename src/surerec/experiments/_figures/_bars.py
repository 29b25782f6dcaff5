"""One value for each algorithm and data set: precision, recall and F1 at k, and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.colors import to_rgb
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from surerec.experiments._algorithms import ALGORITHMS, EXTRA
from surerec.experiments._timing import PLAIN
from surerec.reports.figures import LINES, panels, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo")
_WIDE = 1000  # more decades than that leave no room for more numbers
_WIDTH = 0.82  # of the bars of one algorithm


def top_k(metrics: pl.DataFrame, titles: Mapping[str, str], k: int) -> Figure:
    """Draw precision, recall and F1 at k of every algorithm and data set, in time order."""
    figure, all_axes = panels(3, 1, (9.6, 9.0))
    names = [*ALGORITHMS, EXTRA]
    table = metrics.filter(pl.col("split") == "time")
    for axes, metric in zip(all_axes, ("precision", "recall", "f1"), strict=True):
        for place, (dataset, title) in enumerate(titles.items()):
            found = table.filter(pl.col("metric") == metric, pl.col("dataset") == dataset)
            _bars(axes, found, names, (place, len(titles)), plain(title))
        axes.set_ylabel(f"{'F1' if metric == 'f1' else metric}@{k}")
        axes.set_xticks(range(len(names)), [])
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(names)), [_two_lines(name) for name in names], rotation=90)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(titles)))
    return figure


def _lighter(color: str) -> tuple[float, ...]:
    """Mix with white, so that hatching shows and the grid does not."""
    return tuple(0.55 * part + 0.45 for part in to_rgb(color))


def _two_lines(name: str) -> str:
    return name.replace(" ", "\n", 1)


def _bars(
    axes: Axes, found: pl.DataFrame, names: list[str], place: tuple[int, int], label: str
) -> None:
    number, total = place
    rows = {row["algorithm"]: row for row in found.to_dicts()}
    width = _WIDTH / total
    at = np.arange(len(names)) + (number + 0.5) * width - _WIDTH / 2
    values = [rows[name]["mean"] if name in rows else np.nan for name in names]
    errors = [(rows[name]["standard_error"] or 0.0) if name in rows else 0.0 for name in names]
    line = LINES[number % len(LINES)]
    axes.bar(
        at,
        values,
        width,
        yerr=errors,
        label=label,
        facecolor=_lighter(line.color),
        edgecolor="#404040",
        linewidth=0.5,
        hatch=_HATCHES[number % len(_HATCHES)],
        error_kw={"elinewidth": min(0.9, 2 / total), "ecolor": "black"},
    )


def times(table: pl.DataFrame, titles: Mapping[str, str]) -> Figure:
    """Draw the time of a recommendation on a logarithmic scale: the median, and up to the 90 %."""
    names = list(ALGORITHMS)
    names.insert(names.index("CRS-Max") + 1, PLAIN)
    figure, all_axes = panels(1, 1, (8.0, 7.0 + 0.25 * len(titles)))
    axes = next(all_axes)
    for number, (dataset, title) in enumerate(titles.items()):
        rows = table.filter(pl.col("dataset") == dataset)
        found = {row["algorithm"]: row for row in rows.to_dicts()}
        known = [(y, found[name]) for y, name in enumerate(names) if name in found]
        if not known:
            continue
        shift = 0.6 * ((number + 0.5) / len(titles) - 0.5)
        at = [y + shift for y, _ in known]
        line = LINES[number % len(LINES)]
        middle = [row["median_ms"] for _, row in known]
        high = [row["p90_ms"] for _, row in known]
        axes.hlines(at, middle, high, color=line.color, linewidth=1.1, alpha=0.7)
        axes.plot(
            middle,
            at,
            linestyle="none",
            color=line.color,
            marker=line.marker,
            markersize=5.5,
            label=plain(title),
        )
    axes.set_xscale("log")
    left, right = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if right / left < _WIDE else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("milliseconds per recommendation: median, and line to the 90th percentile")
    figure.legend(loc="outside upper center", ncols=min(3, len(titles)))
    return figure
