"""The figure of an audit: observed against nominal levels, and observed levels by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from surerec.audit._verdicts import HEADLINE, at_headline
from surerec.evaluation import AGES
from surerec.reports.figures import LINES, Line, panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_NOMINAL: dict[str, Any] = {"color": "#7f7f7f", "linewidth": 1.2, "zorder": 1}
_FRESH_TO_OLD = (LINES[6], LINES[0], LINES[3], LINES[1], Line("#D55E00", "-", "P"))


def overview(
    data: str, subject: str, coverage: pl.DataFrame, windows: pl.DataFrame | None
) -> Figure:
    """Draw observed against nominal levels, and the observed level by window if there are any."""
    two = windows is not None
    figure, all_axes = panels(1, 1 + two, (10.4 if two else 5.6, 5.6))
    figure.suptitle(plain(f"{data}: do the guarantees of {subject} hold?", 70), fontsize=12)
    _nominal_and_observed(next(all_axes), coverage)
    if windows is not None:
        _by_window(next(all_axes), windows)
    return figure


def _nominal_and_observed(axes: Axes, coverage: pl.DataFrame) -> None:
    axes.plot([0.4, 1], [0.4, 1], label="observed = nominal", linestyle=(0, (1, 1)), **_NOMINAL)
    shown = coverage.filter(unit="users")["kind"].unique(maintain_order=True).to_list()
    for number, kind in enumerate(shown):
        rows = coverage.filter(pl.col("kind") == kind).sort("nominal")
        # Shifted along the diagonal, which separates intervals and keeps distances to it.
        shift = 0.005 * (number - (len(shown) - 1) / 2)
        middle = rows["observed"].to_numpy() + shift
        axes.errorbar(
            rows["nominal"].to_numpy() + shift,
            middle,
            yerr=[rows["observed"] - rows["low"], rows["high"] - rows["observed"]],
            label=rows["name"][0],
            capsize=2,
            **LINES[number % len(LINES)].thin(),
        )
    axes.fill_between([0.4, 1], [0, 0], [0.4, 1], color="#000000", alpha=0.05, linewidth=0)
    axes.text(0.985, 0.43, "below nominal", ha="right", va="bottom", color="#4d4d4d", fontsize=9.5)
    lowest = min(0.4, float(coverage["low"].fill_nan(None).min() or 0.4) - 0.02)  # type: ignore[arg-type]
    axes.set(xlim=(0.46, 1), ylim=(max(lowest, 0), 1.01))
    axes.set_xlabel("nominal level 1 − ε")
    axes.set_ylabel("observed level, with 95% intervals (jointly over ε)")
    axes.set_title("observed and nominal coverage of items new to the user")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=1)


def _by_window(axes: Axes, table: pl.DataFrame) -> None:
    rows = at_headline(table)
    windows = rows["window"].unique(maintain_order=True).sort().to_list()
    axes.axhline(1 - HEADLINE, label="nominal", linestyle=(0, (1, 1)), **_NOMINAL)
    for age, line in zip(AGES, _FRESH_TO_OLD, strict=True):
        found = rows.filter(pl.col("model") == age)
        at = [windows.index(window) for window in found["window"]]
        axes.plot(at, found["observed"], label=age, **line.thin())
    step = max(1, len(windows) // 6)
    axes.set_xticks(range(0, len(windows), step), windows[::step], rotation=30, ha="right")
    axes.set_ylim(top=1.01)
    axes.set_ylabel(f"observed level ({1 - HEADLINE:.0%} nominal)")
    axes.set_title("temporal split, by window and age of the model")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.19), ncols=2)
