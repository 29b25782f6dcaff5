"""What changes with a parameter: growth of time, I, and the split shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.ticker import FuncFormatter, NullFormatter

from surerec.reports.figures import LINES, panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_VARIABLES = {"m": "m, training items", "l": "l, calibration items", "n_c": "n_c, candidates"}


def growth(table: pl.DataFrame) -> Figure:
    """Draw how time grows with m, l and n_c; the legends give the fitted exponents."""
    figure, all_axes = panels(1, 3, (10.4, 5.0))
    highest, lowest = table["milliseconds"].max(), table["milliseconds"].min()
    names = table["algorithm"].unique(maintain_order=True).to_list()
    for axes, (variable, words) in zip(all_axes, _VARIABLES.items(), strict=True):
        for name, line in zip(names, LINES, strict=False):
            found = table.filter(pl.col("variable") == variable, pl.col("algorithm") == name)
            found = found.sort("value")
            label = f"{name}: {_exponent(found['slope'].first())}"
            axes.plot(found["value"], found["milliseconds"], label=label, **line.thin())
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        values = table.filter(pl.col("variable") == variable)["value"].unique().sort().to_list()
        axes.set_xticks(values, [str(value) for value in values])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(0.7 * float(lowest), 1.4 * float(highest))  # type: ignore[arg-type]
        axes.set_xlabel(words)
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.15), title="fitted exponent", fontsize=8.5
        )
    figure.axes[0].set_ylabel("milliseconds")
    return figure


def _exponent(slope: object) -> str:
    return "not fitted" if slope is None else f"{slope:z.2f}".replace("-", "−")


def tops(table: pl.DataFrame, title: str) -> Figure:
    """Draw AP against I, with one standard error; the last place is the product of all factors."""
    figure, all_axes = panels(1, 1, (6.4, 4.2))
    axes = next(all_axes)
    swept = table.filter(pl.col("sweep") == "top")
    values = swept["top"].drop_nulls().unique().sort().to_list()
    names = swept["algorithm"].unique(maintain_order=True).to_list()
    for number, (name, line) in enumerate(zip(names, LINES, strict=False)):
        found = swept.filter(pl.col("algorithm") == name)
        some = found.drop_nulls("top").sort("top")
        at = [values.index(top) + 0.1 * number for top in some["top"]]
        axes.errorbar(at, some["ap"], some["ap_error"], label=name, capsize=3, **line.thin())
        whole = found.filter(pl.col("top").is_null())
        for ap, error in whole.select("ap", "ap_error").iter_rows():
            axes.errorbar(len(values), ap, error, capsize=3, **line.thin())
    axes.set_xticks(range(len(values) + 1), [*map(str, values), "all"])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("I, number of factors in the score")
    axes.set_ylabel("AP")
    axes.set_title(plain(title))
    axes.legend()
    return figure


def shares(table: pl.DataFrame, title: str) -> Figure:
    """Draw AP and AUC over the shares of training and calibration, as heat maps with numbers."""
    swept = table.filter(pl.col("sweep") == "shares")
    names = swept["algorithm"].unique(maintain_order=True).to_list()
    figure, all_axes = panels(2, len(names), (3.9 * len(names), 7.0))
    figure.suptitle(plain(title), fontsize=11.5)
    for metric in ("ap", "auc"):
        reach = swept[metric].min(), swept[metric].max()
        for name in names:
            axes = next(all_axes)
            _heat_map(axes, swept.filter(pl.col("algorithm") == name), metric, reach)
            axes.set_title(f"{name}: {metric.upper()}")
    return figure


def _heat_map(axes: Axes, found: pl.DataFrame, metric: str, reach: tuple[object, object]) -> None:
    across = found["calibration"].unique().sort().to_list()
    down = found["training"].unique().sort().to_list()
    values = np.full((len(down), len(across)), np.nan)
    for training, calibration, value in found.select("training", "calibration", metric).iter_rows():
        values[down.index(training), across.index(calibration)] = value
    low, high = (float(end) for end in reach)  # type: ignore[arg-type]
    axes.imshow(values, cmap="cividis", vmin=low, vmax=high, origin="lower", aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            dark = value < (low + high) / 2
            words = f"{value:.3f}"
            axes.text(
                column, row, words, ha="center", va="center", color="white" if dark else "black"
            )
    axes.set_xticks(range(len(across)), [f"{100 * share:.0f} %" for share in across])
    axes.set_yticks(range(len(down)), [f"{100 * share:.0f} %" for share in down])
    axes.set_xlabel("calibration")
    axes.set_ylabel("training")
    axes.grid(visible=False)
