"""Tuning as in the paper: I, and the shares of training and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.evaluation import Shares, choose_users, evaluate_user, judge_by, mean_and_error
from surerec.recommenders import InductiveConformal, PrecedenceMining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surerec.experiments._settings import Settings
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

__all__ = ["SHARES", "TOPS", "tuning_table"]

TOPS = (1, 2, 3, 5, 10, 20)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
_SWEPT = ("CM3", "CM12")


def tuning_table(name: str, statistics: PrecedenceStatistics, settings: Settings) -> pl.DataFrame:
    """Sweep I with the paper's shares, and the shares with two of the good measures.

    Returns
    -------
    polars.DataFrame
        sweep ("top" or "shares"), algorithm, top, training, calibration, and the mean AP and AUC
        with their standard errors. Shares that leave nothing to test are absent.
    """
    paper = Shares()
    runs: list[tuple[str, str, int | None, Shares]] = []
    for top in TOPS:
        runs += [("top", algorithm, top, paper) for algorithm in ("Precedence Mining", "ICRS1")]
    runs.append(("top", "Precedence Mining", None, paper))
    for training in SHARES:
        for calibration in SHARES:
            if training + calibration < 1:
                shares = Shares(training, calibration)
                runs += [("shares", f"ICRS{m.lstrip('CM')}", None, shares) for m in _SWEPT]
    interactions = statistics.interactions
    assert interactions is not None  # noqa: S101
    users = choose_users(interactions, settings.tuning_users, seed=settings.seed).tolist()

    def measure(run: tuple[str, str, int | None, Shares]) -> dict[str, object]:
        sweep, algorithm, top, shares = run
        found = _means(statistics, _model(algorithm, top), shares, users, settings.k)
        how = {"training": shares.training, "calibration": shares.calibration}
        return {"sweep": sweep, "algorithm": algorithm, "top": top, **how, **found}

    rows = []
    with progress(f"{name}: tuning", total=len(runs)) as advance:
        for row in run_blocks(measure, runs):
            rows.append(row)
            advance(1)
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
    judge = judge_by({"": model})
    rows = [row for user in users for row in evaluate_user(judge, statistics, user,
                                                           shares=shares, k=k)]  # fmt: skip
    found: dict[str, float] = {"n_users": len(rows)}
    for metric in ("ap", "auc"):
        values = [float(row[metric]) for row in rows]  # type: ignore[arg-type]
        found[metric], found[f"{metric}_error"] = mean_and_error(values)
    return found
