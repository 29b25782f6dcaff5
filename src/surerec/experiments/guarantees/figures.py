"""The reliability diagram: what was said of slates, and what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec.reports.figures import LINES, draw_reliability, panels, plain, render, styled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.evaluation import ItemReliability
    from surerec.experiments.guarantees._slates import Reliability

__all__ = ["item_diagram", "reliability_diagram"]


def reliability_diagram(found: Mapping[str, Reliability], title: str) -> dict[str, bytes]:
    """Draw said against happened for each scorer, bars as wide as chance makes them.

    Returns
    -------
    dict of str to bytes
        The figure in every format.
    """
    with styled():
        figure, axes_of = panels(1, len(found), (3.4 * len(found), 3.6))
        for axes, line, (name, one) in zip(axes_of, LINES, found.items(), strict=False):
            said, happened, n = (one.bins[column].to_numpy() for column in one.bins.columns)
            chance = 1.96 * np.sqrt(np.maximum(said * (1 - said), 0) / n)
            axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8)
            axes.errorbar(
                said,
                happened,
                yerr=chance,
                color=line.color,
                marker=line.marker,
                markersize=4.5,
                linewidth=1.4,
                elinewidth=0.8,
                capsize=2,
            )
            axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
            axes.set_xlabel("said: probability of a hit")
            axes.set_ylabel("happened: share of users")
            axes.set_title(f"{plain(name)}: calibration error {one.calibration_error:.3f}")
        figure.suptitle(plain(title, longest=80), fontsize=11)
        return render(figure)


def item_diagram(found: ItemReliability, title: str) -> dict[str, bytes]:
    """Draw said against happened for all items and each group of them."""
    with styled():
        return render(draw_reliability(found.bins, found.groups, title))
