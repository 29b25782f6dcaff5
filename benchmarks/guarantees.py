"""Tables of docs/results/index.md, beside those of ``benchmarks.new_users``.

``python -m benchmarks.guarantees ml-1m [--tables misses sizes per_user hits precision calendar
slates probabilities lists] [--measures CM12 als]`` prints each table. ``drifting`` is synthetic
data that drift. Seeds are fixed: the same command prints the same numbers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

import surerec as sr
from benchmarks.new_users import load
from benchmarks.sets import coverage_over_splits, size_at_miss
from surerec.calibration import hit_probabilities, list_features, observe, profile_cases
from surerec.conformal import RiskCurve
from surerec.evaluation import (
    TemporalSplit,
    backtest,
    item_reliability,
    new_user_test,
    risk_curve,
)
from surerec.measures import OwnMeasure, PopularityScorer, Query, as_measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from surerec.calibration import Horizon, Outcomes, ThresholdUnit
    from surerec.measures import Measure

_MISSES: Final = (0.1, 0.3, 0.5)
_CUTS: Final[tuple[ThresholdUnit, ...]] = ("rank", "score")
_SLATE: Final = 10


class Popularity(PopularityScorer):
    """Scores every item by the number of other users who consumed it."""

    leaves_users_out = True  # declared by the class, before it is fitted


def recipe_of(name: str) -> Measure:
    """Return the recipe of a measure, or of "popularity"."""
    return OwnMeasure(Popularity) if name == "popularity" else as_measure(name)


class Study:
    """One data set and what was asked for, with a method for each table."""

    def __init__(self, data: sr.Interactions, given: argparse.Namespace) -> None:
        self.data, self.given = data, given
        self.statistics = sr.count_precedence(data)

    def observed(
        self, horizon: Horizon = 0.4, *more: str, allowed: NDArray[np.int64] | None = None
    ) -> Iterator[tuple[str, Outcomes]]:
        """Yield each measure with its ranks of the held-out interactions of the same users."""
        cases = profile_cases(self.data, horizon).sample(self.given.users, 0)
        for name in (*self.given.measures, *more):
            recipe = recipe_of(name)
            scorer, about = recipe.fit(self.statistics), self.statistics
            yield name, observe(scorer, about, cases, keep_candidates=True, allowed=allowed)

    def misses(self) -> list[pl.DataFrame]:
        """Compute the share missed and the set size at each ε, over random halves of users."""
        return [
            coverage_over_splits(outcomes, threshold, n_splits=self.given.splits)
            .with_columns(scorer=pl.lit(name), threshold=pl.lit(threshold))
            .pivot(on="epsilon", index=["scorer", "threshold", "floor"], values=["loss", "size"])
            for name, outcomes in self.observed()
            for threshold in _CUTS
        ]

    def sizes(self) -> list[pl.DataFrame]:
        """Compute set sizes at equal mean miss rates, and precision@10."""
        rows: list[dict[str, Any]] = []
        for name, outcomes in self.observed():
            for threshold in _CUTS:
                sizes = {f"at {miss}": size_at_miss(outcomes, threshold, miss) for miss in _MISSES}
                precision = float((outcomes.ranks <= _SLATE).sum() / (_SLATE * len(outcomes)))
                floor = risk_curve(outcomes, threshold).lowest_level()
                more = {"precision@10": precision, "floor": floor}
                rows.append({"scorer": name, "threshold": threshold, **sizes, **more})
        return [pl.DataFrame(rows)]

    def per_user(self) -> list[pl.DataFrame]:
        """Compute the same sizes for the paper's p-values, interpolated between their steps."""
        cases = profile_cases(self.data, 0.4).sample(self.given.users, 0)
        model = sr.InductiveConformal("CM12").fit(self.statistics).model_
        levels = np.linspace(0, 1, 1001)[1:-1]
        missed, sizes = np.zeros((2, len(levels)))
        for case, user in enumerate(cases.users.tolist()):
            query = Query(cases.known(case), (user,))
            candidates = self.statistics.items_outside(query.history)
            unknown = np.isin(candidates, self.statistics.unknown_without(query.users))
            found = model.assess(query, candidates).p_values
            p_values = np.where(unknown, 0.0, 0.0 if found is None else found)
            future = np.sort(p_values[np.isin(candidates, cases.future(case))])
            missed += np.searchsorted(future, levels, side="right") / len(future)
            sizes += len(p_values) - np.searchsorted(np.sort(p_values), levels, side="right")
        found = np.interp(_MISSES, missed / len(cases), sizes / len(cases), left=np.nan)
        return [pl.DataFrame({f"at {m}": [s] for m, s in zip(_MISSES, found, strict=True)})]

    def hits(self) -> list[pl.DataFrame]:
        """Compute the share without a hit and the length of lists that guarantee one in 5 items."""
        levels, n = (0.1, 0.2), self.given.splits
        return [
            coverage_over_splits(outcomes, "rank", "hit", epsilons=levels, n_splits=n).select(
                pl.lit(name).alias("scorer"), "epsilon", "loss", "size", "floor"
            )
            for name, outcomes in self.observed(5, "popularity")
        ]

    def precision(self) -> list[pl.DataFrame]:
        """Compute the precision of what new users are shown, its length, and the users served."""
        levels, n = (0.8, 0.7, 0.5), self.given.splits
        return [
            new_user_test(
                self.data, recipe_of(name), guarantee="precision", significances=levels,
                n_splits=n, max_users=self.given.users, diagnose=False,
            ).table().select(
                (1 - pl.col("epsilon")).alias("nominal"),
                (1 - pl.col("observed")).alias("observed"),
                "standard_error", "size", "served", "n_splits",
            )
            for name in self.given.measures
        ]  # fmt: skip

    def calendar(self) -> list[pl.DataFrame]:
        """Compute what models of several ages miss, averaged over windows of 30 days."""
        calendar, levels = TemporalSplit(30, n_users=self.given.users), (0.1, 0.2, 0.3)
        return [
            backtest(self.data, recipe_of(name), calendar, epsilons=levels)
            .group_by("model", "epsilon", maintain_order=True)
            .agg(pl.col("loss", "unknown").mean(), pl.col("floor").max(), pl.len(),
                 pl.col("size").fill_null(np.nan).mean())
            for name in self.given.measures
        ]  # fmt: skip

    def slates(self) -> list[pl.DataFrame]:
        """Compare predicted and observed hit probabilities of 10 items on half of the users."""
        found = []
        for name, outcomes in self.observed(5):
            n, at = len(outcomes), _SLATE - 1
            hit = RiskCurve.of_first(outcomes.ranks, outcomes.owners, n).entries <= _SLATE
            best = outcomes.values[:, at], outcomes.masses[:, at]
            features = list_features(outcomes.n_known, *best)
            half = np.random.default_rng(0).permutation(n) < n // 2
            said = hit_probabilities(features[half], hit[half], features[~half]).probability
            table = pl.DataFrame({"said": said, "happened": hit[~half].astype(float)})
            bins = (
                table.group_by((pl.col("said") * 10).floor().clip(0, 9).alias("group"))
                .agg(pl.col("said", "happened").mean(), pl.len().alias("n"))
                .sort("group")
            )
            gap = float(np.average((bins["said"] - bins["happened"]).abs(), weights=bins["n"]))
            found.append(bins.with_columns(group=pl.lit(name), calibration_error=gap))
        return found

    def probabilities(self) -> list[pl.DataFrame]:
        """Compare each item's predicted probability with the share that consumed it."""
        cases, found = profile_cases(self.data, 0.4).sample(self.given.users, 0), []
        for name in self.given.measures:
            scorer, half = recipe_of(name).fit(self.statistics), np.arange(len(cases)) % 2 == 0
            one = item_reliability(scorer, self.statistics, cases[half], cases[~half])
            found.append(one.with_columns(scorer=pl.lit(name)))
        return found

    def lists(self) -> list[pl.DataFrame]:
        """Compute the share missed among the items of a random third and of the newest third."""
        n, codes = self.data.n_items, self.data.item_codes.astype(np.int64)
        first = np.full(n, np.iinfo(np.int64).max)
        np.minimum.at(first, codes, self.data.times)
        thirds = {
            "random": np.sort(np.random.default_rng(0).permutation(n)[: n // 3]),
            "newest": np.sort(np.argsort(-first, kind="stable")[: n // 3]),
        }
        levels = (0.1, 0.2, 0.3)
        return [
            coverage_over_splits(outcomes, threshold, epsilons=levels, n_splits=self.given.splits)
            .with_columns(list=pl.lit(which), scorer=pl.lit(name), threshold=pl.lit(threshold))
            for which, allowed in thirds.items()
            for name, outcomes in self.observed(allowed=allowed)
            for threshold in _CUTS
        ]  # fmt: skip


TABLES: Final[dict[str, Callable[[Study], list[pl.DataFrame]]]] = {
    each.__name__: each
    for each in (
        Study.misses, Study.sizes, Study.per_user, Study.hits, Study.precision, Study.calendar,
        Study.slates, Study.probabilities, Study.lists,
    )
}  # fmt: skip


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="+", help="data sets, ratings files, or drifting")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--measures", nargs="+", default=["CM12"])
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--splits", type=int, default=20)
    given = parser.parse_args()
    for name in given.data:
        if name == "drifting":
            data = sr.datasets.synthetic(3000, 1000, 150_000, drift=0.5, random_state=1)
        else:
            data = sr.read_interactions(name) if Path(name).exists() else load(name)
        study = Study(data, given)
        for table in given.tables:
            print(f"\n{name}: {TABLES[table].__doc__}")
            with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_column_data_types=True):
                for found in TABLES[table](study):
                    print(found)


if __name__ == "__main__":
    main()
