"""Promises to groups, tested on groups that did not calibrate: by size, and by member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.audit._measured import interval_over_users
from surerec.audit._users import N_SPLITS
from surerec.audit._verdicts import of_row
from surerec.conformal import TOLERANCE, users_needed
from surerec.evaluation import CHECKED_EPSILONS
from surerec.recommenders import (
    GROUP_PROMISES,
    find_aggregation,
    form_groups,
    observe_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.calibration import Cases
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import GroupOutcomes, GroupPromise

SIZES: Final = (2, 4, 8)
"""Of the groups that are audited."""
FEWEST_GROUPS: Final = 20


def together_rows(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, seed: int
) -> Iterator[dict[str, Any]]:
    """Give what random groups are delivered, a row for each size, promise and ε.

    Beside what is promised to the group, what its members get of their own: on average, and the one
    who gets least.

    Parameters
    ----------
    scorer : Scorer
        What scores, and leaves members out together.
    statistics : PrecedenceStatistics
        What is known.
    cases : Cases
        The pasts and futures of the audited users.
    seed : int
        Of the groups, and of the halves.
    """
    for size in SIZES:
        groups = form_groups(cases, size, "random", scorer.fold_of(cases.users), seed)
        if len(groups) < FEWEST_GROUPS:
            continue
        found = observe_groups(scorer, statistics, cases, groups, find_aggregation("average"))
        for promise in GROUP_PROMISES.values():
            if size <= promise.largest:
                yield from _rows(found, promise, size, seed)


def _rows(
    found: GroupOutcomes, promise: GroupPromise, size: int, seed: int
) -> Iterator[dict[str, Any]]:
    curve, units = promise.curve_of(found)
    if len(units) < FEWEST_GROUPS:
        return
    member, n_members = _members(found, units)
    kept = np.flatnonzero(np.isin(found.owners, units))
    group_of = np.full(len(found), -1)
    group_of[units] = np.arange(len(units))
    for epsilon in CHECKED_EPSILONS:
        losses, cuts, floor = np.zeros(len(units)), np.zeros(len(units)), 0.0
        rng = np.random.default_rng(seed)
        for _ in range(N_SPLITS):
            half = rng.permutation(len(units)) % 2
            for side in (0, 1):
                tests = half == side
                calibrates = curve.of_owners(~tests)
                cut, floor = calibrates.cut(epsilon), max(floor, calibrates.lowest_level())
                left = np.where(curve.entries > cut, curve.losses, 0.0)
                losses[tests] += np.bincount(curve.owners, left, len(units))[tests]
                cuts[tests] += np.minimum(cut, found.n_candidates[units[tests]])
        losses, cuts = losses / N_SPLITS, cuts / N_SPLITS
        # By member with the mean cut of their group, as what they get is not promised.
        missed = found.ranks[kept] > cuts[group_of[found.owners[kept]]]
        shares = 1 - np.bincount(member, missed, n_members) / np.bincount(member)
        owners = np.unique(np.stack((member, group_of[found.owners[kept]])), axis=1)[1]
        least = np.full(len(units), np.inf)
        np.minimum.at(least, owners, shares)
        delivered, low, high = interval_over_users(losses)
        supported = users_needed(epsilon) <= len(units) // 2
        yield {
            "size": size,
            "promise": promise.name,
            "epsilon": epsilon,
            "promised": 1 - epsilon,
            "delivered": delivered,
            "low": low,
            "high": high,
            "verdict": of_row(1 - epsilon, low, high) if supported else "cannot tell",
            "items": float(cuts.mean()) if epsilon + TOLERANCE >= floor else None,
            "floor": floor,
            "n_groups": len(units),
            "n_without": len(found) - len(units),
            "members": float(shares.mean()),
            "least_served": float(least.mean()),
        }


def _members(found: GroupOutcomes, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Give whose each row of the groups that count is, and how many members took something."""
    kept = np.isin(found.owners, units)
    keys = found.owners[kept] * (int(found.places.max(initial=0)) + 1) + found.places[kept]
    names, member = np.unique(keys, return_inverse=True)
    return member, len(names)
