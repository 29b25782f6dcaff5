"""Tuning as in the paper: I, and the shares of training and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from surerec.evaluation import (
    Shares,
    assess_model,
    choose_users,
    evaluate_user,
    judge_by,
    mean_and_error,
)
from surerec.recommenders import InductiveConformal, PrecedenceMining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surerec.experiments._engine import Spread
    from surerec.experiments._settings import Settings
    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender


TOPS = (1, 2, 3, 5, 10, 20)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
_SWEPT = ("CM3", "CM12")

_Run: TypeAlias = tuple[str, str, "int | None", Shares]


@dataclass(frozen=True)
class _Measure:
    """Measures one setting over some users."""

    users: list[int]
    k: int

    def __call__(self, statistics: PrecedenceStatistics, run: _Run) -> dict[str, object]:
        """Measure it."""
        sweep, algorithm, top, shares = run
        found = _means(statistics, _model(algorithm, top), shares, self.users, self.k)
        how = {"training": shares.training, "calibration": shares.calibration}
        return {"sweep": sweep, "algorithm": algorithm, "top": top, **how, **found}


def tuning_table(
    name: str, interactions: Interactions, settings: Settings, spread: Spread
) -> pl.DataFrame:
    """Sweep I with the paper's shares, and the shares with two of the good measures.

    Returns
    -------
    polars.DataFrame
        sweep ("top" or "shares"), algorithm, top, training, calibration, and the mean AP and AUC
        with their standard errors. Shares that leave nothing to test are absent.
    """
    paper = Shares()
    runs: list[_Run] = []
    for top in TOPS:
        runs += [("top", algorithm, top, paper) for algorithm in ("Precedence Mining", "ICRS1")]
    runs.append(("top", "Precedence Mining", None, paper))
    for training in SHARES:
        for calibration in SHARES:
            if training + calibration < 1:
                shares = Shares(training, calibration)
                runs += [("shares", f"ICRS{m.lstrip('CM')}", None, shares) for m in _SWEPT]
    users = choose_users(interactions, settings.tuning_users, seed=settings.seed).tolist()
    rows = spread(_Measure(users, settings.k), runs, f"{name}: tuning")
    return pl.DataFrame(rows, infer_schema_length=None)


def _model(algorithm: str, top: int | None) -> Recommender:
    if algorithm == "Precedence Mining":
        return PrecedenceMining(top=top)
    return InductiveConformal(algorithm, top=top or 1)


def _means(
    statistics: PrecedenceStatistics,
    model: Recommender,
    shares: Shares,
    users: Sequence[int],
    k: int,
) -> dict[str, float]:
    judge = judge_by({"": partial(assess_model, model.fit(statistics).model_)})
    rows = [row for user in users for row in evaluate_user(judge, statistics, user,
                                                           shares=shares, k=k)]  # fmt: skip
    found: dict[str, float] = {"n_users": len(rows)}
    for metric in ("ap", "auc"):
        values = [float(row[metric]) for row in rows]  # type: ignore[arg-type]
        found[metric], found[f"{metric}_error"] = mean_and_error(values)
    return found
