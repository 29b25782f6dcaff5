"""Draw the figures of the docs: ``python -m benchmarks.pictures [NAME …] [--redraw]``.

The table behind each measured figure is written to ``out/pictures`` and drawn from there;
``--redraw`` draws from the tables of an earlier run. Computing takes minutes for `sizes`, and
seconds for the others. `surerec audit` and `surerec live replay` draw the rest.
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

import surerec as sr
from benchmarks.guarantees import recipe_of
from benchmarks.new_users import load
from benchmarks.sets import size_at_miss
from surerec.audit import audit
from surerec.calibration import observe, profile_cases
from surerec.evaluation import split_users
from surerec.reports.figures import LINES, Line, panels, render, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROOT: Final = Path(__file__).parents[1]
_TABLES: Final = _ROOT / "out" / "pictures"
_BLUE, _ORANGE, _RED, _GREEN, _GREY = "#0072B2", "#E69F00", "#D55E00", "#009E73", "#777777"
_PALE, _PALE_GREEN = "#e8eef3", "#d9efe7"
_CELLS: Final[dict[str, dict[str, Any]]] = {
    "known": {"facecolor": _BLUE, "edgecolor": "white"},
    "held out": {"facecolor": _ORANGE, "edgecolor": "white", "hatch": "//"},
    "next": {"facecolor": "white", "edgecolor": "black", "linestyle": ":"},
    "in the set": {"facecolor": _GREEN, "edgecolor": "white"},
}
_USER: Final = 196
_STRIPS: Final = 0.8  # confidence
_KINDS: Final = {
    "recall-score": "user-level: recall",
    "hit": "user-level: at least one hit",
    "item-time": "item-level (the paper), in time order",
}
_FORMULAS: Final = [f"CM{n}" for n in range(1, 14)] + [f"NCM{n}" for n in range(14, 18)]
_SIZED: Final = {
    "ml-100k": ("MovieLens 100K", "films", 1.0, 1, 900),
    "complete-journey": ("Complete Journey", "groceries", 0.4, 20, 200),
}
"""Data of the set sizes: name, kind of items, share of users, fewest users of an item, tested."""


@cache
def _films() -> sr.Interactions:
    return sr.load_dataset("ml-100k")


@cache
def _model(**settings: Any) -> sr.PopulationConformal:
    return sr.PopulationConformal("CM12", **settings).fit(_films())


def _canvas(width: float, height: float, size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure, all_axes = panels(1, 1, size)
    axes = next(all_axes)
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(0, height))
    return figure, axes


def _row(axes: Axes, left: float, bottom: float, cells: Sequence[str], size: float = 1.0) -> None:
    """Draw a row of cells, each of a kind in `_CELLS`."""
    for place, kind in enumerate(cells):
        at = left + (place + 0.5) * size
        axes.bar(at, 0.75 * size, 0.9 * size, bottom=bottom, **_CELLS[kind])


def _box(axes: Axes, left: float, middle: float, text: str, width: float, color: str) -> None:
    height = 0.65 + 0.5 * text.count("\n")
    axes.barh(middle, width, height, left=left, color=color, edgecolor=_GREY, linewidth=0.8)
    axes.text(left + width / 2, middle, text, ha="center", va="center", fontsize=9.5)


def _arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": _GREY, "linewidth": 1.4}
    axes.annotate("", end, begin, arrowprops=style)


def flow() -> Figure:
    """Draw how an interaction log becomes a set with a guarantee."""
    model, films = _model(), _films()
    full = model.recommend(user=_USER, confidence=0.9)
    n = full.guarantee.n_calibration
    figure, axes = _canvas(49, 14, (8, 2.5))
    steps = {
        "Interaction log": f"{films.n_users:,} users,\n{films.n_items:,} films",
        "Any ranker": f"yours, or\n{model.measure}",
        "Calibration users": f"{n:,} users; last\n{float(model.horizon):.0%} held out",
        "Threshold": f"keeps {full.guarantee.level:.0%} of\nheld-out films",
        "Set + guarantee": f"{len(full):,} of\n{full.n_candidates:,} films",
    }
    for place, (title, words) in enumerate(steps.items()):
        axes.text(10 * place + 4, 12.8, title, ha="center", weight="bold", fontsize=9.5)
        axes.text(10 * place + 4, 3.4, words, ha="center", va="top", fontsize=9.5)
        if place:
            _arrow(axes, (10 * place - 1.9, 8), (10 * place - 0.1, 8))
    for line, (known, held) in enumerate(((3, 3), (4, 2), (2, 3), (4, 3))):
        low, length = 10.3 - 1.9 * line, 7 - 1.6 * line
        _row(axes, 0.5, low, ["known"] * (known + held))
        axes.barh(low + 0.5, length, 1, left=10.5, color=_GREY)
        _row(axes, 20.5, low, ["known"] * known + ["held out"] * held)
        axes.barh(low + 0.5, 7, 1, left=30.5, color=_PALE)
        dots = [30.6 + 0.4 * known, 31.7 + 0.8 * held, 36.8 if line == 2 else 32]
        axes.plot(dots, [low + 0.5] * 3, "o", color=_ORANGE, markersize=5)
        shown = _CELLS["in the set" if line < 2 else "next"]
        axes.barh(low + 0.5, length, 1, left=40.5, **shown)
    axes.plot([35.4] * 2, [4.1, 11.8], "--", color=_RED, linewidth=2)
    return figure


def nested() -> Figure:
    """Draw the nested sets of one user: they grow with the confidence."""
    figure, axes_of = panels(1, 1, (7, 3.4))
    axes = next(axes_of)
    everything = _model().recommend(user=_USER, confidence=0.999).to_frame()
    entry = np.sort(everything["entry_confidence"].to_numpy())
    axes.step(entry, np.arange(1, len(entry) + 1), where="post", color=_BLUE, linewidth=2)
    for place, at in enumerate((0.5, 0.8, 0.9)):
        size = int((entry < at).sum())
        axes.plot([at, at, 0], [0, size, size], color=_GREY, linewidth=0.9, linestyle="--")
        axes.plot(at, size, LINES[place].marker, color=LINES[place].color, markersize=7)
        axes.annotate(f"{size:,} films at {at:.0%}", (at, size), (-8, 6),
                      textcoords="offset points", ha="right")  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, None), xlabel="confidence", ylabel="films in the set")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_title(f"MovieLens 100K, user {_USER}: one ranking, a threshold for every confidence")
    return figure


def strips() -> Figure:
    """Draw the rankings of three users with their held-out items, and one threshold."""
    model = _model(threshold="rank")
    users, owners, ranks = (getattr(model.calibration_, name)
                            for name in ("users", "owners", "entries"))  # fmt: skip
    threshold = len(model.recommend(user=_USER, confidence=_STRIPS))
    n_held = np.bincount(owners)
    recall = np.bincount(owners, weights=ranks <= threshold) / n_held
    few = np.flatnonzero((n_held >= 9) & (n_held <= 16))
    best_to_worst = few[np.argsort(-recall[few], kind="stable")]
    chosen = best_to_worst[[len(few) // 10, len(few) // 2, len(few) * 9 // 10]]
    n_items = _films().n_items
    figure, axes_of = panels(1, 1, (7.5, 3.1))
    axes = next(axes_of)
    axes.barh(range(3), n_items, 0.5, color=_PALE)
    axes.barh(range(3), threshold, 0.5, color=_PALE_GREEN)
    for height, user in enumerate(chosen.tolist()):
        mine = ranks[owners == user]
        for inside, look in (
            (mine <= threshold, (_GREEN, _GREEN)),
            (mine > threshold, (_RED, "white")),
        ):
            axes.plot(mine[inside], np.full(inside.sum(), height), "o", markersize=6.5,
                      color=look[0], markerfacecolor=look[1])  # fmt: skip
        words = f"{(mine <= threshold).sum()} of {len(mine)} kept"
        axes.text(n_items * 1.01, height, words, va="center")
    axes.axvline(threshold, color=_RED, linestyle="--", linewidth=2)
    axes.text(threshold, -0.62, f" one threshold: the best {threshold} films", color=_RED)
    axes.set_yticks(range(3), [f"user {_films().users.ids[int(users[each])]}" for each in chosen])
    axes.set(xlim=(1, n_items), ylim=(2.5, -0.9), xlabel="rank of a film (1 is the best)")
    axes.set_title(f"Dots are held-out films. Over all {len(users)} calibration users, "
                   f"{recall.mean():.0%} are kept on average", loc="left")  # fmt: skip
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def observed_table() -> pl.DataFrame:
    """Compute nominal and observed levels of each kind of guarantee."""
    return audit(_films(), "CM12", n_users=900, random_state=0).coverage


def observed(found: pl.DataFrame) -> Figure:
    """Draw observed against nominal levels for three kinds of guarantees."""
    figure, axes_of = panels(1, 1, (6.4, 4.2))
    axes = next(axes_of)
    axes.plot([0.3, 1], [0.3, 1], color=_GREY, linewidth=0.8)
    axes.fill_between([0.3, 1], [0.3, 1], 0.3, color="#eeeeee")
    for line, (kind, words) in zip((LINES[0], LINES[1], LINES[5]), _KINDS.items(), strict=True):
        rows = found.filter(pl.col("kind").str.starts_with(kind)).sort("nominal")
        low, high = (rows["observed"] - rows["low"], rows["high"] - rows["observed"])
        axes.errorbar(rows["nominal"], rows["observed"], yerr=[low, high], label=words,
                      capsize=2, elinewidth=0.8, **line.thin())  # fmt: skip
    axes.text(0.94, 0.5, "less observed\nthan nominal", ha="right", color="#555555")
    axes.set(xlim=(0.48, 0.97), ylim=(0.36, 1), xlabel="nominal level", ylabel="observed level")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_title("MovieLens 100K, CM12: films consumed later")
    axes.legend(loc="upper left")
    return figure


def sizes_table() -> pl.DataFrame:
    """Compute the mean set size at equal recall for each measure on films and groceries."""
    rows: list[dict[str, Any]] = []
    for data, (*_, share, fewest, n_tested) in _SIZED.items():
        whole = split_users(load(data), share).fit
        support = np.bincount(whole.item_codes, minlength=whole.n_items)
        statistics = sr.count_precedence(whole.only(support[whole.item_codes] >= fewest))
        cases = profile_cases(statistics.interactions, 0.4).sample(n_tested, 0)
        for name in (*_FORMULAS, "popularity", "als", "learned"):
            print(f"{data}: set sizes of {name}", flush=True)
            scorer = recipe_of(name).fit(statistics)
            found = observe(scorer, statistics, cases, keep_candidates=True)
            rows += [
                {"data": data, "measure": name, "n_users": statistics.n_users,
                 "n_items": statistics.n_items, "recall": recall,
                 "size": size_at_miss(found, "score", 1 - recall)}
                for recall in np.linspace(0.5, 0.9, 9).round(2).tolist()
            ]  # fmt: skip
    return pl.DataFrame(rows)


def sizes(table: pl.DataFrame) -> Figure:
    """Draw the set size against the recall for each measure, on films and groceries."""
    figure, all_axes = panels(1, 2, (8, 3.9))
    for axes, (data, (name, kind, _, fewest, _)) in zip(all_axes, _SIZED.items(), strict=True):
        rows = table.filter(data=data)
        paper = rows.filter(pl.col("measure").is_in(_FORMULAS)).group_by("recall").agg(
            low=pl.col("size").min(), high=pl.col("size").max()).sort("recall")  # fmt: skip
        axes.fill_between(paper["recall"], paper["low"], paper["high"], color="#d9d9d9",
                          label="the paper's 17 measures")  # fmt: skip
        lines = (Line(_GREY, (0, (1, 1.2)), "."), LINES[0], LINES[1], LINES[4])
        for line, measure in zip(lines, ("popularity", "CM12", "als", "learned"), strict=True):
            mine = rows.filter(measure=measure)
            axes.plot(mine["recall"], mine["size"], label=measure, **line.thin())
        few = f" that {fewest} or more bought" if fewest > 1 else ""
        numbers = f"{rows['n_users'][0]:,} users, {rows['n_items'][0]:,} {kind}{few}"
        axes.set_title(f"{name}\n{numbers}", fontsize=9)
        axes.set(ylim=(0, None), xlabel="recall", ylabel="items in the set (mean)")
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, handlelength=2.2)
    return figure


def covered() -> Figure:
    """Draw who is covered as a grid: the table of docs/explanation/who-is-covered.md."""
    page = (_ROOT / "docs" / "explanation" / "who-is-covered.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    (_, *kinds), *rows = lines
    figure, axes = _canvas(16, len(rows) + 0.8, (8, 3.8))
    for place, who in enumerate(kinds):
        axes.text(8.4 + 3 * place, len(rows) + 0.3, who, ha="center", weight="bold", fontsize=8.5)
    for row, (name, *cells) in enumerate(rows):
        height = len(rows) - row - 0.5
        axes.text(0, height, fill(name.replace("`", ""), 46), va="center", fontsize=9)
        for place, cell in enumerate(cells):
            holds = cell.startswith("covered")
            color = _PALE_GREEN if holds else "#eeeeee"
            axes.barh(height, 2.9, 0.9, left=6.95 + 3 * place, color=color)
            axes.text(8.4 + 3 * place, height, "covered" if holds else "not covered", fontsize=9,
                      ha="center", va="center", color="black" if holds else "#666666")  # fmt: skip
    return figure


def tree() -> Figure:
    """Draw the decision tree for choosing a guarantee."""
    figure, axes = _canvas(20, 10.7, (8, 4.6))
    _box(axes, 0, 8.4, "What do\nyou show?", 3, _PALE)
    _box(axes, 4.4, 10, "a fixed number\nof items", 4.4, "white")
    _box(axes, 4.4, 6.8, "as many items\nas it takes", 4.4, "white")
    _box(axes, 15.2, 10, "k=10\nwith probabilities", 4.8, _PALE_GREEN)
    for begin, end in (((3, 8.4), (4.4, 10)), ((3, 8.4), (4.4, 6.8)), ((8.8, 10), (15.2, 10))):
        _arrow(axes, begin, end)
    goals = {
        "most of what the user\nconsumes next is in it": 'guarantee="recall"',
        "at least one such\nitem is in it": 'guarantee="hit"',
        "a stated share of what\nit shows is consumed": 'guarantee="precision"',
    }
    for place, (goal, option) in enumerate(goals.items()):
        height = 8.4 - 1.6 * place
        _box(axes, 9.9, height, goal, 4.6, "white")
        _box(axes, 15.2, height, option, 4.8, _PALE_GREEN)
        _arrow(axes, (8.8, 6.8), (9.9, height))
        _arrow(axes, (14.5, height), (15.2, height))
    axes.axhline(4.2, color=_GREY, linewidth=0.8, linestyle=":")
    axes.text(0, 3.6, "And if it must hold …", weight="bold")
    more = {
        "in each country or segment": "segments=",
        "among the items in stock": "item_list=",
        "for users who choose together": "group=",
        "while tastes and items change": "sr.Live",
        "item by item, as in the paper": "InductiveConformal",
    }
    for place, (case, option) in enumerate(more.items()):
        left, height = 10.4 * (place % 2), 2.8 - 0.95 * (place // 2)
        axes.text(left, height, case, va="center", fontsize=9.5)
        _box(axes, left + 5.5, height, option, 4.1, _PALE_GREEN)
    return figure


_DRAWN: Final[dict[str, Callable[[], Figure]]] = {
    each.__name__: each for each in (flow, nested, strips, covered, tree)
}
_MEASURED: Final[dict[str, tuple[Callable[[], pl.DataFrame], Callable[..., Figure]]]] = {
    "observed": (observed_table, observed),
    "sizes": (sizes_table, sizes),
}


def main() -> None:
    """Draw the figures that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*_DRAWN, *_MEASURED])
    parser.add_argument("--redraw", action="store_true", help="draw from tables in out/pictures")
    given = parser.parse_args()
    _TABLES.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        path = _TABLES / f"{name}.csv"
        if name in _MEASURED and not (given.redraw and path.exists()):
            print(f"computing {name}", flush=True)
            _MEASURED[name][0]().write_csv(path)
        with styled():
            drawn = _DRAWN[name]() if name in _DRAWN else _MEASURED[name][1](pl.read_csv(path))
            target = _ROOT / "docs" / "images" / f"picture-{name}.png"
            target.write_bytes(render(drawn)["png"])
        print(target.relative_to(_ROOT))


if __name__ == "__main__":
    main()
