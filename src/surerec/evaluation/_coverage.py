"""Does a promise over users hold? Miss rates and set sizes on users who did not calibrate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from surerec.calibration import find_promise
from surerec.conformal import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cut, Outcomes, Promise
    from surerec.conformal import RiskCurve


CHECKED_EPSILONS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""The significance levels at which promises are checked."""


class Coverage(NamedTuple):
    """How a cut did on users who did not calibrate it."""

    cut: float
    losses: NDArray[np.float64]
    """For each user, the share missed, or 1 where nothing hit."""
    sizes: NDArray[np.float64]
    """For each user, the items in the set; NaN where ε is below the floor."""
    floor: float
    """The smallest ε that the calibration users support, see :meth:`RiskCurve.lowest_level`."""


def risk_curve(outcomes: Outcomes, cut: Cut, promise: str | Promise = "miss-rate") -> RiskCurve:
    """Give the risk curve of all users of these outcomes."""
    entries = outcomes.entries(cut)
    return find_promise(promise).curve(entries, outcomes.owners, len(outcomes))


def losses_at(curve: RiskCurve, cut: float) -> NDArray[np.float64]:
    """Give what each user of a curve loses with a cut; no set holds what is unknown.

    Examples
    --------
    >>> from surerec.conformal import RiskCurve
    >>> curve = RiskCurve.of_shares([1.0, 7.0, np.inf], [0, 0, 1], n_users=2)
    >>> losses_at(curve, 5.0).tolist(), losses_at(curve, np.inf).tolist()
    ([0.5, 1.0], [0.0, 1.0])
    """
    missed = (curve.entries > cut) | np.isinf(curve.entries)
    return np.bincount(
        curve.owners[missed], weights=curve.losses[missed], minlength=curve.n_users
    ).astype(np.float64)


def coverage(
    calibration: RiskCurve,
    tested: RiskCurve,
    outcomes: Outcomes,
    users: NDArray[np.intp],
    cut: Cut,
    epsilon: float,
) -> Coverage:
    """Cut the tested users' sets where the calibration says.

    Parameters
    ----------
    calibration, tested : RiskCurve
        Of the users who calibrate, and of those who are tested.
    outcomes : Outcomes
        That the tested users are part of, with all candidates' shares for a score cut.
    users : array of int
        Which of the outcomes' cases they are.
    cut : {"rank", "score"}
        What the entries are.
    epsilon : float
        The significance level.
    """
    at, floor = calibration.cut(epsilon), calibration.lowest_level()
    if at == np.inf:  # no set supports ε: the size of the catalogue is no set size
        sizes = np.full(len(users), np.nan)
    elif cut == "rank":
        sizes = np.minimum(outcomes.n_candidates[users].astype(np.float64), at)
    else:
        assert outcomes.candidate_shares is not None  # noqa: S101  # kept for score cuts
        sizes = _n_above(outcomes.candidate_shares, users, max(-at, 0.0)).astype(np.float64)
    return Coverage(at, losses_at(tested, at), sizes, floor)


def _n_above(
    shares: NDArray[np.float64], rows: NDArray[np.intp], bound: float
) -> NDArray[np.int64]:
    """Count in some rows the shares that are not below a bound, by bisection: they fall.

    Rows of a large catalogue are gigabytes that are not to be copied for every level.
    """
    low = np.zeros(len(rows), dtype=np.int64)
    high = np.full(len(rows), shares.shape[1], dtype=np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        inside = open_ & (shares[rows, np.minimum(middle, shares.shape[1] - 1)] >= bound)
        low = np.where(inside, middle + 1, low)
        high = np.where(open_ & ~inside, middle, high)
    return low


def coverage_over_splits(
    outcomes: Outcomes,
    cut: Cut,
    promise: str | Promise = "miss-rate",
    *,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    n_splits: int = 20,
    seed: int = 0,
) -> pl.DataFrame:
    """Calibrate on a random half of the users and test on the other, many times.

    Returns
    -------
    polars.DataFrame
        For each ε: ``loss`` (mean over test users and splits), ``loss_sd`` (over splits),
        ``size`` and ``cut``, the means, and ``floor``, the smallest ε that the calibration users
        of every split support. Below the floor the size is null.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.calibration import observe, profile_cases
    >>> from surerec.measures import MeasureScorer
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> counts = sr.count_precedence(films)
    >>> outcomes = observe(MeasureScorer(counts, "CM12"), counts, profile_cases(films, 0.4))
    >>> found = coverage_over_splits(outcomes, "rank", epsilons=[0.2])
    >>> abs(found["loss"].item() - 0.2) < 0.03
    True
    """
    whole = risk_curve(outcomes, cut, promise)
    rng = np.random.default_rng(seed)
    rows = []
    for split in range(n_splits):
        calibrates = rng.permutation(len(outcomes)) < len(outcomes) // 2
        halves = whole.of_owners(calibrates), whole.of_owners(~calibrates)
        tested = np.flatnonzero(~calibrates)
        for epsilon in epsilons:
            found = coverage(*halves, outcomes, tested, cut, epsilon)
            row = {"split": split, "epsilon": epsilon, "loss": found.losses.mean()}
            row |= {"size": found.sizes.mean(), "cut": found.cut, "floor": found.floor}
            rows.append(row)
    frame = pl.DataFrame(rows)
    return frame.group_by("epsilon", maintain_order=True).agg(
        pl.col("loss").mean(),
        pl.col("loss").std().alias("loss_sd"),
        pl.col("size").mean().fill_nan(None),
        pl.col("cut").mean(),
        pl.col("floor").max(),
    )


def size_at_miss(
    outcomes: Outcomes, cut: Cut, miss: float, among: NDArray[np.bool_] | None = None
) -> float:
    """Compute the mean set size at which the mean miss rate of these users is `miss`.

    For comparing sizes alone: the threshold is chosen on the tested users, so nothing is
    guaranteed. NaN if `miss` is below the smallest ε that as many calibration users would support.

    Parameters
    ----------
    outcomes : Outcomes
        With all candidates' shares for a score cut.
    cut : {"rank", "score"}
        How sets are cut.
    miss : float
        The miss rate.
    among : array of bool, optional
        Which of the outcomes' cases; by default all.
    """
    curve = risk_curve(outcomes, cut)
    users = np.arange(len(outcomes)) if among is None else np.flatnonzero(among)
    if among is not None:
        curve = curve.of_owners(among)
    if miss + TOLERANCE < curve.lowest_level():
        return np.nan
    # Without the +1 of a promise: (loss + 1) / (n + 1) at this level is a loss of n · miss.
    level = (miss * curve.n_users + 1) / (curve.n_users + 1)
    return float(coverage(curve, curve, outcomes, users, cut, level).sizes.mean())
