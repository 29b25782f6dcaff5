"""Evaluation of any recommender or scorer under the paper's protocol, in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, get_args

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_text, check_whole
from surerec._files import check_utf8, file_aside
from surerec._threads import for_each
from surerec._words import shown
from surerec.calibration import compare_with_items
from surerec.errors import InputError
from surerec.evaluation._metrics import ranking_metrics
from surerec.evaluation._protocol import EPSILONS, SplitOrder, choose_users, split_user, validity
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

METRICS: Final = ("ap", "auc", "ndcg", "rr", "precision", "recall", "f1")

_GROUP: Final = ("split", "algorithm")


class Judgement(NamedTuple):
    """The ranking and p-values that one algorithm gives the candidates."""

    key: NDArray[np.float64]
    """The values that rank them; equal values are ties."""
    counts: NDArray[np.int64] | None = None
    """p-values as counts; None without p-values."""
    levels: int = 1

    @classmethod
    def of(cls, assessment: Assessment) -> Judgement:
        """Return the ranking and p-values of an assessment."""
        return cls(assessment.key, *(assessment.counted or ()))

    def without(self, unknown: NDArray[np.bool_]) -> Judgement:
        """Return it with unknown items ranked last and outside all sets."""
        if not unknown.any():
            return self
        counts = None if self.counts is None else np.where(unknown, 0, self.counts)
        return self._replace(key=np.where(unknown, -np.inf, self.key), counts=counts)


def candidates_of(statistics: PrecedenceStatistics, split: Split) -> NDArray[np.int64]:
    """Return the items outside the user's known history.

    They include items without other users, which count as missed; see :func:`unknown_among`.
    """
    return statistics.items_outside(split.known)


def unknown_among(
    statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which candidates only this user consumed, so that no algorithm knows them."""
    return np.isin(candidates, statistics.unknown_without((split.user,)))


def judge_by(algorithms: Mapping[str, Callable[[Split, Codes], Assessment]]) -> Judge:
    """Return a function that yields the result of each algorithm for a split."""

    def judge(
        _: PrecedenceStatistics, split: Split, candidates: Codes
    ) -> Iterator[tuple[str, Judgement]]:
        for name, assess in algorithms.items():
            yield name, Judgement.of(assess(split, candidates))

    return judge


def assess_model(model: FittedModel, split: Split, candidates: NDArray[np.int64]) -> Assessment:
    """Assess the candidates by a fitted model, with the protocol's training share."""
    share = min(len(split.training) / len(split.known), 1 - 1e-12)
    same = replace(model, calibration=model.calibration.splitting(share))
    return same.assess(Query(split.known, (split.user,)), candidates)


def assess_split(scorer: Scorer, split: Split, candidates: Codes) -> ItemAssessment:
    """Return the candidates' p-values among a user's calibration items, scored without the user."""
    scores = scorer.score_query(Query(split.training, (split.user,)))
    return compare_with_items(scores, split.calibration, candidates)


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write CSV or Parquet, by the suffix, atomically."""
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
    """Results of algorithms: one row per user and algorithm, and tables of means.

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
    """Split one user's history, and return a row of metrics for each algorithm."""
    profiles = statistics.require_profiles("no user can be evaluated")
    split = split_user(profiles, user, shares=shares, order=order, random_state=random_state)
    candidates = candidates_of(statistics, split)
    relevant = np.isin(candidates, split.test)
    unknown = unknown_among(statistics, split, candidates)
    rows: list[dict[str, object]] = []
    for algorithm, found in judge(statistics, split, candidates):
        judgement = found.without(unknown)
        missed = let_in = size = None
        if judgement.counts is not None:
            errors = validity(judgement.counts, judgement.levels, relevant)
            missed, let_in, size = (column.astype(float).tolist() for column in errors)
        rows.append(
            {
                "split": order,
                "user": user,
                "algorithm": algorithm,
                **ranking_metrics(judgement.key, relevant, k=k)._asdict(),
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

    The statistics that score a user never include their own history: the scorer leaves the user
    out, and is calibrated on the user's calibration items.

    Parameters
    ----------
    algorithms : mapping of str to Recommender or measure
        Algorithms by name. Recommenders are fitted here, with the protocol's split; so are
        measures (see :func:`surerec.measures.as_measure`), unless already fitted.
    data : Interactions or PrecedenceStatistics
        Histories of users, or their statistics.
    n_users : int, default=500
        Number of random users with at least ten items.
    order : {"time", "random"}, default="time"
        Calibration and test items in time order, or drawn at random from the items after training.
    shares : Shares, optional
        By default 30% training, 30% calibration.
    k : int, default=10
        List length of precision, recall and F1.
    random_state : int, default=0
        Seed of the choice of users and of the random split.

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
            f"algorithms is {shown(algorithms)}. Pass a dict of recommenders or measures by name."
        )
    if not algorithms:
        raise InputError("algorithms is empty. Pass at least one.")
    for name in algorithms:
        check_text("The name of an algorithm", name)
    check_whole("k", k)
    check_choice("order", order, get_args(SplitOrder))
    statistics = as_statistics("evaluate", data)
    profiles = statistics.require_profiles("no user can be evaluated")
    fitted = {
        # Fitted once, not for every user.
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
