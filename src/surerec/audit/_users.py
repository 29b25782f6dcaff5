"""Sets that were calibrated over users, tested on users who did not calibrate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec.audit._measured import Measured
from surerec.evaluation import CHECKED_EPSILONS, coverage, risk_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cut, Outcomes, Promise


N_SPLITS = 10
"""How many times users are halved; each half calibrates once and is tested once."""


def cross_tested(
    outcomes: Outcomes,
    cut: Cut,
    promise: str | Promise = "miss-rate",
    *,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    groups: NDArray[np.int64] | None = None,
    n_splits: int = N_SPLITS,
    seed: int = 0,
) -> Measured:
    """Halve the users at random several times, and test each half with the other's threshold.

    Parameters
    ----------
    outcomes : Outcomes
        Where the users' futures were ranked.
    cut : {"rank", "score"}
        Of the sets.
    promise : str or Promise
        What a user loses.
    epsilons : sequence of float
        The significance levels.
    groups : array of int, optional
        Each user's group, to calibrate within groups: Mondrian thresholds.
    n_splits : int
        How many times.
    seed : int
        Of the halves.

    Returns
    -------
    Measured
        Means over the splits, in each of which every user was tested once.
    """
    whole = risk_curve(outcomes, cut, promise)
    by_item = risk_curve(outcomes, cut, "miss-rate")
    n_users = len(outcomes)
    group_of = np.zeros(n_users, dtype=np.int64) if groups is None else groups
    shape = (len(epsilons), n_users)
    losses, sizes, floors = np.zeros(shape), np.zeros(shape), np.zeros(n_users)
    missed = np.zeros((len(epsilons), len(by_item.entries)))
    rng = np.random.default_rng(seed)
    for _ in range(n_splits):
        half = rng.permutation(n_users) % 2
        for group in np.unique(group_of):
            for side in (0, 1):
                tests = (half == side) & (group_of == group)
                calibrates = (half != side) & (group_of == group)
                curves = whole.of_owners(calibrates), whole.of_owners(tests)
                users = np.flatnonzero(tests)
                floors[users] = np.maximum(floors[users], curves[0].lowest_level())
                theirs = tests[by_item.owners]
                entries = by_item.entries[theirs]
                for at, epsilon in enumerate(epsilons):
                    found = coverage(*curves, outcomes, users, cut, epsilon)
                    losses[at, users] += found.losses
                    sizes[at, users] += found.sizes
                    missed[at, theirs] += (entries > found.cut) | np.isinf(entries)
    return Measured(
        users=outcomes.cases.users,
        n_known=outcomes.n_known,
        n_candidates=outcomes.n_candidates,
        owners=outcomes.owners,
        items=outcomes.items,
        missed=missed / n_splits,
        losses=losses / n_splits,
        sizes=sizes / n_splits,
        floor=floors,
    )


def with_threshold_of(
    calibrates: Outcomes,
    tested: Outcomes,
    cut: Cut,
    promise: str | Promise,
    *,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
) -> Measured:
    """Test people with the threshold of others: of those whom the scorer had learned from, say.

    Parameters
    ----------
    calibrates, tested : Outcomes
        Of the people who calibrate, and of those who are tested.
    cut, promise, epsilons
        As in :func:`cross_tested`.
    """
    curves = [risk_curve(each, cut, promise) for each in (calibrates, tested)]
    entries, users = tested.entries(cut), np.arange(len(tested))
    found = [coverage(curves[0], curves[1], tested, users, cut, epsilon) for epsilon in epsilons]
    cuts = np.array([each.cut for each in found])[:, None]
    return Measured(
        users=tested.cases.users,
        n_known=tested.n_known,
        n_candidates=tested.n_candidates,
        owners=tested.owners,
        items=tested.items,
        missed=((entries > cuts) | np.isinf(entries)).astype(np.float64),
        losses=np.stack([each.losses for each in found]),
        sizes=np.stack([each.sizes for each in found]),
        floor=curves[0].lowest_level(),
    )
