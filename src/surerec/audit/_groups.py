"""Where a promise is weak: by how much is known, by popularity, by when people began."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._calendar import DAY, day_of
from surerec.audit._measured import interval_over_users
from surerec.calibration import LengthGroups
from surerec.evaluation import CHECKED_EPSILONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.audit._measured import Measured
    from surerec.precedence import PrecedenceStatistics


class Grouping(NamedTuple):
    """Users, or their later items, in groups."""

    by: str
    of_items: bool
    group_of: NDArray[np.int64]
    """The group of each user, or of each later item."""
    names: tuple[str, ...]


def groupings(
    measured: Measured, statistics: PrecedenceStatistics, n_groups: int
) -> list[Grouping]:
    """Group users by known items and by when they began, and later items by popularity."""
    interactions = statistics.interactions
    lengths = LengthGroups.equal(measured.n_known, n_groups)
    support = np.where(measured.items >= 0, statistics.support[measured.items], 0)
    popular = LengthGroups.equal(support, n_groups)
    days = interactions.times[interactions.offsets[measured.users]] // DAY
    began = LengthGroups.equal(days, n_groups)
    return [
        Grouping("known items", False, lengths.of(measured.n_known), _counted(lengths, "items")),
        Grouping("popularity of the item", True, popular.of(support), _counted(popular, "takers")),
        Grouping("when they began", False, began.of(days), _dated(began)),
    ]


def _counted(groups: LengthGroups, unit: str) -> tuple[str, ...]:
    if groups.n == 1:
        return (f"any number of {unit}",)
    edges = groups.edges.tolist()
    between = [f"{low:,} to {high - 1:,} {unit}" for low, high in pairwise(edges)]
    return f"fewer than {edges[0]:,} {unit}", *between, f"{edges[-1]:,} {unit} or more"


def _dated(groups: LengthGroups) -> tuple[str, ...]:
    if groups.n == 1:
        return ("any day",)
    edges = [day_of(day * DAY) for day in groups.edges.tolist()]
    between = [f"from {low}, before {high}" for low, high in pairwise(edges)]
    return f"before {edges[0]}", *between, f"from {edges[-1]}"


def group_rows(
    kind: str,
    measured: Measured,
    grouping: Grouping,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
) -> Iterator[dict[str, Any]]:
    """Give what is delivered in each group, with its interval: a row for each group and ε."""
    for group, name in enumerate(grouping.names):
        chosen = grouping.group_of == group
        for at, epsilon in enumerate(epsilons):
            if grouping.of_items:
                owners = measured.owners[chosen]
                counts = np.bincount(owners, minlength=len(measured.users))
                sums = np.bincount(owners, measured.missed[at, chosen], len(measured.users))
                losses, size, floor = sums[counts > 0] / counts[counts > 0], None, None
            else:
                losses = measured.losses[at, chosen]
                size, floor = measured.size_and_floor(at, chosen)
            delivered, low, high = interval_over_users(losses)
            yield {
                "kind": kind,
                "by": grouping.by,
                "place": group,
                "group": name,
                "epsilon": epsilon,
                "promised": 1 - epsilon,
                "delivered": delivered,
                "low": low,
                "high": high,
                "size": size,
                "floor": floor,
                "n_users": len(losses),
                "n_items": int(
                    chosen.sum() if grouping.of_items else chosen[measured.owners].sum()
                ),
            }


def mondrian_rows(
    kind: str,
    common: Measured,
    own: Measured,
    grouping: Grouping,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
) -> Iterator[dict[str, Any]]:
    """Compare one threshold for everyone with one for each group; the last group is everyone."""
    members = [grouping.group_of == group for group in range(len(grouping.names))]
    members.append(np.ones(len(grouping.group_of), dtype=bool))
    for name, chosen in zip((*grouping.names, "everyone"), members, strict=True):
        for at, epsilon in enumerate(epsilons):
            row: dict[str, Any] = {"kind": kind, "group": name, "epsilon": epsilon}
            row |= {"promised": 1 - epsilon, "n_users": int(chosen.sum())}
            for which, measured in (("common", common), ("own", own)):
                delivered, low, high = interval_over_users(measured.losses[at, chosen])
                size, floor = measured.size_and_floor(at, chosen)
                row |= {
                    f"{which}_delivered": delivered,
                    f"{which}_low": low,
                    f"{which}_high": high,
                    f"{which}_size": size,
                    f"{which}_floor": floor,
                }
            yield row
