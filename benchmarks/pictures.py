"""Draw the pictures of docs/pictures.md on MovieLens 100K: ``python -m benchmarks.pictures``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import surerec as sr
from surerec.audit import audit
from surerec.reports.figures import LINES, panels, render, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_IMAGES = Path(__file__).parents[1] / "docs" / "images"
_USER = 196
_KINDS = {
    "item-time": "item-level (the paper), in time order",
    "recall-score": "user-level: recall",
    "hit": "user-level: at least one hit",
}


def split() -> Figure:
    """Draw which items calibrate: the user's own, or held-out items of other users."""
    figure, axes_of = panels(1, 2, (9, 2.9))
    own, users = next(axes_of), next(axes_of)
    for axes, title in (
        (own, "Item-level: the user's own items"),
        (users, "User-level: other users"),
    ):
        axes.set_axis_off()
        axes.grid(visible=False)
        axes.set_title(title, loc="left")
        axes.set(xlim=(-3.6, 12.5), ylim=(-0.4, 3.9))
    _row(own, 3, "you", ["known"] * 4 + ["calibrates"] * 4 + ["unknown"] * 3)
    own.text(-3.5, 1.9, "What comes next is compared with the\nlatest half of your history.")
    own.text(-3.5, 0.6, "Holds if the two are alike:\ntaste must not drift.")
    for height, who, known in ((3, "Ann", 6), (2, "Bob", 4), (1, "Eve", 7)):
        _row(users, height, who, ["known"] * known + ["calibrates"] * (11 - known - 1))
    _row(users, 0, "you", ["known"] * 7 + ["unknown"] * 3)
    return figure


def _row(axes: Axes, height: float, who: str, cells: list[str]) -> None:
    looks: dict[str, dict[str, Any]] = {
        "known": {"facecolor": LINES[0].color, "edgecolor": "white"},
        "calibrates": {"facecolor": LINES[1].color, "edgecolor": "white", "hatch": "//"},
        "unknown": {"facecolor": "white", "edgecolor": "black", "linestyle": ":"},
    }
    axes.text(-0.4, height + 0.3, who, ha="right")
    for place, kind in enumerate(cells):
        axes.bar(place + 0.5, 0.7, 0.9, bottom=height, **looks[kind])
        if kind not in cells[:place]:
            axes.text(place + 0.1, height + 0.78, kind, fontsize=8)


def nested(model: sr.PopulationConformal) -> Figure:
    """Draw the nested sets of one user: they grow with the confidence."""
    figure, axes_of = panels(1, 1, (7, 3.4))
    axes = next(axes_of)
    everything = model.recommend(user=_USER, confidence=0.999).to_frame()
    entry = np.sort(everything["entry_confidence"].to_numpy())
    axes.step(entry, np.arange(1, len(entry) + 1), where="post", color=LINES[0].color, linewidth=2)
    for place, at in enumerate((0.5, 0.8, 0.9)):
        size = int((entry < at).sum())
        axes.plot([at, at, 0], [0, size, size], color="#777777", linewidth=0.9, linestyle="--")
        axes.plot(at, size, LINES[place].marker, color=LINES[place].color, markersize=7)
        axes.annotate(f"{size:,} films at {at:.0%}", (at, size), (-8, 6),
                      textcoords="offset points", ha="right")  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, None), xlabel="confidence", ylabel="films in the set")
    axes.set_title(f"MovieLens 100K, user {_USER}: one ranking, a cut for every confidence")
    return figure


def nominal_and_observed(films: sr.Interactions) -> Figure:
    """Draw observed against nominal levels for three kinds of guarantees."""
    found = audit(films, "CM12", n_users=900, random_state=0).coverage
    figure, axes_of = panels(1, 1, (6.4, 4.2))
    axes = next(axes_of)
    axes.plot([0.45, 1], [0.45, 1], color="#777777", linewidth=0.8)
    axes.fill_between([0.45, 1], [0.45, 1], 0.45, color="#eeeeee")
    for line, (kind, words) in zip(LINES, _KINDS.items(), strict=False):
        rows = found.filter(pl.col("kind").str.starts_with(kind)).sort("nominal")
        low, high = (rows["observed"] - rows["low"], rows["high"] - rows["observed"])
        axes.errorbar(rows["nominal"], rows["observed"], yerr=[low, high], label=words,
                      capsize=2, elinewidth=0.8, **line.thin())  # fmt: skip
    axes.text(0.97, 0.56, "below nominal", ha="right", color="#555555")
    axes.set(xlim=(0.48, 0.97), ylim=(0.45, 1), xlabel="nominal", ylabel="observed")
    axes.set_title("MovieLens 100K: items consumed later")
    axes.legend(loc="upper left")
    return figure


def main() -> None:
    """Draw all pictures."""
    films = sr.load_dataset("ml-100k")
    model = sr.PopulationConformal("CM12").fit(films)
    with styled():
        drawn = {"split": split(), "nested": nested(model), "observed": nominal_and_observed(films)}
        for name, figure in drawn.items():
            (_IMAGES / f"picture-{name}.png").write_bytes(render(figure)["png"])
            print(f"docs/images/picture-{name}.png")


if __name__ == "__main__":
    main()
