"""What is asked of the features: a profile, and who is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec.measures.learned._ridge import Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._aggregates import ProfileRows
    from surerec.measures.learned._items import ItemMeans

_HALF_LIVES: Final = (10.0, 40.0, 3.0)  # items after which an earlier one weighs half, by recency


class Person(NamedTuple):
    """Whom features are about; see `surerec.measures.learned._features`."""

    history: NDArray[np.integer]
    without: tuple[int, ...] = ()


class Asked(NamedTuple):
    """What is asked for: a profile, who is left out, and what that makes of the items."""

    rows: ProfileRows
    history: NDArray[np.int64]
    """Where ridges have the profile's items."""
    without: tuple[int, ...]
    taken: list[NDArray[np.int64]]
    """Where ridges have what each of those who are left out took, in time order."""
    own: list[NDArray[np.int64]]
    """The same in their order."""
    then: ItemMeans
    """Of every item, when all was counted."""
    means: ItemMeans
    weights: NDArray[np.float32]
    """Of the profile's items by recency; they sum to 1."""
    by_age: NDArray[np.float64]
    """Four weightings of them for a ridge."""

    @classmethod
    def of(
        cls,
        rows: ProfileRows,
        history: NDArray[np.int64],
        without: tuple[int, ...],
        taken: list[NDArray[np.int64]],
        then: ItemMeans,
        means: ItemMeans,
    ) -> Asked:
        """Weight the items of a profile by how many came after them."""
        age = np.arange(len(rows.history) - 1, -1, -1)
        recent, late, last = (0.5 ** (age / half) for half in _HALF_LIVES)
        weights = (recent / recent.sum()).astype(np.float32)
        by_age = np.stack((np.ones(len(age)), late, recent, last))
        own = [np.sort(items) for items in taken]
        return cls(rows, history, without, taken, own, then, means, weights, by_age)

    @property
    def by_code(self) -> Expected:
        """What the ridge is asked."""
        return Expected(self.history, self.by_age, self.own)

    @property
    def in_order(self) -> Expected:
        """What the ridge from past to future is asked."""
        return Expected(self.history, self.by_age, self.taken)
