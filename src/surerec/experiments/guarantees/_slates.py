"""Whether the probabilities of slates are calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from surerec.calibration import hit_probabilities, list_features
from surerec.conformal import RiskCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Outcomes


_BINS: Final = 10


class Reliability(NamedTuple):
    """What was said and what happened, bin by bin."""

    bins: pl.DataFrame
    """``said`` (mean probability), ``happened`` (share), ``n``."""
    calibration_error: float
    """The mean difference between the two, weighted by the number of users."""


def reliability(said: NDArray[np.float64], happened: NDArray[np.bool_]) -> Reliability:
    """Compare probabilities with outcomes in bins of equal width.

    Examples
    --------
    >>> found = reliability(np.array([0.1, 0.1, 0.9]), np.array([False, False, True]))
    >>> round(found.calibration_error, 3)
    0.1
    """
    place = np.minimum((said * _BINS).astype(np.int64), _BINS - 1)
    bins = (
        pl.DataFrame({"bin": place, "said": said, "happened": happened.astype(np.float64)})
        .group_by("bin")
        .agg(pl.col("said").mean(), pl.col("happened").mean(), pl.len().alias("n"))
        .sort("bin")
    )
    gap, n = np.abs(bins["said"] - bins["happened"]), bins["n"].to_numpy()
    return Reliability(bins.drop("bin"), float(np.average(gap, weights=n)))


def slate_reliability(outcomes: Outcomes, *, k: int = 10, seed: int = 0) -> Reliability:
    """Calibrate the probability of a hit on half of the users, and test it on the others."""
    n = len(outcomes)
    hit = RiskCurve.of_first(outcomes.ranks, outcomes.owners, n).entries <= k
    features = list_features(outcomes.n_known, outcomes.values[:, k - 1], outcomes.masses[:, k - 1])
    calibrates = np.random.default_rng(seed).permutation(n) < n // 2
    said = hit_probabilities(features[calibrates], hit[calibrates], features[~calibrates])
    return reliability(said.probability, hit[~calibrates])
