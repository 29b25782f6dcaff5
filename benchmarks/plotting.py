"""Time and peak memory of the fit against the number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.lines import Judge


def plot_curve(judge: Judge, path: Path) -> list[Path]:
    """Draw the curve as PNG and SVG, and return the files."""
    points = [judge.outcomes[f"curve/{name}"].figures for name in judge.scale.curve]
    points = [point for point in points if point]
    millions = [point["n_rows"] / 1e6 for point in points]
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    time, memory = figure.subplots(1, 2)
    for name, label, marker in (
        ("seconds", f"fit within {judge.scale.budget / 1e9:g} GB", "o"),
        ("counting_seconds", "counting every row once, kept nowhere", "s"),
    ):
        slope = judge.slope(name)
        suffix = "" if slope is None else f": time ~ pairs$^{{{slope:.2f}}}$"
        time.plot(millions, [point[name] for point in points], marker=marker, label=label + suffix)
    time.set(xscale="log", yscale="log", xlabel="million rows", ylabel="seconds", title="Time")
    time.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16))
    memory.plot(millions, [point["peak"] / 1e9 for point in points], marker="o")
    memory.set(xscale="log", xlabel="million rows", ylabel="GB", title="Peak memory")
    memory.set_ylim(0, 1.15 * memory.get_ylim()[1])
    for axes in (time, memory):
        axes.set_xticks(millions, [f"{value:g}" for value in millions])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in files:
        figure.savefig(file, dpi=150)
    return files
