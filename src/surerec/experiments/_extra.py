"""Measures outside the paper under its protocol: beside its algorithms, never in their ranks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.evaluation import assess_split, choose_users, evaluate_user, judge_by
from surerec.experiments._users import ORDERS
from surerec.measures import as_recipe

if TYPE_CHECKING:
    from surerec.experiments._settings import Settings
    from surerec.precedence import PrecedenceStatistics


def extra_name(measure: str) -> str:
    """Give the name that tables have for the paper's method on a measure of its own.

    Examples
    --------
    >>> extra_name("als")
    'ICRS-als'
    """
    return f"ICRS-{measure}"


def extra_users(name: str, statistics: PrecedenceStatistics, settings: Settings) -> pl.DataFrame:
    """Evaluate the measures that were asked for on the users of the other algorithms.

    They are trained here, once, whichever engine evaluates the others.

    Returns
    -------
    polars.DataFrame
        As :func:`surerec.experiments._users.evaluate_users` gives them.
    """
    users = choose_users(statistics.interactions, settings.n_users, seed=settings.seed)
    judge = judge_by(
        {
            extra_name(measure): partial(
                assess_split, as_recipe(measure, seed=settings.seed).fit(statistics)
            )
            for measure in settings.extra
        }
    )

    def one(user: int) -> list[dict[str, object]]:
        return [
            row
            for order in ORDERS
            for row in evaluate_user(
                judge, statistics, user, order=order, k=settings.k, seed=settings.seed
            )
        ]

    rows: list[dict[str, object]] = []
    with progress(f"{name}: {', '.join(settings.extra)}", total=len(users)) as advance:
        for found in run_blocks(one, users.tolist()):
            rows += found
            advance(1)
    return pl.DataFrame(rows, infer_schema_length=None)
