"""The tables of probabilities of items, of promised precision, and of named lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.calibration import observe, profile_cases
from surerec.evaluation import (
    coverage_over_splits,
    item_reliability,
    precision_over_calendar,
    precision_over_splits,
)
from surerec.experiments.guarantees._observed import recipe_by
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.calibration import Cut
    from surerec.evaluation import Calendar, ItemReliability
    from surerec.experiments.guarantees._observed import Observed
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike


def item_reliabilities(
    interactions: Interactions,
    scorers: Iterable[RecipeLike],
    *,
    n_users: int = 2000,
    seed: int = 0,
) -> Iterator[tuple[str, ItemReliability]]:
    """Give, for each scorer, what was said of items and happened to users who did not calibrate."""
    statistics = count_precedence(interactions)
    cases = profile_cases(interactions, 0.4).sample(n_users, seed)
    for given in scorers:
        recipe = recipe_by(given)
        yield recipe.name, item_reliability(recipe.fit(statistics), statistics, cases, seed=seed)


def precision_table(observed: Iterable[Observed], *, n_splits: int = 40) -> pl.DataFrame:
    """Give what was delivered at each promised precision, over random halves of the users."""
    return pl.concat(
        _summary(precision_over_splits(one.outcomes, n_splits=n_splits)).select(
            pl.lit(one.scorer).alias("scorer"), pl.all()
        )
        for one in observed
    )


def precision_calendar_table(
    interactions: Interactions,
    scorer: RecipeLike,
    calendar: Calendar,
    *,
    n_windows: int | None = None,
) -> pl.DataFrame:
    """Give what was delivered at each promised precision in the windows that followed."""
    levels = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
    found = precision_over_calendar(
        interactions, recipe_by(scorer), calendar, precisions=levels, n_windows=n_windows
    )
    return _summary(found)


def _summary(found: pl.DataFrame) -> pl.DataFrame:
    short = pl.col("precision") - pl.col("delivered")
    return found.group_by("precision", maintain_order=True).agg(
        promised=pl.col("delivered").is_not_null().sum(),
        kept=(pl.col("delivered") >= pl.col("precision")).sum(),
        delivered=pl.col("delivered").mean(),
        shortfall=short.max().clip(lower_bound=0),
        length=pl.col("length").mean(),
        served=pl.col("served").mean(),
        refused=pl.col("delivered").is_null().sum(),
        reachable=pl.col("reachable").cast(pl.Float64).mean(),
    )


def lists_table(
    interactions: Interactions,
    scorers: Iterable[RecipeLike],
    *,
    n_users: int = 2000,
    n_splits: int = 20,
    seed: int = 0,
) -> pl.DataFrame:
    """Give the miss rates among listed items: of a random third, and of the newest third."""
    statistics = count_precedence(interactions)
    cases = profile_cases(interactions, 0.4).sample(n_users, seed)
    lists = {
        "a random third": np.sort(
            np.random.default_rng(seed).permutation(interactions.n_items)[
                : interactions.n_items // 3
            ]
        ),
        "the newest third": _newest(interactions),
    }
    cuts: tuple[Cut, ...] = ("rank", "score")
    parts = []
    for given in scorers:
        scorer = recipe_by(given).fit(statistics)
        for name, codes in lists.items():
            outcomes = observe(scorer, statistics, cases, keep_candidates=True, allowed=codes)
            for cut in cuts:
                found = coverage_over_splits(
                    outcomes, cut, epsilons=(0.1, 0.2, 0.3), n_splits=n_splits
                )
                about = {"scorer": str(given), "list": name, "cut": cut, "users": len(outcomes)}
                parts.append(
                    found.select(
                        *(pl.lit(value).alias(key) for key, value in about.items()),
                        "epsilon",
                        pl.col("loss").alias("miss rate"),
                        pl.col("size").alias("items"),
                        "floor",
                    )
                )
    return pl.concat(parts).pivot(
        on="epsilon",
        index=["scorer", "list", "cut", "users", "floor"],
        values=["miss rate", "items"],
    )


def _newest(interactions: Interactions) -> NDArray[np.int64]:
    """Give the third of the items that were taken first the latest, by code."""
    first = np.full(interactions.n_items, np.iinfo(np.int64).max)
    np.minimum.at(first, interactions.items_taken.astype(np.int64), interactions.times)
    return np.sort(np.argsort(-first, kind="stable")[: interactions.n_items // 3])
