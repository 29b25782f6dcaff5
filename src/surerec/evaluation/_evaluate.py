"""Any recommender, any scorer, under the paper's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_text
from surerec._checks import check_whole
from surerec._progress import progress
from surerec._shown import shown
from surerec._threads import run_blocks
from surerec.errors import InputError
from surerec.evaluation._judging import (
    assess_model,
    assess_split,
    candidates_of,
    judge_by,
    unknown_among,
    user_rows,
)
from surerec.evaluation._protocol import SplitOrder, choose_users, split_user
from surerec.evaluation._tables import curves_table, metrics_table, validity_table
from surerec.measures import as_recipe, as_scorer
from surerec.precedence import as_statistics
from surerec.recommenders import Recommender

if TYPE_CHECKING:
    from surerec.evaluation._judging import Judge
    from surerec.evaluation._protocol import Shares
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike
    from surerec.precedence import PrecedenceStatistics


_USERS_AT_ONCE = 10


@dataclass(frozen=True)
class Evaluation:
    """How well algorithms did: one row for each user and algorithm, and tables of means.

    Attributes
    ----------
    users : polars.DataFrame
        split, user (by code), algorithm, the metrics, and lists over k and ε.
    """

    users: pl.DataFrame

    def metrics(self) -> pl.DataFrame:
        """Give each metric's mean with its standard error."""
        return metrics_table(self.users)

    def curves(self) -> pl.DataFrame:
        """Give precision, recall and F1 for k from 1 to 50."""
        return curves_table(self.users)

    def validity(self) -> pl.DataFrame:
        """Give validity error, efficiency error and set size for ε from 0.05 to 0.95."""
        return validity_table(self.users)


def evaluate_user(
    judge: Judge,
    statistics: PrecedenceStatistics,
    user: int,
    *,
    order: SplitOrder = "time",
    shares: Shares | None = None,
    k: int = 10,
    seed: int = 0,
) -> list[dict[str, object]]:
    """Split one user's profile, let the algorithms judge, and measure: a row for each."""
    profiles = statistics.require_profiles("there is nobody to evaluate")
    split = split_user(profiles, user, shares=shares, order=order, seed=seed)
    candidates = candidates_of(statistics, split)
    relevant = np.isin(candidates, split.test)
    rows = user_rows(
        judge(statistics, split, candidates),
        relevant,
        unknown_among(statistics, split, candidates),
        k,
    )
    return [{"split": order, "user": user, **row} for row in rows]


def evaluate(
    algorithms: Mapping[str, Recommender | RecipeLike],
    data: Interactions | PrecedenceStatistics,
    *,
    n_users: int = 500,
    order: SplitOrder = "time",
    shares: Shares | None = None,
    k: int = 10,
    seed: int = 0,
) -> Evaluation:
    """Evaluate recommenders or scorers under the paper's protocol.

    Nothing of an evaluated user's own profile reaches the statistics that score them; a scorer is
    asked to leave the user out, and calibrated by the user's calibration items.

    Parameters
    ----------
    algorithms : mapping of str to Recommender or recipe
        By name. Recommenders are fitted anew, with the protocol's split; so is what
        :func:`surerec.measures.as_recipe` takes, unless it comes fitted.
    data : Interactions or PrecedenceStatistics
        The profiles, or counts made of them.
    n_users : int, default=500
        Random users with ten items or more.
    order : {"time", "random"}, default="time"
        Calibration and test in time order, or drawn at random from what follows the training.
    shares : Shares, optional
        By default 30 % training, 30 % calibration.
    k : int, default=10
        The cut of precision, recall and F1.
    seed : int, default=0
        Of the choice of users and the random split.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=100, n_items=60, n_rows=2500, seed=1)
    >>> found = evaluate({"ICRS12": sr.InductiveConformal("CM12")}, films, n_users=20)
    >>> found.metrics().filter(metric="ap")["mean"].item() > 0.1
    True
    """
    if not isinstance(algorithms, Mapping):
        raise InputError(
            f"algorithms are {shown(algorithms)}; they must be a dict of recommenders or scorers "
            "by name."
        )
    if not algorithms:
        raise InputError("There is nothing to evaluate: name at least one algorithm.")
    for name in algorithms:
        check_text("The name of an algorithm", name)
    check_whole("k", k)
    check_choice("order", order, get_args(SplitOrder))
    statistics = as_statistics("evaluate", data)
    profiles = statistics.require_profiles("there is nobody to evaluate")
    fitted = {
        # Fitted here once: what is learned must not be learned again for every user.
        name: partial(assess_model, each.fitted_on(statistics).model_)
        if isinstance(each, Recommender)
        else partial(assess_split, as_scorer(as_recipe(each).fit(statistics), statistics.n_items))
        for name, each in algorithms.items()
    }
    users = choose_users(profiles, n_users, seed=seed)
    one = partial(
        evaluate_user,
        judge_by(fitted),
        statistics,
        order=order,
        shares=shares,
        k=k,
        seed=seed,
    )

    def block(start: int) -> list[dict[str, object]]:
        some = users[start : start + _USERS_AT_ONCE].tolist()
        return [row for user in some for row in one(user)]

    rows = []
    with progress("Evaluating", total=len(users), unit="users") as advance:
        for found in run_blocks(block, range(0, len(users), _USERS_AT_ONCE)):
            rows += found
            advance(_USERS_AT_ONCE)
    return Evaluation(pl.DataFrame(rows, infer_schema_length=None))
