"""How often each item was taken lately, at the moment of a question.

Only days before that of the last known item count. What a person takes next lies on that day or
later, so that nothing of it is in there; other takings of theirs are left out one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._calendar import DAY
from surerec._grouping import group_rows
from surerec.measures.learned._day_kernels import count_all_by_day, count_by_day, note_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions

SPANS: Final = (7, 30, 90, 365)
"""Days before the day of a question in which takers are counted."""
RECENCY: Final[dict[str, str]] = {
    "week": "how often it was taken in the 7 days before, of all that was taken then",
    "month": "how often it was taken in the 30 days before, of all that was taken then",
    "quarter": "how often it was taken in the 90 days before, of all that was taken then",
    "year": "how often it was taken in the 365 days before, of all that was taken then",
    "so_far": "how often it was taken until then, of all that was taken",
    "trend": "how much more often it was taken in the 30 days before than until then",
    "late_trend": "how much more often it was taken in the 7 days before than in the 90",
    "age": "how long before it was taken for the first time",
}
"""The features in order, each in words."""

_HALF: Final = 0.5  # of a taker, so that nobody has a logarithm too
_FEW: Final = 50.0  # rows: shares of fewer say little


@dataclass(frozen=True, eq=False)
class Recency:
    """The days on which each item was taken, in order.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=40, n_rows=900, seed=1)
    >>> lately = Recency.of(films)
    >>> lately.features(lately.last_day, np.arange(3), np.array([], dtype=np.int64)).shape
    (8, 3)
    """

    offsets: NDArray[np.int64]
    days: NDArray[np.int32]
    """Of the takers of each item, ascending; item j's at ``offsets[j]:offsets[j + 1]``."""
    all_days: NDArray[np.int32]
    items_by_day: NDArray[np.uint32]
    """The days of all takings, ascending, and what was taken."""
    own_offsets: NDArray[np.int64]
    own_items: NDArray[np.uint32]
    own_days: NDArray[np.int32]
    """The profiles, to leave users out."""

    @classmethod
    def of(cls, interactions: Interactions) -> Recency:
        """Sort the days of all takings by item."""
        days = (interactions.times // DAY).astype(np.int32)
        by_day = np.argsort(days, kind="stable")
        items_by_day, all_days = interactions.items_taken[by_day], days[by_day]
        offsets, rows = group_rows(items_by_day, interactions.n_items)
        return cls(
            offsets,
            all_days[rows],
            all_days,
            items_by_day,
            interactions.offsets,
            interactions.items_taken,
            days,
        )

    @property
    def last_day(self) -> int:
        """The day after all that is known: for questions without a time."""
        return int(self.all_days[-1]) + 1

    def features(
        self, day: int, columns: NDArray[np.int64], own: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Give the features (rows) of some items (columns), by what was taken before a day.

        Parameters
        ----------
        day : int
            The day of the question, in days since 1970.
        columns : array of int
            The items; nobody took those behind all that are known.
        own : array of int
            Where in the flat profiles the users to leave out have theirs; empty for nobody.
        """
        limits, n_before = self._limits(day)
        counts = np.zeros((len(limits) + 1, len(columns)), np.float32)
        n_new = int(columns.max(initial=-1)) - len(self.offsets) + 2
        offsets = self.offsets
        if n_new > 0:
            offsets = np.concatenate((offsets, np.full(n_new, offsets[-1])))
        mine = self.own_items[own].astype(np.int64), self.own_days[own]
        count_by_day(offsets, self.days, columns, limits, *mine, counts)
        return self._shares(counts, limits, n_before, mine[1])

    def features_of_all(
        self, day: int, n_items: int, own: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Give the same as :meth:`features` of the first `n_items` items, which are all."""
        limits, n_before = self._limits(day)
        counts = np.empty((len(limits) + 1, n_items), np.float32)
        mine = self.own_items[own].astype(np.int64), self.own_days[own]
        step, noted = self._noted
        count_all_by_day(
            self.offsets,
            self.days,
            self.items_by_day,
            step,
            noted,
            limits,
            n_before,
            *mine,
            counts,
        )
        return self._shares(counts, limits, n_before, mine[1])

    @cached_property
    def _noted(self) -> tuple[int, NDArray[np.int32]]:
        """How often each item was taken in the first takings, noted after so many of them.

        As many as there are items: then this takes no more room than the takings, and counting on
        from there no longer than reading what was noted.
        """
        n_items = len(self.offsets) - 1
        step = max(n_items, 1)
        noted = np.zeros((len(self.items_by_day) // step + 1, n_items), np.int32)
        note_counts(self.items_by_day, step, noted)
        return step, noted

    def _limits(self, day: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Give the days before which takers are counted, and how many takings were before each."""
        limits = np.array([day, *(day - span for span in SPANS)], dtype=np.int32)
        return limits, np.searchsorted(self.all_days, limits)

    def _shares(
        self,
        counts: NDArray[np.float32],
        limits: NDArray[np.int32],
        n_before: NDArray[np.int64],
        own_days: NDArray[np.int32],
    ) -> NDArray[np.float32]:
        taken = n_before.astype(np.float64)
        taken -= (own_days < limits[:, None]).sum(axis=1)
        return _shares(counts, taken, len(self.offsets) - 1)


def _shares(
    counts: NDArray[np.float32], taken: NDArray[np.float64], n_items: int
) -> NDArray[np.float32]:
    """Bring counts before each limit to shares of all that was taken, in logarithms.

    1 is what an item would have if all were alike.
    """
    so_far, age = counts[0], counts[-1]

    def share(n: NDArray[np.float32], of: float) -> NDArray[np.float32]:
        return np.asarray(np.log((n + np.float32(_HALF)) * np.float32(n_items / (of + _FEW))))

    lately = [
        share(so_far - before, taken[0] - taken[k])
        for k, before in enumerate(counts[1:-1], start=1)
    ]
    until = share(so_far, taken[0])
    out = np.empty((len(RECENCY), counts.shape[1]), np.float32)
    out[: len(lately)] = lately
    out[-4] = until
    out[-3] = lately[1] - until
    out[-2] = lately[0] - lately[2]
    out[-1] = np.where(age < 0, np.float32(-1), np.log1p(np.maximum(age, 0)))
    return out
