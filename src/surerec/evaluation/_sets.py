"""The core of all tests: sets at the thresholds of some users, and the losses of others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec.calibration import find_guarantee
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
"""Number of random halvings; each half calibrates once and is tested once."""


def refittable(measure: MeasureLike) -> Measure:
    """Return a measure that can be refitted; raise InputError for a fitted scorer."""
    found = as_measure(measure)
    if not found.refits:
        raise InputError(
            f"The scorer {found.name} is already fitted and cannot be refitted. Pass its class, or "
            "a function that builds it from statistics."
        )
    return found


def halves(n: int, n_splits: int = N_SPLITS, random_state: int = 0) -> Iterator[NDArray[np.bool_]]:
    """Yield masks of the tested users: both halves of each random split."""
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
    """Return the loss of each user of a curve at a threshold; unknown items are in no set.

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


class TestedSets(NamedTuple):
    """Sets of tested users at the thresholds of others."""

    thresholds: NDArray[np.float64]
    """The threshold at each ε."""
    losses: NDArray[np.float64]
    """For each ε and user, the share missed, or 1 without a hit."""
    sizes: NDArray[np.float64]
    """For each ε and user, the number of items in the set; NaN if ε is below the floor."""


def sets_at_thresholds(
    calibration: RiskCurve,
    tested: RiskCurve,
    outcomes: Outcomes,
    users: NDArray[np.intp],
    threshold: ThresholdUnit,
    epsilons: Sequence[float],
) -> TestedSets:
    """Return the sets of tested users at the thresholds of calibration users.

    Parameters
    ----------
    calibration, tested : RiskCurve
        Risk curves of the calibration users and of the tested users.
    outcomes : Outcomes
        Outcomes that include the tested users, with candidates' shares for a score threshold.
    users : array of int
        Places of the tested users in the outcomes.
    threshold : {"rank", "score"}
        Unit of the thresholds.
    epsilons : sequence of float
        Significance levels.
    """
    return _tested_sets(
        calibration, tested, lambda at: outcomes.sizes(users, threshold, at), epsilons
    )


def _tested_sets(
    calibration: RiskCurve,
    tested: RiskCurve,
    sizes_at: Callable[[float], NDArray[np.float64]],
    epsilons: Sequence[float],
) -> TestedSets:
    thresholds = np.array([calibration.threshold(epsilon) for epsilon in epsilons])
    losses = np.stack([losses_at(tested, at) for at in thresholds])
    # With an infinite threshold no set supports ε, so there is no set size.
    nothing = np.full(losses.shape[1], np.nan)
    sizes = np.stack([nothing if at == np.inf else sizes_at(at) for at in thresholds])
    return TestedSets(thresholds, losses, sizes)


class MeasuredSets(NamedTuple):
    """Losses and sizes of sets, for significance levels ε and users u.

    Attributes
    ----------
    losses : array of float, ε × u
        The loss of the guarantee: the share left out, or 1 without a hit.
    sizes : array of float, ε × u
        Number of items in the set; NaN if ε is below the floor.
    floor : array of float, u
        The smallest ε that can be guaranteed to each user; 0 without a bound.
    """

    losses: NDArray[np.float64]
    sizes: NDArray[np.float64]
    floor: NDArray[np.float64]

    def size_and_floor(
        self, at: int, chosen: NDArray[np.bool_] | None = None
    ) -> tuple[float | None, float]:
        """Return the mean size of some users' sets at one ε (None below the floor), and the floor.

        The floor is the largest of these users, so that all of them support this ε.
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
    """Test users at the thresholds of given users, or each random half at those of the other.

    Parameters
    ----------
    outcomes : Outcomes
        Ranks of the users' held-out items.
    threshold : {"rank", "score"}
        Unit of the thresholds.
    guarantee : str or GuaranteeKind
        Defines a user's loss.
    **how : Any
        Settings of :func:`measure_curve`.
    """
    whole = risk_curve(outcomes, threshold, guarantee)
    return measure_curve(whole, lambda users, at: outcomes.sizes(users, threshold, at), **how)


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
    """Test users at the thresholds of given users, or each random half at those of the other.

    Parameters
    ----------
    whole : RiskCurve
        Risk curve of the users.
    sizes_at : callable
        Returns the set sizes of some users, by place, at a threshold.
    calibration : RiskCurve, optional
        Risk curve of the calibration users; by default each half calibrates for the other.
    epsilons : sequence of float
        Significance levels.
    groups : array of int, optional
        Group of each user, for thresholds within groups (Mondrian).
    n_splits : int
        Number of random halvings; means over the splits are returned.
    random_state : int
        Seed of the random halves.
    """
    group_of = np.zeros(whole.n_users, dtype=np.int64) if groups is None else groups
    losses, sizes = np.zeros((2, len(epsilons), whole.n_users))
    floors = np.zeros(whole.n_users)
    every = np.ones(whole.n_users, dtype=bool)
    rounds = [every] if calibration else list(halves(whole.n_users, n_splits, random_state))
    for tests in rounds:
        for group in np.unique(group_of):
            mine = tests & (group_of == group)
            curve = calibration or whole.of_owners(~tests & (group_of == group))
            users = np.flatnonzero(mine)
            found = _tested_sets(curve, whole.of_owners(mine), partial(sizes_at, users), epsilons)
            floors[users] = np.maximum(floors[users], curve.lowest_level())
            losses[:, users] += found.losses
            sizes[:, users] += found.sizes
    n = n_splits if calibration is None else 1
    return MeasuredSets(losses / n, sizes / n, floors)
