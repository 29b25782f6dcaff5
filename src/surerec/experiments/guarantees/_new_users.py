"""The new-user test of several measures: nominal beside observed, with set sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec.evaluation import new_user_test
from surerec.experiments.guarantees._observed import recipe_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.calibration import Cut, Promise
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike


def new_users_table(
    interactions: Interactions,
    scorers: Iterable[RecipeLike],
    *,
    promise: str | Promise = "miss-rate",
    cut: Cut = "score",
    n_users: int = 2000,
    n_splits: int = 3,
    seed: int = 0,
) -> pl.DataFrame:
    """Return what users who were not in the fit receive, a row for each scorer and ε.

    Parameters
    ----------
    interactions : Interactions
        The histories.
    scorers : iterable of str or object
        Names of measures, "popularity", or what makes a scorer from statistics.
    promise, cut, n_splits, seed
        As in :func:`surerec.evaluation.new_user_test`.
    n_users : int, default=2000
        How many users calibrate, and how many are tested, at most.

    Returns
    -------
    polars.DataFrame
        ``scorer``, the columns of :meth:`surerec.evaluation.NewUserTest.table`, and
        ``precision@10`` of new users. Below the floor, ``observed`` and ``size`` are null.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
    >>> found = new_users_table(films, ["CM12", "popularity"], n_splits=1)
    >>> found.columns[:3], len(found)
    (['scorer', 'epsilon', 'observed'], 10)
    """
    parts = []
    for given in scorers:
        # A name stays one, so that the measure is made for the horizon and the seed.
        measure = recipe_by(given) if given == "popularity" else given
        name = given if isinstance(given, str) else recipe_by(given).name
        found = new_user_test(
            interactions,
            measure,
            promise=promise,
            cut=cut,
            n_splits=n_splits,
            max_users=n_users,
            seed=seed,
        )
        assert found.ranking is not None  # noqa: S101  # it was asked for
        precision = found.ranking["precision@10 new"].mean()
        parts.append(
            found.table().select(
                pl.lit(name).alias("scorer"), pl.all(), pl.lit(precision).alias("precision@10")
            )
        )
    return pl.concat(parts, how="vertical_relaxed")
