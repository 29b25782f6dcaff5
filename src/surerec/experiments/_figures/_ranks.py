"""Critical-difference diagrams.

They are drawn here because scikit-posthocs puts the bar of the critical difference on the numbers
of the axis; the tests compare the groups with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from surerec.evaluation import cd_groups
from surerec.experiments._names import family
from surerec.reports.figures import Line, blank, panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_STEP = 0.55  # between group bars
_ROW = 0.8  # between labels
_MARGIN = 0.6  # between the ends of the axis and the labels

_FAMILIES: Final = {
    "mean": Line("#0072B2", "-", "o"),
    "median": Line("#009E73", "-", "s"),
    "maximum": Line("#E69F00", "-", "^"),
    "minimum": Line("#D55E00", "-", "v"),
    "not inductive": Line("#000000", "-", "D"),
}


class Diagram(NamedTuple):
    """What one diagram shows."""

    title: str
    ranks: Mapping[str, float]
    cd: float


def critical_differences(diagrams: Sequence[Diagram]) -> Figure:
    """Draw diagrams below each other: average ranks, best to the left; bars join what is alike."""
    figure, all_axes = panels(len(diagrams), 1, (8.0, 4.2 * len(diagrams) + 0.4))
    for axes, diagram in zip(all_axes, diagrams, strict=True):
        _draw(axes, diagram)
    handles = [
        Line2D([], [], color=line.color, marker=line.marker, linestyle="none", label=name)
        for name, line in _FAMILIES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, handlelength=1.2)
    return figure


def _draw(axes: Axes, diagram: Diagram) -> None:
    names = sorted(diagram.ranks, key=lambda name: diagram.ranks[name])
    ranks = [diagram.ranks[name] for name in names]
    last = len(names)
    blank(axes)
    axes.set_title(diagram.title)
    axes.plot([1, last], [0, 0], color="black", linewidth=1)
    for tick in range(1, last + 1):
        long = tick in (1, last) or tick % 5 == 0
        axes.plot([tick, tick], [0, 0.3 if long else 0.15], color="black", linewidth=1)
        if long:
            axes.text(tick, 0.4, str(tick), ha="center", va="bottom", fontsize=9)
    _bar(axes, diagram.cd)
    groups = cd_groups(ranks, diagram.cd)
    for number, group in enumerate(groups):
        y = -_STEP * (number + 1)
        ends = [ranks[group[0]] - 0.12, ranks[group[-1]] + 0.12]
        axes.plot(ends, [y, y], color="black", linewidth=3.5, solid_capstyle="round", zorder=3)
    top = -_STEP * (len(groups) + 1) - 0.4
    half = (last + 1) // 2
    for row, (name, rank) in enumerate(zip(names[:half], ranks[:half], strict=True)):
        _label(axes, name, rank, top - _ROW * row, 1 - _MARGIN)
    behind = list(zip(names[half:], ranks[half:], strict=True))[::-1]
    for row, (name, rank) in enumerate(behind):
        _label(axes, name, rank, top - _ROW * row, last + _MARGIN)
    axes.set_xlim(1 - _MARGIN - 4.5, max(last + _MARGIN + 4.5, 1 + diagram.cd + 1))
    axes.set_ylim(top - _ROW * half, 2.5)


def _bar(axes: Axes, cd: float) -> None:
    """Show how far apart two ranks must be: a bar from 1."""
    axes.plot([1, 1 + cd], [1.5, 1.5], color="black", linewidth=1.5)
    for end in (1, 1 + cd):
        axes.plot([end, end], [1.3, 1.7], color="black", linewidth=1.5)
    axes.text(1 + cd / 2, 1.65, f"CD = {cd:.2f}", ha="center", va="bottom", fontsize=9.5)


def _label(axes: Axes, name: str, rank: float, y: float, x: float) -> None:
    line = _FAMILIES[family(name)]
    left = x < rank
    axes.plot([rank, rank, x], [0, y, y], color=line.color, linewidth=0.9, zorder=1)
    axes.plot(rank, 0, color=line.color, marker=line.marker, markersize=5, zorder=4)
    words = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
    shift = float(np.copysign(0.15, x - rank))
    axes.text(x + shift, y, words, ha="right" if left else "left", va="center", fontsize=9.5)
