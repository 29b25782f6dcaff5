"""Any recommender and any scorer under the paper's protocol: judged user by user, in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, get_args

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_text, check_whole
from surerec._files import check_utf8, file_aside
from surerec._words import shown
from surerec.calibration import compare_with_items
from surerec.errors import InputError
from surerec.evaluation._metrics import hits_curve, ranking_metrics
from surerec.evaluation._protocol import EPSILONS, SplitOrder, choose_users, split_user, validity
from surerec.evaluation._sets import for_each
from surerec.measures import Query, as_measure, as_scorer
from surerec.precedence import as_statistics
from surerec.recommenders import Recommender, refitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, ItemAssessment
    from surerec.evaluation._protocol import Shares, Split
    from surerec.interactions import Interactions
    from surerec.measures import MeasureLike, Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import FittedModel

    Codes: TypeAlias = NDArray[np.int64]
    Judge: TypeAlias = Callable[
        [PrecedenceStatistics, Split, Codes], Iterator[tuple[str, "Judgement"]]
    ]

K_MAX: Final = 50
"""The largest k of the curves."""
METRICS: Final = ("ap", "auc", "ndcg", "rr", "precision", "recall", "f1")

_GROUP: Final = ("split", "algorithm")


class Judgement(NamedTuple):
    """One algorithm's view of the candidates."""

    key: NDArray[np.float64]
    """What ranks them; equal is a tie."""
    counts: NDArray[np.int64] | None = None
    """p-values as counts, for those that have them."""
    levels: int = 1

    @classmethod
    def of(cls, assessment: Assessment) -> Judgement:
        """Return the view of an assessment."""
        return cls(assessment.key, *(assessment.counted or ()))

    def without(self, unknown: NDArray[np.bool_]) -> Judgement:
        """Return it with unknown items ranked last and in no set."""
        if not unknown.any():
            return self
        counts = None if self.counts is None else np.where(unknown, 0, self.counts)
        return self._replace(key=np.where(unknown, -np.inf, self.key), counts=counts)


def candidates_of(statistics: PrecedenceStatistics, split: Split) -> NDArray[np.int64]:
    """Return the items outside what is known of the user.

    Those that nobody else consumed are among them, so that they count as missed: see
    :func:`unknown_among`.
    """
    return statistics.items_outside(split.known)


def unknown_among(
    statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which candidates nobody but the user consumed: no algorithm can know them."""
    return np.isin(candidates, statistics.unknown_without((split.user,)))


def judge_by(algorithms: Mapping[str, Callable[[Split, Codes], Assessment]]) -> Judge:
    """Return a judge that asks algorithms, by what assesses the candidates of a split."""

    def judge(
        _: PrecedenceStatistics, split: Split, candidates: Codes
    ) -> Iterator[tuple[str, Judgement]]:
        for name, assess in algorithms.items():
            yield name, Judgement.of(assess(split, candidates))

    return judge


def assess_model(model: FittedModel, split: Split, candidates: NDArray[np.int64]) -> Assessment:
    """Assess the candidates by a fitted model, which splits a history where the protocol did."""
    share = min(len(split.training) / len(split.known), 1 - 1e-12)
    same = replace(model, calibration=model.calibration.splitting(share))
    return same.assess(Query(split.known, (split.user,)), candidates)


def assess_split(scorer: Scorer, split: Split, candidates: Codes) -> ItemAssessment:
    """Return the candidates' p-values among a user's calibration items, scored without the user."""
    scores = scorer.score_query(Query(split.training, (split.user,)))
    return compare_with_items(scores, split.calibration, candidates)


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write CSV or Parquet by the name's ending, complete or not at all."""
    check_utf8(path)
    with file_aside(path) as aside:
        if path.suffix == ".csv":
            table.write_csv(aside)
        else:
            table.write_parquet(aside)


def _standard_error(column: str) -> pl.Expr:
    return (pl.col(column).std() / pl.col(column).count().sqrt()).alias("standard_error")


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
        """Return the mean of each metric with its standard error."""
        long = self.users.select(*_GROUP, *METRICS).unpivot(
            index=list(_GROUP), variable_name="metric", value_name="value"
        )
        # AUC is not defined for a user whose candidates are all test items.
        known = long.with_columns(pl.col("value").fill_nan(None))
        return known.group_by(*_GROUP, "metric", maintain_order=True).agg(
            pl.col("value").mean().alias("mean"),
            _standard_error("value"),
            pl.col("value").count().alias("n_users"),
        )

    def curves(self) -> pl.DataFrame:
        """Return precision, recall and F1 at every k."""
        ks = pl.DataFrame({"k": range(1, K_MAX + 1)}).select(pl.col("k").implode())
        long = (
            self.users.select(*_GROUP, "hits", "n_relevant")
            .join(ks, how="cross")
            .explode("hits", "k")
            .with_columns(
                precision=pl.col("hits") / pl.col("k"),
                recall=pl.col("hits") / pl.col("n_relevant"),
                f1=2 * pl.col("hits") / (pl.col("k") + pl.col("n_relevant")),
            )
        )
        return long.group_by(*_GROUP, "k", maintain_order=True).agg(
            pl.col("precision", "recall", "f1").mean()
        )

    def validity(self) -> pl.DataFrame:
        """Return validity error, efficiency error and set size at every significance level."""
        epsilons = pl.DataFrame({"epsilon": EPSILONS}).select(pl.col("epsilon").implode())
        long = (
            self.users.filter(pl.col("missed").is_not_null())
            .select(*_GROUP, "missed", "let_in", "set_size")
            .join(epsilons, how="cross")
            .explode("missed", "let_in", "set_size", "epsilon")
        )
        return long.group_by(*_GROUP, "epsilon", maintain_order=True).agg(
            pl.col("missed").mean().alias("validity_error"),
            _standard_error("missed"),
            pl.col("let_in").mean().alias("efficiency_error"),
            pl.col("set_size").mean().alias("set_size"),
            pl.col("missed").count().alias("n_users"),
        )


def evaluate_user(
    judge: Judge,
    statistics: PrecedenceStatistics,
    user: int,
    *,
    order: SplitOrder = "time",
    shares: Shares | None = None,
    k: int = 10,
    random_state: int = 0,
) -> list[dict[str, object]]:
    """Split one user's profile, let the algorithms judge, and return a row of metrics for each."""
    profiles = statistics.require_profiles("there is nobody to evaluate")
    split = split_user(profiles, user, shares=shares, order=order, random_state=random_state)
    candidates = candidates_of(statistics, split)
    relevant = np.isin(candidates, split.test)
    unknown = unknown_among(statistics, split, candidates)
    rows: list[dict[str, object]] = []
    for algorithm, given in judge(statistics, split, candidates):
        judgement = given.without(unknown)
        missed = let_in = size = None
        if judgement.counts is not None:
            found = validity(judgement.counts, judgement.levels, relevant)
            missed, let_in, size = (column.astype(float).tolist() for column in found)
        rows.append(
            {
                "split": order,
                "user": user,
                "algorithm": algorithm,
                **ranking_metrics(judgement.key, relevant, k=k)._asdict(),
                "hits": hits_curve(judgement.key, relevant, K_MAX).tolist(),
                "n_relevant": int(relevant.sum()),
                "missed": missed,
                "let_in": let_in,
                "set_size": size,
            }
        )
    return rows


def evaluate(
    algorithms: Mapping[str, Recommender | MeasureLike],
    data: Interactions | PrecedenceStatistics,
    *,
    n_users: int = 500,
    order: SplitOrder = "time",
    shares: Shares | None = None,
    k: int = 10,
    random_state: int = 0,
) -> Evaluation:
    """Evaluate recommenders or scorers under the paper's protocol.

    Nothing of an evaluated user's own profile reaches the statistics that score them; a scorer is
    asked to leave the user out, and calibrated by the user's calibration items.

    Parameters
    ----------
    algorithms : mapping of str to Recommender or recipe
        By name. Recommenders are fitted anew, with the protocol's split; so is what
        :func:`surerec.measures.as_measure` takes, unless it comes fitted.
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
    random_state : int, default=0
        Of the choice of users and the random split.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=100, n_items=60, n_rows=2500, random_state=1)
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
        name: partial(assess_model, refitted(each, statistics).model_)
        if isinstance(each, Recommender)
        else partial(assess_split, as_scorer(as_measure(each).fit(statistics), statistics.n_items))
        for name, each in algorithms.items()
    }
    users = choose_users(profiles, n_users, random_state=random_state)
    one = partial(
        evaluate_user,
        judge_by(fitted),
        statistics,
        order=order,
        shares=shares,
        k=k,
        random_state=random_state,
    )
    rows = [row for found in for_each(one, users.tolist(), "Evaluating") for row in found]
    return Evaluation(pl.DataFrame(rows, infer_schema_length=None))
