"""Miss rates, hit rates and set sizes on users who did not calibrate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec.evaluation import coverage_over_splits, risk_curve, size_at_miss
from surerec.experiments.guarantees._observed import per_user_p_values
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.calibration import Cases, Cut, Outcomes
    from surerec.experiments.guarantees._observed import Observed


MISSES: Final = (0.1, 0.3, 0.5)
"""The mean miss rates at which set sizes are compared."""

_CUTS: Final[tuple[Cut, ...]] = ("rank", "score")


def misses_table(observed: Iterable[Observed], *, n_splits: int = 20) -> pl.DataFrame:
    """Compute miss rate and set size of each scorer and cut at every checked ε.

    Calibrated on random halves of the users and tested on the others. Sizes are null below the
    floor, as :func:`surerec.evaluation.coverage_over_splits` has it.
    """
    return pl.concat(
        coverage_over_splits(one.outcomes, cut, n_splits=n_splits).select(
            pl.lit(one.name).alias("data"),
            pl.lit(one.scorer).alias("scorer"),
            pl.lit(cut).alias("cut"),
            pl.exclude("cut"),
        )
        for one in observed
        for cut in _CUTS
    )


def sizes_table(observed: Iterable[Observed]) -> pl.DataFrame:
    """Compute the mean set size of each scorer and cut at equal mean miss rates, and precision@10.

    Sizes are null below the floor.
    """
    rows = []
    for one in observed:
        for cut in _CUTS:
            row = {"data": one.name, "scorer": one.scorer, "cut": cut}
            found = {f"at {miss}": size_at_miss(one.outcomes, cut, miss) for miss in MISSES}
            found["precision@10"] = precision(one.outcomes, 10)
            found["floor"] = risk_curve(one.outcomes, cut).lowest_level()
            rows.append(row | found)
    return pl.DataFrame(rows).fill_nan(None)


def precision(outcomes: Outcomes, k: int) -> float:
    """Give the mean share of the k best items that users took."""
    return float((outcomes.ranks <= k).sum() / (k * len(outcomes)))


def per_user_sizes(cases: Cases, measure: str) -> dict[str, float]:
    """Give the same for the paper's per-user p-values, on the same users.

    Their sets grow in steps, as p-values are few; between two steps the size is interpolated.
    """
    statistics = count_precedence(cases.interactions)
    levels = np.linspace(0, 1, 1001)[1:-1]
    missed, sizes = np.zeros(len(levels)), np.zeros(len(levels))
    hits = 0.0
    for future, every in per_user_p_values(statistics, measure, cases):
        missed += np.searchsorted(np.sort(future), levels, side="right") / len(future)
        sizes += len(every) - np.searchsorted(np.sort(every), levels, side="right")
        hits += _expected_hits(future, every, 10)
    n = len(cases)
    found = {
        f"at {miss}": float(np.interp(miss, missed / n, sizes / n, left=np.nan)) for miss in MISSES
    }
    return found | {"precision@10": hits / n}


def _expected_hits(future: NDArray[np.float64], every: NDArray[np.float64], k: int) -> float:
    """Give the expected share of hits among the k best, ties broken at random (paper.md 5)."""
    best = np.sort(every)[::-1]
    border = best[min(k, len(best)) - 1]
    above, tied = int((every > border).sum()), int((every == border).sum())
    chance = (k - above) / tied
    return float(((future > border).sum() + chance * (future == border).sum()) / k)


def hits_table(observed: Iterable[Observed], *, n_splits: int = 20) -> pl.DataFrame:
    """Compute the hit rate and the list length of each scorer where a hit is guaranteed.

    Lengths are null below the floor.
    """
    return pl.concat(
        coverage_over_splits(one.outcomes, "rank", "hit", epsilons=(0.1, 0.2), n_splits=n_splits)
        .with_columns(hit_rate=1 - pl.col("loss"))
        .select(
            pl.lit(one.name).alias("data"),
            pl.lit(one.scorer).alias("scorer"),
            "epsilon",
            "hit_rate",
            pl.col("size").alias("length"),
            "floor",
        )
        for one in observed
    )
