"""The paper's figures, and the one that tells the truth about validity; they need matplotlib."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from surerec._progress import progress
from surerec.evaluation import cd_groups
from surerec.experiments._study import (
    ALGORITHMS,
    CURVES,
    EXTRA,
    PLAIN,
    RANKED,
    SHOWN,
    SPLITS,
    average_ranks_table,
    exponent,
    family,
    file_names,
    friedman_table,
    paper_average_ranks,
    paper_tables,
    titles_of,
)
from surerec.measures import find_measure
from surerec.reports.figures import LINES, Line, blank, panels, plain, render, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from surerec.experiments._settings import Results

_DIAGONAL: dict[str, Any] = {
    "color": "#7f7f7f",
    "linewidth": 1.2,
    "linestyle": (0, (1, 1)),
    "zorder": 1,
}
_UNIT: dict[str, Any] = {
    "xlim": (0, 1),
    "ylim": (0, 1),
    "xticks": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "yticks": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "aspect": "equal",
    "xlabel": "significance level ε",
}
_TRUTH: Final = (
    ("ICRS12", "time", "ICRS12 (mean ratio), in time order", Line("#D55E00", "-", "o")),
    ("ICRS12", "random", "ICRS12 (mean ratio), random split", LINES[0]._replace(marker="s")),
    ("ICRS2", "time", "ICRS2 (minimum count), in time order", LINES[2]),
)
_FAMILIES: Final = {
    "mean": Line("#0072B2", "-", "o"),
    "median": Line("#009E73", "-", "s"),
    "maximum": Line("#E69F00", "-", "^"),
    "minimum": Line("#D55E00", "-", "v"),
    "not inductive": Line("#000000", "-", "D"),
}
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo")
_VARIABLES = {"m": "m, training items", "l": "l, calibration items", "n_c": "n_c, candidates"}
_WIDE, _WIDTH = 1000, 0.82  # decades with room for more numbers; width of an algorithm's bars
_STEP, _ROW, _MARGIN = 0.55, 0.8, 0.6  # between group bars, between labels, beside the axis


def draw_figures(
    results: Results, ranks: pl.DataFrame, k: int
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Draw every figure that the results allow.

    Parameters
    ----------
    results : Results
        The tables of a run.
    ranks : polars.DataFrame
        Its table of ranks.
    k : int
        The cut of precision, recall and F1.

    Yields
    ------
    name, formats : str, dict of str to bytes
        The name of the file without its ending, and its content for each ending.
    """
    planned = plans(results, ranks, k)
    with progress("Figures", total=len(planned)) as advance:
        for name, draw in planned.items():
            with styled():
                formats = render(draw())
            yield name, formats
            advance(1)


def plans(results: Results, ranks: pl.DataFrame, k: int) -> dict[str, Callable[[], Figure]]:
    """Return what draws each figure that the results allow, by its name."""
    titles = titles_of(results.datasets)
    by_dataset: dict[str, tuple[Callable[[pl.DataFrame, str], Figure], pl.DataFrame | None]] = {
        "truth": (truth, results.validity),
        "validity": (partial(by_split, column="validity_error"), results.validity),
        "efficiency": (partial(by_split, column="efficiency_error"), results.validity),
        "curves": (curves, results.curves),
        "tuning-top": (tops, results.tuning),
        "tuning-shares": (shares, results.tuning),
    }
    found: dict[str, Callable[[], Figure]] = {}
    for dataset, file in file_names(titles).items():
        for kind, (draw, table) in by_dataset.items():
            if table is not None:
                own = table.filter(pl.col("dataset") == dataset)
                found[f"{kind}-{file}"] = partial(draw, own, titles[dataset])
    found["top-k"] = partial(top_k, results.metrics, titles, k)
    for metric, drawn in _diagrams(ranks).items():
        found[f"cd-{metric}"] = partial(critical_differences, drawn)
    if results.times is not None:
        found["times"] = partial(times, results.times, titles)
    if results.growth is not None:
        found["growth"] = partial(growth, results.growth)
    return found


def _legend_below(figure: Figure) -> None:
    handles, labels = figure.axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)


def _errors(table: pl.DataFrame, split: str, algorithm: str) -> pl.DataFrame:
    chosen = table.filter(pl.col("split") == split, pl.col("algorithm") == algorithm)
    return chosen.sort("epsilon")


def by_split(table: pl.DataFrame, title: str, column: str) -> Figure:
    """Draw validity or efficiency error against ε, in time order and under the random split."""
    figure, all_axes = panels(1, 2, (8.0, 4.6))
    figure.suptitle(plain(f"{title}: {column.removesuffix('_error')}"), fontsize=11.5)
    for axes, (split, words) in zip(all_axes, SPLITS.items(), strict=True):
        for number, (algorithm, line) in enumerate(zip(SHOWN, LINES, strict=False)):
            found = _errors(table, split, algorithm)
            measure = find_measure(algorithm).readable.replace("-", " ")
            axes.plot(
                found["epsilon"],
                found[column],
                label=f"{algorithm} ({measure})",
                markevery=(number, len(SHOWN)),  # in turn, as the curves run close together
                clip_on=False,
                **line.thin(),
            )
        if column == "validity_error":
            axes.plot([0, 1], [0, 1], label="error = ε", **_DIAGONAL)
        axes.set(title=words, ylabel=column.replace("_", " "), **_UNIT)
    _legend_below(figure)
    return figure


def truth(table: pl.DataFrame, title: str) -> Figure:
    """Draw what a mean measure promises and keeps, in both splits, beside a minimum measure.

    The bands are two standard errors to either side.
    """
    figure, all_axes = panels(1, 1, (6.0, 5.6))
    axes = next(all_axes)
    axes.fill_between([0, 1], [0, 1], [1, 1], color="#000000", alpha=0.05, linewidth=0)
    axes.text(0.04, 0.955, "more errors than promised", va="top", color="#4d4d4d", fontsize=9.5)
    axes.plot([0, 1], [0, 1], label="error = ε, the promise", **_DIAGONAL)
    for algorithm, split, label, line in _TRUTH:
        found = _errors(table, split, algorithm)
        at, middle = found["epsilon"], found["validity_error"]
        reach = 2 * found["standard_error"].fill_null(0)
        axes.fill_between(at, middle - reach, middle + reach, color=line.color, alpha=0.2, lw=0)
        axes.plot(at, middle, label=label, **line.thin())
    words = "error: share of consumed items that the set missed"
    axes.set(title=plain(title), ylabel=words, **_UNIT)
    axes.legend(loc="lower right")
    return figure


def curves(table: pl.DataFrame, title: str) -> Figure:
    """Draw precision and recall over k for a few algorithms, in time order."""
    figure, all_axes = panels(1, 2, (8.0, 4.2))
    figure.suptitle(plain(title), fontsize=11.5)
    for axes, metric in zip(all_axes, ("precision", "recall"), strict=True):
        for algorithm, line in zip(CURVES, LINES, strict=False):
            found = table.filter(pl.col("split") == "time", pl.col("algorithm") == algorithm)
            found = found.sort("k")
            axes.plot(found["k"], found[metric], label=algorithm, markevery=7, **line.thin())
        axes.set(xlabel="k", ylabel=f"{metric}@k")
        axes.set_ylim(bottom=0)
    _legend_below(figure)
    return figure


def top_k(metrics: pl.DataFrame, titles: Mapping[str, str], k: int) -> Figure:
    """Draw precision, recall and F1 at k of every algorithm and data set, in time order."""
    figure, all_axes = panels(3, 1, (9.6, 9.0))
    names, total = [*ALGORITHMS, EXTRA], len(titles)
    width = _WIDTH / total
    order = pl.DataFrame({"algorithm": names})
    for axes, metric in zip(all_axes, ("precision", "recall", "f1"), strict=True):
        for number, (dataset, title) in enumerate(titles.items()):
            found = metrics.filter(split="time", metric=metric, dataset=dataset)
            found = order.join(found, on="algorithm", how="left", maintain_order="left")
            line = LINES[number % len(LINES)]
            axes.bar(
                np.arange(len(names)) + (number + 0.5) * width - _WIDTH / 2,
                found["mean"].fill_null(np.nan),
                width,
                yerr=found["standard_error"].fill_null(0),
                label=plain(title),
                # Mixed with white, so that hatching shows and the grid does not.
                facecolor=tuple(0.55 * part + 0.45 for part in to_rgb(line.color)),
                edgecolor="#404040",
                linewidth=0.5,
                hatch=_HATCHES[number % len(_HATCHES)],
                error_kw={"elinewidth": min(0.9, 2 / total), "ecolor": "black"},
            )
        axes.set_ylabel(f"{'F1' if metric == 'f1' else metric}@{k}")
        axes.set_xticks(range(len(names)), [])
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names], rotation=90)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, total))
    return figure


def times(table: pl.DataFrame, titles: Mapping[str, str]) -> Figure:
    """Draw the time of a recommendation on a logarithmic scale: the median, and up to the 90%."""
    names = list(ALGORITHMS)
    names.insert(names.index("CRS-Max") + 1, PLAIN)
    figure, all_axes = panels(1, 1, (8.0, 7.0 + 0.25 * len(titles)))
    axes = next(all_axes)
    for number, (dataset, title) in enumerate(titles.items()):
        found = table.filter(pl.col("dataset") == dataset, pl.col("algorithm").is_in(names))
        shift = 0.6 * ((number + 0.5) / len(titles) - 0.5)
        at = [names.index(name) + shift for name in found["algorithm"]]
        looks = LINES[number % len(LINES)].thin() | {"linestyle": "none", "markersize": 5.5}
        middle, high = found["median_ms"], found["p90_ms"]
        axes.hlines(at, middle, high, color=looks["color"], linewidth=1.1, alpha=0.7)
        axes.plot(middle, at, label=plain(title), **looks)
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


def growth(table: pl.DataFrame) -> Figure:
    """Draw how time grows with m, l and n_c; the legends show the fitted exponents."""
    figure, all_axes = panels(1, 3, (10.4, 5.0))
    times_taken = table["milliseconds"].to_numpy()
    for axes, (variable, words) in zip(all_axes, _VARIABLES.items(), strict=True):
        known = table.filter(pl.col("variable") == variable).sort("value", maintain_order=True)
        for ((name,), found), line in zip(
            known.group_by("algorithm", maintain_order=True), LINES, strict=False
        ):
            label = f"{name}: {exponent(found['slope'].first()) or 'not fitted'}"
            axes.plot(found["value"], found["milliseconds"], label=label, **line.thin())
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        values = known["value"].unique().sort().to_list()
        axes.set_xticks(values, [str(value) for value in values])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(0.7 * times_taken.min(), 1.4 * times_taken.max())
        axes.set_xlabel(words)
        looks: dict[str, Any] = {"title": "fitted exponent", "fontsize": 8.5}
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), **looks)
    figure.axes[0].set_ylabel("milliseconds")
    return figure


def tops(table: pl.DataFrame, title: str) -> Figure:
    """Draw AP against I, with one standard error; the last place is the product of all factors."""
    figure, all_axes = panels(1, 1, (6.4, 4.2))
    axes = next(all_axes)
    swept = table.filter(pl.col("sweep") == "top")
    values = swept["top"].drop_nulls().unique().sort().to_list()
    by_name = swept.group_by("algorithm", maintain_order=True)
    for number, (((name,), found), line) in enumerate(zip(by_name, LINES, strict=False)):
        some, whole = found.drop_nulls("top").sort("top"), found.filter(pl.col("top").is_null())
        at = [values.index(top) + 0.1 * number for top in some["top"]]
        looks: dict[str, Any] = {"capsize": 3, **line.thin()}
        axes.errorbar(at, some["ap"], some["ap_error"], label=str(name), **looks)
        if len(whole):
            axes.errorbar([len(values)], whole["ap"], whole["ap_error"], **looks)
    axes.set_xticks(range(len(values) + 1), [*map(str, values), "all"])
    axes.set_ylim(bottom=0)
    axes.set(xlabel="I, number of factors in the score", ylabel="AP", title=plain(title))
    axes.legend()
    return figure


def shares(table: pl.DataFrame, title: str) -> Figure:
    """Draw AP and AUC over the shares of training and calibration, as heat maps with numbers."""
    swept = table.filter(pl.col("sweep") == "shares")
    names = swept["algorithm"].unique(maintain_order=True).to_list()
    figure, all_axes = panels(2, len(names), (3.9 * len(names), 7.0))
    figure.suptitle(plain(title), fontsize=11.5)
    for metric in ("ap", "auc"):
        values = swept[metric].to_numpy()
        low, high = values.min(), values.max()
        for name in names:
            found = swept.filter(pl.col("algorithm") == name).sort("training", "calibration")
            wide = found.pivot("calibration", index="training", values=metric, sort_columns=True)
            axes, grid = next(all_axes), wide.drop("training").to_numpy().astype(float)
            axes.imshow(grid, cmap="cividis", vmin=low, vmax=high, origin="lower", aspect="auto")
            for (row, column), value in np.ndenumerate(grid):
                if not np.isnan(value):
                    looks: dict[str, Any] = {"ha": "center", "va": "center"}
                    color = "white" if value < (low + high) / 2 else "black"
                    axes.text(column, row, f"{value:.3f}", color=color, **looks)
            across = wide.columns[1:]
            axes.set_xticks(range(len(across)), [f"{float(share):.0%}" for share in across])
            axes.set_yticks(range(len(wide)), [f"{share:.0%}" for share in wide["training"]])
            axes.set(xlabel="calibration", ylabel="training", title=f"{name}: {metric.upper()}")
            axes.grid(visible=False)
    return figure


class Diagram(NamedTuple):
    """One critical-difference diagram."""

    title: str
    ranks: Mapping[str, float]
    cd: float


def _diagrams(ranks: pl.DataFrame) -> dict[str, list[Diagram]]:
    """Return ours, if there are at least two data sets, and the paper's."""
    tests = friedman_table(ranks)
    averages = average_ranks_table(ranks)
    ours = {}
    for test in tests.to_dicts() if tests is not None else ():
        own = averages.filter(pl.col("metric") == test["metric"]).select("algorithm", "rank")
        title = f"{test['metric'].upper()}: {test['datasets']} data sets at hand"
        ours[test["metric"]] = [Diagram(title, dict(own.iter_rows()), test["cd"])]
    cd = paper_tables()["friedman"]["critical_difference"]
    theirs = {
        metric: Diagram(f"{metric.upper()}: the paper's 7 data sets", average, cd)
        for metric in RANKED
        for average in [paper_average_ranks(metric)]
    }
    return {metric: [*ours.get(metric, ()), theirs[metric]] for metric in RANKED}


def critical_differences(diagrams: Sequence[Diagram]) -> Figure:
    """Draw diagrams below each other: average ranks, best to the left; bars join what is alike.

    They are drawn here because scikit-posthocs puts the bar of the critical difference on the
    numbers of the axis; the tests compare the groups with its own.
    """
    figure, all_axes = panels(len(diagrams), 1, (8.0, 4.2 * len(diagrams) + 0.4))
    for axes, diagram in zip(all_axes, diagrams, strict=True):
        _draw_diagram(axes, diagram)
    handles = [
        Line2D([], [], color=line.color, marker=line.marker, linestyle="none", label=name)
        for name, line in _FAMILIES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, handlelength=1.2)
    return figure


def _draw_diagram(axes: Axes, diagram: Diagram) -> None:
    names = sorted(diagram.ranks, key=lambda name: diagram.ranks[name])
    ranks = [diagram.ranks[name] for name in names]
    last, cd = len(names), diagram.cd
    blank(axes)
    axes.set_title(diagram.title)
    axes.plot([1, last], [0, 0], color="black", linewidth=1)
    for tick in range(1, last + 1):
        long = tick in (1, last) or tick % 5 == 0
        axes.plot([tick, tick], [0, 0.3 if long else 0.15], color="black", linewidth=1)
        if long:
            axes.text(tick, 0.4, str(tick), ha="center", va="bottom", fontsize=9)
    # How far apart two ranks must be: a bar from 1.
    axes.errorbar([1 + cd / 2], [1.5], xerr=cd / 2, color="black", elinewidth=1.5, capsize=4)
    axes.text(1 + cd / 2, 1.65, f"CD = {cd:.2f}", ha="center", va="bottom", fontsize=9.5)
    groups = cd_groups(ranks, cd)
    for number, group in enumerate(groups):
        y = -_STEP * (number + 1)
        ends = [ranks[group[0]] - 0.12, ranks[group[-1]] + 0.12]
        axes.plot(ends, [y, y], color="black", linewidth=3.5, solid_capstyle="round", zorder=3)
    top = -_STEP * (len(groups) + 1) - 0.4
    half = (last + 1) // 2
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = place < half
        y = top - _ROW * (place if left else last - 1 - place)
        x, shift = (1 - _MARGIN, -0.15) if left else (last + _MARGIN, 0.15)
        line = _FAMILIES[family(name)]
        axes.plot([rank, rank, x], [0, y, y], color=line.color, linewidth=0.9, zorder=1)
        axes.plot(rank, 0, color=line.color, marker=line.marker, markersize=5, zorder=4)
        words = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
        side = "right" if left else "left"
        axes.text(x + shift, y, words, ha=side, va="center", fontsize=9.5)
    axes.set_xlim(1 - _MARGIN - 4.5, max(last + _MARGIN + 4.5, 1 + cd + 1))
    axes.set_ylim(top - _ROW * half, 2.5)
