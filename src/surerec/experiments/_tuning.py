"""Tuning as in the paper: I, and the shares of training and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.evaluation import Shares, choose_users, ranking_metrics, split_user
from surerec.experiments._algorithms import candidates_of
from surerec.recommenders import InductiveConformal, PrecedenceMining
from surerec.recommenders._query import Query

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
    interactions = statistics.interactions
    assert interactions is not None  # noqa: S101
    found = []
    for user in users:
        split = split_user(interactions, user, shares=shares)
        if not len(split.training) or not len(split.test):
            continue
        if isinstance(model, InductiveConformal):
            model = model.__class__(
                model.measure, top=model.top, train_share=_share(len(split.training), split.known)
            )
        model.fit(statistics)
        candidates = candidates_of(statistics, split)
        assessed = model._assess(Query(split.known, user), candidates)  # noqa: SLF001
        key = assessed.score if assessed.counts is None else assessed.counts.astype(np.float64)
        metrics = ranking_metrics(key, np.isin(candidates, split.test), k=k)
        found.append((metrics.ap, metrics.auc))
    values = np.array(found)
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else (0.0, 0.0)
    means = values.mean(axis=0)
    return {
        "ap": float(means[0]),
        "ap_error": float(errors[0]),
        "auc": float(means[1]),
        "auc_error": float(errors[1]),
        "n_users": len(values),
    }


def _share(n_training: int, known: np.ndarray) -> float:
    """Give the share that splits what is known where the protocol did."""
    return min(n_training / len(known), 1 - 1e-12)
