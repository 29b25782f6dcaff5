"""Curves: validity, efficiency, the truth about validity, and precision and recall over k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from surerec.experiments._algorithms import EXTRA
from surerec.measures import find_measure
from surerec.reports.figures import LINES, Line, panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SHOWN = ("ICRS1", "ICRS3", "ICRS7", "ICRS11", "ICRS15")
"""The measures that the paper shows."""

_SPLITS = {"time": "in time order", "random": "random split"}
_CURVES = ("ICRS12", "ICRS3", "ICRS2", "CRS-Max", "Precedence Mining", EXTRA)
_DIAGONAL: dict[str, Any] = {
    "color": "#7f7f7f",
    "linewidth": 1.2,
    "linestyle": (0, (1, 1)),
    "zorder": 1,
}
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def _label(algorithm: str) -> str:
    return f"{algorithm} ({find_measure(algorithm).readable.replace('-', ' ')})"


def _of(table: pl.DataFrame, split: str, algorithm: str) -> pl.DataFrame:
    chosen = table.filter(pl.col("split") == split, pl.col("algorithm") == algorithm)
    return chosen.sort("epsilon")


def _unit_square(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=_TICKS, yticks=_TICKS, aspect="equal")
    axes.set_xlabel("significance level ε")


def _by_split(table: pl.DataFrame, title: str, column: str, *, diagonal: bool) -> Figure:
    figure, all_axes = panels(1, 2, (8.0, 4.6))
    figure.suptitle(plain(title), fontsize=11.5)
    for axes, (split, words) in zip(all_axes, _SPLITS.items(), strict=True):
        for number, (algorithm, line) in enumerate(zip(SHOWN, LINES, strict=False)):
            found = _of(table, split, algorithm)
            axes.plot(
                found["epsilon"],
                found[column],
                label=_label(algorithm),
                markevery=(number, len(SHOWN)),  # in turn, as the curves run close together
                clip_on=False,
                **line.thin(),
            )
        if diagonal:
            axes.plot([0, 1], [0, 1], label="error = ε", **_DIAGONAL)
        _unit_square(axes)
        axes.set_title(words)
        axes.set_ylabel(column.replace("_", " "))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def validity(table: pl.DataFrame, title: str) -> Figure:
    """Draw the error against ε, in time order and under the random split."""
    return _by_split(table, f"{title}: validity", "validity_error", diagonal=True)


def efficiency(table: pl.DataFrame, title: str) -> Figure:
    """Draw the share of irrelevant items that the set lets in, against ε."""
    return _by_split(table, f"{title}: efficiency", "efficiency_error", diagonal=False)


def truth(table: pl.DataFrame, title: str) -> Figure:
    """Draw what a mean measure promises and keeps, in both splits, beside a minimum measure.

    The bands are two standard errors to either side.
    """
    figure, all_axes = panels(1, 1, (6.0, 5.6))
    axes = next(all_axes)
    axes.fill_between([0, 1], [0, 1], [1, 1], color="#000000", alpha=0.05, linewidth=0)
    axes.text(0.04, 0.955, "more errors than promised", va="top", color="#4d4d4d", fontsize=9.5)
    axes.plot([0, 1], [0, 1], label="error = ε, the promise", **_DIAGONAL)
    series = (
        ("ICRS12", "time", "ICRS12 (mean ratio), in time order", Line("#D55E00", "-", "o")),
        ("ICRS12", "random", "ICRS12 (mean ratio), random split", LINES[0]._replace(marker="s")),
        ("ICRS2", "time", "ICRS2 (minimum count), in time order", LINES[2]),
    )
    for algorithm, split, label, line in series:
        found = _of(table, split, algorithm)
        middle = found["validity_error"]
        reach = 2 * found["standard_error"].fill_null(0)
        axes.fill_between(
            found["epsilon"], middle - reach, middle + reach, color=line.color, alpha=0.2, lw=0
        )
        axes.plot(found["epsilon"], middle, label=label, **line.thin())
    _unit_square(axes)
    axes.set_ylabel("error: share of consumed items that the set missed")
    axes.set_title(plain(title))
    axes.legend(loc="lower right")
    return figure


def curves(table: pl.DataFrame, title: str) -> Figure:
    """Draw precision and recall over k for a few algorithms, in time order."""
    figure, all_axes = panels(1, 2, (8.0, 4.2))
    figure.suptitle(plain(title), fontsize=11.5)
    for axes, metric in zip(all_axes, ("precision", "recall"), strict=True):
        for algorithm, line in zip(_CURVES, LINES, strict=False):
            found = table.filter(pl.col("split") == "time", pl.col("algorithm") == algorithm)
            found = found.sort("k")
            axes.plot(found["k"], found[metric], label=algorithm, markevery=7, **line.thin())
        axes.set_xlabel("k")
        axes.set_ylabel(f"{metric}@k")
        axes.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
