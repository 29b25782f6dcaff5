"""Coverage and sizes of sets over random halves of the users, for the other benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.conformal import TOLERANCE
from surerec.evaluation import CHECKED_EPSILONS, measure_sets, risk_curve, sets_at_thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import GuaranteeKind, Outcomes, ThresholdUnit


def coverage_over_splits(
    outcomes: Outcomes,
    threshold: ThresholdUnit,
    guarantee: str | GuaranteeKind = "recall",
    *,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    n_splits: int = 20,
    random_state: int = 0,
) -> pl.DataFrame:
    """Test each random half of the users at the thresholds of the other, many times.

    Returns
    -------
    polars.DataFrame
        For each ε: ``loss`` and ``size``, the means over users and splits, and ``floor``, the
        smallest ε that the calibration users of every split support. Below the floor the size is
        null.
    """
    how = {"epsilons": epsilons, "n_splits": n_splits, "random_state": random_state}
    found = measure_sets(outcomes, threshold, guarantee, **how)
    rows = []
    for at, epsilon in enumerate(epsilons):
        size, floor = found.size_and_floor(at)
        loss = float(found.losses[at].mean())
        rows.append({"epsilon": epsilon, "loss": loss, "size": size, "floor": floor})
    return pl.DataFrame(rows, schema_overrides={"size": pl.Float64})


def size_at_miss(
    outcomes: Outcomes,
    threshold: ThresholdUnit,
    miss: float,
    chosen: NDArray[np.bool_] | None = None,
) -> float:
    """Return the mean set size at which the mean miss rate (1 − recall) of the users is `miss`.

    It only compares sizes: the threshold is chosen on the tested users, so nothing is guaranteed.
    NaN if `miss` is below the smallest ε that as many calibration users would support.

    Parameters
    ----------
    outcomes : Outcomes
        Outcomes with candidates' shares for a score threshold.
    threshold : {"rank", "score"}
        Unit of the thresholds.
    miss : float
        Miss rate, 1 − recall.
    chosen : array of bool, optional
        Mask of the cases; by default all.
    """
    chosen = np.ones(len(outcomes), dtype=bool) if chosen is None else chosen
    curve = risk_curve(outcomes, threshold).of_owners(chosen)
    if miss + TOLERANCE < curve.lowest_level():
        return np.nan
    # Undo the +1 of risk control: (loss + 1) / (n + 1) at this level is a loss of n · miss.
    level = (miss * curve.n_users + 1) / (curve.n_users + 1)
    found = sets_at_thresholds(curve, curve, outcomes, np.flatnonzero(chosen), threshold, [level])
    return float(found.sizes.mean())
