"""A reliability diagram: what was said against what happened, in panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST: Final = 1e-4
_GREY: Final = "#777777"


def draw_panels(
    panels: Callable[[int, int, tuple[float, float]], tuple[Figure, Iterator[Axes]]],
    lines: Sequence[Any],
    bins: pl.DataFrame,
    groups: pl.DataFrame,
    title: str,
) -> Figure:
    """Draw a panel for each kind of group, with error bars of two standard errors.

    Parameters
    ----------
    panels, lines
        How figures look.
    bins : polars.DataFrame
        ``by``, ``group``, ``said``, ``happened``, ``error``.
    groups : polars.DataFrame
        ``by``, ``group``, ``calibration_error``, ``noise``.
    title : str
        Above all.
    """
    kinds = groups["by"].unique(maintain_order=True).to_list()
    figure, axes_of = panels(1, len(kinds), (3.5 * len(kinds), 4.4))
    for axes, kind in zip(axes_of, kinds, strict=False):
        most = float(
            bins.filter(by=kind).select(pl.max_horizontal("said", "happened")).max().item()
        )
        axes.plot([_LEAST, 1], [_LEAST, 1], color=_GREY, linewidth=0.8)
        for line, row in zip(lines, groups.filter(by=kind).to_dicts(), strict=False):
            some = bins.filter(by=kind, group=row["group"])
            said, happened, error = (
                some[name].to_numpy() for name in ("said", "happened", "error")
            )
            axes.errorbar(
                np.maximum(said, _LEAST),
                np.maximum(happened, _LEAST),
                yerr=np.stack(
                    (np.minimum(2 * error, np.maximum(happened, _LEAST) * 0.99), 2 * error)
                ),
                color=line.color,
                marker=line.marker,
                markersize=4,
                linewidth=1.2,
                elinewidth=0.8,
                capsize=2,
                label=f"{row['group']}: {row['calibration_error']:.4f} (noise {row['noise']:.4f})",
            )
        axes.set(xscale="log", yscale="log", xlim=(_LEAST, max(most * 1.6, 0.01)), aspect="equal")
        axes.set_ylim(*axes.get_xlim())
        axes.set_xlabel("said: probability")
        axes.set_ylabel("happened: share taken")
        axes.set_title(f"by {kind}" if kind not in {"all", "top"} else kind)
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure
