"""What the sets of one kind left out, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from surerec.evaluation import CHECKED_EPSILONS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


LEVEL = 1 - 0.05 / len(CHECKED_EPSILONS)
"""Of each interval, so that those of one kind hold together with 95 % (Bonferroni)."""


@dataclass(frozen=True)
class Measured:
    """What was left out, for users u, their later items i, and the significance levels ε.

    Attributes
    ----------
    users : array of int, u
        Their codes.
    n_known : array of int, u
        How many of their items were known.
    n_candidates : array of int, u
        How many items were up for recommendation.
    owners, items : array of int, i
        Whose each later item is, as a place in `users`, and its code.
    missed : array of float, ε × i
        Whether the set left the item out; between 0 and 1 where several sets were tried.
    losses : array of float, ε × u
        What the promise is about: the share left out, or 1 where nothing hit.
    sizes : array of float, ε × u
        Items in the set; NaN where ε is below the floor.
    floor : float, or array of float, u
        The smallest ε that can be guaranteed, to everyone or to each user; 0 if nothing bounds it.
    """

    users: NDArray[np.int64]
    n_known: NDArray[np.int64]
    n_candidates: NDArray[np.int64]
    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    missed: NDArray[np.float64]
    losses: NDArray[np.float64]
    sizes: NDArray[np.float64]
    floor: float | NDArray[np.float64] = 0.0

    def size_and_floor(
        self, at: int, chosen: NDArray[np.bool_] | None = None
    ) -> tuple[float | None, float]:
        """Compute the mean size of some users' sets at one ε, None below the floor, and the floor.

        Of users with several thresholds the floor is the highest: the ε that all of them support.
        """
        mine = np.ones(len(self.users), dtype=bool) if chosen is None else chosen
        sizes, floors = self.sizes[at, mine], np.broadcast_to(self.floor, mine.shape)[mine]
        size = None if np.isnan(sizes).any() or not sizes.size else float(sizes.mean())
        return size, float(floors.max(initial=0.0))


class Interval(NamedTuple):
    """A mean with what it may be."""

    mean: float
    low: float
    high: float


def interval_over_users(losses: ArrayLike, level: float = LEVEL) -> Interval:
    """Give the mean of 1 − loss, with its Wilson interval over users.

    Of a share between 0 and 1 no mean varies more than that of yes and no; how much less users vary
    here makes their number count for more. For the spread two users are made up, one who missed
    everything and one who missed nothing, so that a few who are all alike do not seem certain.

    Notes
    -----
    With hits, which are yes or no, it is the interval of Wilson (1927) with a t quantile.

    Examples
    --------
    >>> [round(value, 2) for value in interval_over_users(np.zeros(20))]
    [1.0, 0.71, 1.0]
    >>> [round(value, 3) for value in interval_over_users(np.arange(2000) % 10 == 0)]
    [0.9, 0.881, 0.916]
    """
    kept = 1 - np.asarray(losses, dtype=np.float64)
    if not kept.size:
        return Interval(np.nan, np.nan, np.nan)
    mean = float(kept.mean())
    more = np.append(kept, [0.0, 1.0])
    varies = min(float(more.var(ddof=1) / (more.mean() * (1 - more.mean()))), 1.0)
    n = kept.size / varies
    z = float(stats.t.ppf((1 + level) / 2, kept.size + 1))
    shrunk = 1 + z**2 / n
    centre = (mean + z**2 / (2 * n)) / shrunk
    reach = z / shrunk * (max(mean * (1 - mean), 0.0) / n + z**2 / (4 * n**2)) ** 0.5
    # Rounding may put an end of a mean near 0 or 1 on the wrong side of it.
    low, high = min(max(centre - reach, 0.0), mean), max(min(centre + reach, 1.0), mean)
    return Interval(mean, low, high)


def interval_over_windows(losses: ArrayLike, level: float = LEVEL) -> Interval:
    """Give the mean of 1 − loss over windows, with its t interval; nan for a single window."""
    kept = 1 - np.asarray(losses, dtype=np.float64)
    mean = float(kept.mean())
    if kept.size == 1:
        return Interval(mean, np.nan, np.nan)
    reach = float(stats.t.ppf((1 + level) / 2, kept.size - 1)) * kept.std(ddof=1) / kept.size**0.5
    return Interval(mean, max(mean - reach, 0.0), min(mean + reach, 1.0))


def coverage_rows(kind: str, name: str, measured: Measured) -> list[dict[str, Any]]:
    """Give what the sets of one kind promised and delivered to users, a row for each ε."""
    rows = []
    for at, epsilon in enumerate(CHECKED_EPSILONS):
        delivered, low, high = interval_over_users(measured.losses[at])
        size, floor = measured.size_and_floor(at)
        rows.append(
            {
                "kind": kind,
                "name": name,
                "epsilon": epsilon,
                "promised": 1 - epsilon,
                "delivered": delivered,
                "low": low,
                "high": high,
                "size": size,
                "floor": floor,
                "n": len(measured.users),
                "unit": "users",
                "windows_below": None,
            }
        )
    return rows
