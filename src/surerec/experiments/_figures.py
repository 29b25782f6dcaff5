"""The paper's figures, and one of nominal against observed errors; they need matplotlib."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scikit_posthocs import critical_difference_diagram

from surerec._progress import progress
from surerec.experiments import _study as study
from surerec.measures import find_measure
from surerec.reports.figures import LINES, Line, panels, plain, render, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from surerec.experiments._settings import Results

    Diagram: TypeAlias = tuple[str, Mapping[str, float], float]

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
    "xlabel": "nominal error: significance level ε",
}
_FAMILIES: Final = {
    "mean": Line("#0072B2", "-", "o"),
    "median": Line("#009E73", "-", "s"),
    "maximum": Line("#E69F00", "-", "^"),
    "minimum": Line("#D55E00", "-", "v"),
    "not inductive": Line("#000000", "-", "D"),
}
_WIDE, _WIDTH = 1000, 0.82  # axis range with sparse ticks; width of an algorithm's bars


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
        List length of precision, recall and F1.

    Yields
    ------
    name, formats : str, dict of str to bytes
        The file name without ending, and the content for each ending.
    """
    planned = plans(results, ranks, k)
    with progress("Figures", total=len(planned)) as advance:
        for name, draw in planned.items():
            with styled():
                formats = render(draw())
            yield name, formats
            advance(1)


def plans(results: Results, ranks: pl.DataFrame, k: int) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw each figure that the results allow, by name."""
    titles = study.titles_of(results.datasets)
    found: dict[str, Callable[[], Figure]] = {}
    for dataset, file in study.file_names(titles).items():
        own = results.validity.filter(pl.col("dataset") == dataset), titles[dataset]
        for kind in ("validity", "efficiency"):
            found[f"{kind}-{file}"] = partial(by_split, *own, f"{kind}_error")
    found["top-k"] = partial(top_k, results.metrics, titles, k)
    for metric, drawn in _diagrams(ranks).items():
        found[f"cd-{metric}"] = partial(critical_differences, drawn)
    if results.times is not None:
        found["times"] = partial(times, results.times, titles)
    return found


def by_split(table: pl.DataFrame, title: str, column: str) -> Figure:
    """Draw the validity or efficiency error against ε, for both splits."""
    figure, all_axes = panels(1, 2, (8.0, 4.6))
    figure.suptitle(plain(f"{title}: {column.removesuffix('_error')}"), fontsize=11.5)
    for axes, (split, words) in zip(all_axes, study.SPLITS.items(), strict=True):
        for number, (algorithm, line) in enumerate(zip(study.SHOWN, LINES, strict=False)):
            found = table.filter(split=split, algorithm=algorithm).sort("epsilon")
            measure = find_measure(algorithm).readable.replace("-", " ")
            axes.plot(
                found["epsilon"],
                found[column],
                label=f"{algorithm} ({measure})",
                markevery=(number, len(study.SHOWN)),  # in turn, as the curves run close together
                clip_on=False,
                **line.thin(),
            )
        if column == "validity_error":
            axes.plot([0, 1], [0, 1], label="observed = nominal", **_DIAGONAL)
        axes.set(title=words, ylabel=f"observed {column.replace('_', ' ')}", **_UNIT)
    handles, labels = figure.axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def top_k(metrics: pl.DataFrame, titles: Mapping[str, str], k: int) -> Figure:
    """Draw precision, recall and F1 at k of every algorithm and data set, in time order."""
    figure, all_axes = panels(3, 1, (9.6, 9.0))
    names, total = [*study.ALGORITHMS, study.EXTRA], len(titles)
    width = _WIDTH / total
    order = pl.DataFrame({"algorithm": names})
    for axes, metric in zip(all_axes, ("precision", "recall", "f1"), strict=True):
        for number, (dataset, title) in enumerate(titles.items()):
            found = metrics.filter(split="time", metric=metric, dataset=dataset)
            found = order.join(found, on="algorithm", how="left", maintain_order="left")
            axes.bar(
                np.arange(len(names)) + (number + 0.5) * width - _WIDTH / 2,
                found["mean"].fill_null(np.nan),
                width,
                yerr=found["standard_error"].fill_null(0),
                label=plain(title),
                facecolor=LINES[number % len(LINES)].color,
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
    """Draw the time of a recommendation on a log scale, from the median to the 90th percentile."""
    names = list(study.ALGORITHMS)
    names.insert(names.index("CRS-Max") + 1, study.PLAIN)
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


def _diagrams(ranks: pl.DataFrame) -> dict[str, list[Diagram]]:
    """Return title, average ranks and CD of our results (if of several data sets) and the paper."""
    tests, averages = study.friedman_table(ranks), study.average_ranks_table(ranks)
    paper_cd = study.paper_tables()["friedman"]["critical_difference"]
    found: dict[str, list[Diagram]] = {metric: [] for metric in study.RANKED}
    for test in [] if tests is None else tests.to_dicts():
        own = averages.filter(metric=test["metric"]).select("algorithm", "rank")
        title = f"{test['metric'].upper()}: {test['datasets']} data sets of this run"
        found[test["metric"]].append((title, dict(own.iter_rows()), test["cd"]))
    for metric, diagrams in found.items():
        title = f"{metric.upper()}: the paper's 7 data sets"
        diagrams.append((title, study.paper_average_ranks(metric), paper_cd))
    return found


def critical_differences(diagrams: Sequence[Diagram]) -> Figure:
    """Draw critical difference diagrams; bars join algorithms that do not differ."""
    figure, all_axes = panels(len(diagrams), 1, (8.0, 4.2 * len(diagrams)))
    for axes, (title, ranks, cd) in zip(all_axes, diagrams, strict=True):
        difference = np.subtract.outer(*[list(ranks.values())] * 2)
        same = pd.DataFrame(np.where(np.abs(difference) < cd, 1.0, 0.0), list(ranks), list(ranks))
        critical_difference_diagram(
            dict(ranks),
            same,
            ax=axes,
            label_fmt_left="{label}  {rank:.2f}",
            label_fmt_right="{rank:.2f}  {label}",
            color_palette={name: _FAMILIES[study.family(name)].color for name in ranks},
        )
        axes.set_title(f"{title} (CD = {cd:.2f})")
    return figure
