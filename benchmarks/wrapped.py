"""Whether guarantees of wrapped models hold: miss rates, set sizes, precision.

``python -m benchmarks.wrapped [ml-100k ml-1m …] [--splits 20] [--only ALS]`` prints, for each data
set,

- users of the fit: fitted on the first 60% of each history, calibrated on the held-out items of a
  random half of the users and tested on the others, many times;
- new users, for models that fold in: random thirds of the users, fitted on A, calibrated on B and
  tested on C, many times;
- ``--next``: the next single item at confidence 0.9, users of the fit, with our own measures;
- ``--calendar 30``: fitted before D, calibrated on the 30 days from D, refitted, tested on 30 more.

Thresholds are ranks; otherwise the held-out items are the last 40% of a history.
"""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.nearest_neighbours import CosineRecommender
from threadpoolctl import threadpool_limits

import surerec as sr
from benchmarks.sets import coverage_over_splits
from surerec.adapters import WrappedMeasure, adapt
from surerec.calibration import observe, profile_cases
from surerec.evaluation import (
    AGES,
    CHECKED_EPSILONS,
    TemporalSplit,
    backtest,
    risk_curve,
    sets_at_thresholds,
)
from surerec.measures import as_measure
from surerec.reports import size_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.calibration import Outcomes

_SHORT = 10
_EPSILON = 0.1
_BAR = 0.01


class Popular:
    """The number of users of the fit who consumed an item."""

    def fit(self, interactions: sr.Interactions) -> None:
        """Count the users of each item."""
        self.counts = np.bincount(interactions.item_codes, minlength=interactions.n_items)

    def score(self, history: list[Any]) -> NDArray[np.int64]:  # noqa: ARG002
        """Return the counts, which are the same for all users."""
        return self.counts


def models(only: str = "") -> dict[str, Any]:
    """Return the models whose name contains some words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = {
            "ALS, 64 factors": AlternatingLeastSquares(64, random_state=0),
            "ALS, 16 factors": AlternatingLeastSquares(16, regularization=1.0, random_state=0),
            "item-item, cosine": CosineRecommender(K=200),
            "BPR, 64 factors": BayesianPersonalizedRanking(64, random_state=0),
            "popularity": Popular(),
        }
    return {name: model for name, model in every.items() if only in name}


def of_the_fit(
    model: Any, films: sr.Interactions, n_splits: int, horizon: float = 0.4
) -> tuple[pl.DataFrame, float]:
    """Return miss rates and sizes by ε, and precision@10, for users of the fit."""
    cases = profile_cases(films, horizon)
    measure = WrappedMeasure(adapt(model), by_user=True)
    known = measure.count(films.keeping(~cases.future_rows()))
    outcomes = observe(measure.fit(known), known, cases)
    return coverage_over_splits(outcomes, "rank", n_splits=n_splits), _precision(outcomes)


def new_users(model: Any, films: sr.Interactions, n_splits: int) -> tuple[pl.DataFrame, float]:
    """Return the same for users who are not in the fit."""
    cases, measure = profile_cases(films, 0.4), WrappedMeasure(adapt(model))
    rows, precision = [], []
    for split in range(n_splits):
        third = np.random.default_rng(split).permutation(films.n_users) % 3
        known = measure.count(films.without_users(np.flatnonzero(third > 0)))
        outcomes = observe(measure.fit(known), known, cases[third[cases.users] > 0])
        calibrates = third[outcomes.cases.users] == 1
        whole = risk_curve(outcomes, "rank")
        curves = whole.of_owners(calibrates), whole.of_owners(~calibrates)
        tested = np.flatnonzero(~calibrates)
        found = sets_at_thresholds(*curves, outcomes, tested, "rank", CHECKED_EPSILONS)
        by_level = zip(CHECKED_EPSILONS, found.losses.mean(1), found.sizes.mean(1), strict=True)
        floor = curves[0].lowest_level()
        rows += [{"epsilon": e, "loss": m, "size": n, "floor": floor} for e, m, n in by_level]
        precision.append(_precision(outcomes))
    means = pl.DataFrame(rows).group_by("epsilon", maintain_order=True).mean()
    return means, float(np.mean(precision))


def next_item(films: sr.Interactions, n_splits: int, only: str) -> None:
    """Print coverage and size of sets for the next single item at confidence 0.9."""
    print(f"\n{films!r}: the next item, confidence {1 - _EPSILON:g}, {n_splits} splits\n")
    print("| model | covered | items |\n|---|---|---|")
    found = {name: of_the_fit(model, films, n_splits, 1)[0] for name, model in models(only).items()}
    counts, cases = sr.count_precedence(films), profile_cases(films, 1)
    for name in ("CM12", "learned"):
        outcomes = observe(as_measure(name).fit(counts), counts, cases)
        found[name] = coverage_over_splits(outcomes, "rank", n_splits=n_splits)
    for name, rows in found.items():
        row = rows.filter(pl.col("epsilon") == _EPSILON).to_dicts()[0]
        print(f"| {name} | {1 - row['loss']:.3f} | {size_cell(row['size'], row['floor'])} |")


def over_the_calendar(films: sr.Interactions, days: float, only: str) -> None:
    """Print the mean miss rate over windows for models of two ages."""
    print(f"\n{films!r}: share missed over windows of {days:g} days, users of the fit\n")
    heads = " | ".join(f"ε = {epsilon:g}" for epsilon in CHECKED_EPSILONS)
    print(f"| model | age | {heads} | unknown |\n" + "|" + "---|" * (len(CHECKED_EPSILONS) + 3))
    for name, model in models(only).items():
        measure = WrappedMeasure(adapt(model), by_user=True)
        found = backtest(films, measure, TemporalSplit(days), n_windows=12)
        for age in AGES[1:4]:
            part = found.filter(pl.col("model") == age)
            by_level = part.group_by("epsilon").agg(pl.col("loss").mean()).sort("epsilon")
            cells = " | ".join(f"{loss:.3f}" for loss in by_level["loss"])
            print(f"| {name} | {age} | {cells} | {part['unknown'].to_numpy().mean():.3f} |")


def _precision(outcomes: Outcomes) -> float:
    return float((outcomes.ranks <= _SHORT).sum() / (_SHORT * len(outcomes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["ml-100k"])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--next", action="store_true")
    parser.add_argument("--calendar", type=float)
    parser.add_argument("--only", default="", help="models with these words in their name")
    given = parser.parse_args()
    heads = " | ".join(f"ε = {epsilon:g}" for epsilon in CHECKED_EPSILONS)
    for data in given.data:
        films = sr.load_dataset(data)
        if given.next or given.calendar:
            if given.next:
                next_item(films, given.splits, given.only)
            if given.calendar:
                over_the_calendar(films, given.calendar, given.only)
            continue
        print(f"\n{films!r}: share missed / items in a set, by rank, {given.splits} splits\n")
        print(f"| model | whom | {heads} | precision@{_SHORT} | within {_BAR} |")
        print("|" + "---|" * (len(CHECKED_EPSILONS) + 4))
        for name, model in models(given.only).items():
            ways: dict[str, Callable[..., tuple[pl.DataFrame, float]]] = {"of the fit": of_the_fit}
            if adapt(model).folds_in:
                ways["new users"] = new_users
            for whom, measure in ways.items():
                found, precision = measure(model, films, given.splits)
                cells = [
                    f"{row['loss']:.3f} / {size_cell(row['size'], row['floor'])}"
                    for row in found.to_dicts()
                ]
                off = float(np.abs(found["loss"] - found["epsilon"]).max())
                kept = "yes" if off <= _BAR else f"NO: {off:.3f}"
                print(f"| {name} | {whom} | {' | '.join(cells)} | {precision:.3f} | {kept} |")


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):
        main()
