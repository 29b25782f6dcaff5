"""Checks that contestants computed equal results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.contestant import Outcome
    from benchmarks.plan import Scale

_HEADS = ("plain_head", "smoothed_head")


def checks(scale: Scale, outcomes: Mapping[str, Outcome]) -> dict[str, bool | None]:
    """Compare results; None if one of the two did not finish."""
    found: dict[str, bool | None] = {}
    for name in scale.fit_data:
        ours = f"fit/{name}/one-direction"
        found[f"counts of {name}: input"] = _same(outcomes, ours, f"input/{name}", "n_pairs")
        for peer, figure in (
            ("both-directions", "ordered"),
            ("duckdb", "ordered"),
            ("polars", "ordered"),
            ("scipy", "both_ways"),
        ):
            found[f"counts of {name}: {peer}"] = _same(outcomes, ours, f"fit/{name}/{peer}", figure)
        both = outcomes[f"fit/{name}/both-directions"].figures
        found[f"counts of {name}: who precedes"] = (
            both["predecessors"] == both["ordered"] if both else None
        )
    for size in scale.calibration:
        for peer, figure in (
            ("numpy", "plain_head"),
            ("numpy", "smoothed_head"),
            ("crepes", "plain_head"),
        ):
            keys = (f"p-values/{size}/surerec", f"p-values/{size}/{peer}")
            name = f"p-values of {size} scores, {figure.removesuffix('_head')}: {peer}"
            found[name] = _close(outcomes, keys, figure)
    for peer in ("numpy", "ir-measures"):
        keys = ("metrics/surerec", f"metrics/{peer}")
        found[f"metrics: {peer}"] = _close(outcomes, keys, "means")
    for figure in ("n_rows", "first_users"):
        keys = ("films/surerec", "films/by-cells")
        found[f"films, {figure}: cell by cell"] = _same(outcomes, *keys, figure)
    return found


def forget_heads(outcomes: Mapping[str, Outcome]) -> None:
    """Drop the values that only serve the comparison."""
    for outcome in outcomes.values():
        for name in _HEADS:
            outcome.figures.pop(name, None)


def _same(outcomes: Mapping[str, Outcome], ours: str, peer: str, figure: str) -> bool | None:
    if not (outcomes[ours].done and outcomes[peer].done):
        return None
    return bool(outcomes[ours].figures[figure] == outcomes[peer].figures[figure])


def _close(outcomes: Mapping[str, Outcome], keys: tuple[str, str], figure: str) -> bool | None:
    if not all(outcomes[key].done for key in keys):
        return None
    ours, theirs = (outcomes[key].figures[figure] for key in keys)
    common = min(len(ours), len(theirs))  # crepes has fewer
    return bool(np.allclose(ours[:common], theirs[:common], rtol=0, atol=1e-6))
