"""The engine of every test: cut sets at the threshold of some users, and see what others miss."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.calibration import find_guarantee
from surerec.conformal import TOLERANCE
from surerec.errors import InputError
from surerec.measures import as_measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import GuaranteeKind, Outcomes, ThresholdUnit
    from surerec.conformal import RiskCurve
    from surerec.measures import Measure, MeasureLike

CHECKED_EPSILONS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""The significance levels at which guarantees are checked."""
N_SPLITS: Final = 10
"""How many times users are halved; each half calibrates once and is tested once."""

_Result = TypeVar("_Result")


def refittable(measure: MeasureLike) -> Measure:
    """Return the recipe of a measure, or refuse what comes fitted: it may know what is tested."""
    recipe = as_measure(measure)
    if not recipe.refits:
        raise InputError(
            f"The scorer {recipe.name} comes fitted and cannot be fitted on other data: pass what "
            "makes it from statistics, such as its class."
        )
    return recipe


def for_each(
    one: Callable[[Any], _Result], work: Sequence[Any], doing: str, at_once: int = 8
) -> list[_Result]:
    """Return what a function returns for each user or other piece of work, on all cores."""

    def some(start: int) -> list[_Result]:
        return [one(each) for each in work[start : start + at_once]]

    found: list[_Result] = []
    with progress(doing, total=len(work), unit="users") as advance:
        for part in run_blocks(some, range(0, len(work), at_once)):
            found += part
            advance(len(part))
    return found


def halves(n: int, n_splits: int = N_SPLITS, random_state: int = 0) -> Iterator[NDArray[np.bool_]]:
    """Yield which of n users are tested: both halves of each random split, one after the other."""
    rng = np.random.default_rng(random_state)
    for _ in range(n_splits):
        tests = rng.permutation(n) % 2 == 0
        yield tests
        yield ~tests


def risk_curve(
    outcomes: Outcomes, threshold: ThresholdUnit, guarantee: str | GuaranteeKind = "recall"
) -> RiskCurve:
    """Return the risk curve of all users of these outcomes."""
    entries = outcomes.entries(threshold)
    return find_guarantee(guarantee).curve(entries, outcomes.owners, len(outcomes))


def losses_at(curve: RiskCurve, threshold: float) -> NDArray[np.float64]:
    """Return what each user of a curve loses with a threshold; no set holds what is unknown.

    Examples
    --------
    >>> from surerec.conformal import RiskCurve
    >>> curve = RiskCurve.of_shares([1.0, 7.0, np.inf], [0, 0, 1], n_users=2)
    >>> losses_at(curve, 5.0).tolist(), losses_at(curve, np.inf).tolist()
    ([0.5, 1.0], [0.0, 1.0])
    """
    missed = (curve.entries > threshold) | np.isinf(curve.entries)
    return np.bincount(
        curve.owners[missed], weights=curve.losses[missed], minlength=curve.n_users
    ).astype(np.float64)


class CutSets(NamedTuple):
    """Sets of tested users at the thresholds of others."""

    cuts: NDArray[np.float64]
    """For each ε."""
    losses: NDArray[np.float64]
    """For each ε and user, the share missed, or 1 where nothing hit."""
    sizes: NDArray[np.float64]
    """For each ε and user, the items in the set; NaN where ε is below the floor."""


def cut_sets(
    calibration: RiskCurve,
    tested: RiskCurve,
    outcomes: Outcomes,
    users: NDArray[np.intp],
    threshold: ThresholdUnit,
    epsilons: Sequence[float],
) -> CutSets:
    """Cut the sets of tested users at the thresholds of calibration users.

    Parameters
    ----------
    calibration, tested : RiskCurve
        Of the users who calibrate, and of those who are tested.
    outcomes : Outcomes
        That the tested users are part of, with all candidates' shares for a score cut.
    users : array of int
        Which of the outcomes' cases they are.
    threshold : {"rank", "score"}
        What the entries are.
    epsilons : sequence of float
        The significance levels.
    """
    return _cut_at(calibration, tested, lambda at: _sizes(outcomes, users, threshold, at), epsilons)


def _cut_at(
    calibration: RiskCurve,
    tested: RiskCurve,
    sizes_at: Callable[[float], NDArray[np.float64]],
    epsilons: Sequence[float],
) -> CutSets:
    cuts = np.array([calibration.threshold(epsilon) for epsilon in epsilons])
    losses = np.stack([losses_at(tested, at) for at in cuts])
    # With an infinite threshold no set supports ε: the size of the catalogue is no set size.
    nothing = np.full(losses.shape[1], np.nan)
    return CutSets(
        cuts, losses, np.stack([nothing if at == np.inf else sizes_at(at) for at in cuts])
    )


def _sizes(
    outcomes: Outcomes, users: NDArray[np.intp], threshold: ThresholdUnit, at: float
) -> NDArray[np.float64]:
    if threshold == "rank":
        return np.minimum(outcomes.n_candidates[users].astype(np.float64), at)
    shares, bound = outcomes.candidate_shares, max(-at, 0.0)
    assert shares is not None  # noqa: S101  # kept for score cuts
    # By bisection, as shares fall: rows of a large catalogue are not copied for every level.
    low, high = np.zeros(len(users), dtype=np.int64), np.full(len(users), shares.shape[1])
    while (open_ := low < high).any():
        middle = (low + high) // 2
        inside = open_ & (shares[users, np.minimum(middle, shares.shape[1] - 1)] >= bound)
        low = np.where(inside, middle + 1, low)
        high = np.where(open_ & ~inside, middle, high)
    return low.astype(np.float64)


class MeasuredSets(NamedTuple):
    """What sets left out, for the significance levels ε and users u.

    Attributes
    ----------
    losses : array of float, ε × u
        What the guarantee is about: the share left out, or 1 where nothing hit.
    sizes : array of float, ε × u
        Items in the set; NaN where ε is below the floor.
    floor : array of float, u
        The smallest ε that can be guaranteed to each user; 0 if nothing bounds it.
    """

    losses: NDArray[np.float64]
    sizes: NDArray[np.float64]
    floor: NDArray[np.float64]

    def size_and_floor(
        self, at: int, chosen: NDArray[np.bool_] | None = None
    ) -> tuple[float | None, float]:
        """Compute the mean size of some users' sets at one ε, None below the floor, and the floor.

        Of users with several thresholds the floor is the highest: the ε that all of them support.
        """
        mine = np.ones(len(self.floor), dtype=bool) if chosen is None else chosen
        sizes = self.sizes[at, mine]
        size = None if np.isnan(sizes).any() or not sizes.size else float(sizes.mean())
        return size, float(self.floor[mine].max(initial=0.0))


def measure_sets(
    outcomes: Outcomes,
    threshold: ThresholdUnit,
    guarantee: str | GuaranteeKind = "recall",
    **how: Any,
) -> MeasuredSets:
    """Test users with the thresholds of others: given ones, or each random half with the other's.

    Parameters
    ----------
    outcomes : Outcomes
        Where the users' held-out items were ranked.
    threshold : {"rank", "score"}
        How sets are cut.
    guarantee : str or Promise
        What a user loses.
    **how : Any
        Settings of :func:`measure_curve`.
    """
    whole = risk_curve(outcomes, threshold, guarantee)
    return measure_curve(whole, lambda users, at: _sizes(outcomes, users, threshold, at), **how)


def measure_curve(
    whole: RiskCurve,
    sizes_at: Callable[[NDArray[np.intp], float], NDArray[np.float64]],
    *,
    calibration: RiskCurve | None = None,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    groups: NDArray[np.int64] | None = None,
    n_splits: int = N_SPLITS,
    random_state: int = 0,
) -> MeasuredSets:
    """Test users with the thresholds of others: given ones, or each random half with the other's.

    Parameters
    ----------
    whole : RiskCurve
        Of the users.
    sizes_at : callable
        Set sizes of some users, by place, at a threshold.
    calibration : RiskCurve, optional
        Of the users who calibrate; by default each half of the users calibrates for the other.
    epsilons : sequence of float
        The significance levels.
    groups : array of int, optional
        Each user's group, to calibrate within groups: Mondrian thresholds.
    n_splits : int
        How many times users are halved; the means over the splits are returned.
    random_state : int
        Of the halves.
    """
    group_of = np.zeros(whole.n_users, dtype=np.int64) if groups is None else groups
    losses, sizes = np.zeros((2, len(epsilons), whole.n_users))
    floors = np.zeros(whole.n_users)
    everyone = np.ones(whole.n_users, dtype=bool)
    rounds = [everyone] if calibration else list(halves(whole.n_users, n_splits, random_state))
    for tests in rounds:
        for group in np.unique(group_of):
            mine = tests & (group_of == group)
            curve = calibration or whole.of_owners(~tests & (group_of == group))
            users = np.flatnonzero(mine)
            found = _cut_at(curve, whole.of_owners(mine), partial(sizes_at, users), epsilons)
            floors[users] = np.maximum(floors[users], curve.lowest_level())
            losses[:, users] += found.losses
            sizes[:, users] += found.sizes
    n = n_splits if calibration is None else 1
    return MeasuredSets(losses / n, sizes / n, floors)


def coverage_over_splits(
    outcomes: Outcomes,
    threshold: ThresholdUnit,
    guarantee: str | GuaranteeKind = "recall",
    *,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    n_splits: int = 20,
    random_state: int = 0,
) -> pl.DataFrame:
    """Test each random half of the users with the threshold of the other, many times.

    Returns
    -------
    polars.DataFrame
        For each ε: ``loss`` and ``size``, the means over users and splits, and ``floor``, the
        smallest ε that the calibration users of every split support. Below the floor the size is
        null.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.calibration import observe, profile_cases
    >>> from surerec.measures import MeasureScorer
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> counts = sr.count_precedence(films)
    >>> outcomes = observe(MeasureScorer(counts, "CM12"), counts, profile_cases(films, 0.4))
    >>> found = coverage_over_splits(outcomes, "rank", epsilons=[0.2])
    >>> abs(found["loss"].item() - 0.2) < 0.03
    True
    """
    found = measure_sets(
        outcomes,
        threshold,
        guarantee,
        epsilons=epsilons,
        n_splits=n_splits,
        random_state=random_state,
    )
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
    among: NDArray[np.bool_] | None = None,
) -> float:
    """Compute the mean set size at which the mean miss rate of these users is `miss`.

    For comparing sizes alone: the threshold is chosen on the tested users, so nothing is
    guaranteed. NaN if `miss` is below the smallest ε that as many calibration users would support.

    Parameters
    ----------
    outcomes : Outcomes
        With all candidates' shares for a score cut.
    threshold : {"rank", "score"}
        How sets are cut.
    miss : float
        The miss rate.
    among : array of bool, optional
        Which of the outcomes' cases; by default all.
    """
    chosen = np.ones(len(outcomes), dtype=bool) if among is None else among
    curve = risk_curve(outcomes, threshold).of_owners(chosen)
    if miss + TOLERANCE < curve.lowest_level():
        return np.nan
    # Without the +1 of a guarantee: (loss + 1) / (n + 1) at this level is a loss of n · miss.
    level = (miss * curve.n_users + 1) / (curve.n_users + 1)
    found = cut_sets(curve, curve, outcomes, np.flatnonzero(chosen), threshold, [level])
    return float(found.sizes.mean())
