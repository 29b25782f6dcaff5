"""What the trees see of an item and a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows
from surerec.measures.learned import _kernels as kernels
from surerec.measures.learned._items import ItemFacts
from surerec.measures.learned._ridge import Ridge
from surerec.precedence._spans import spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.learned._items import ItemMeans
    from surerec.precedence import Block, PrecedenceStatistics

__all__ = ["FEATURES", "Features"]

FEATURES: Final[dict[str, str]] = {
    "count": "users who took it after an item of the profile, on average (CM4)",
    "share": "share of an item's takers who took it later, on average (CM8)",
    "recent_share": "the same, the latest items of the profile counting most",
    "last_share": "the same over the last 5 items of the profile",
    "next": "share of the takers of the last 5 items for whom it was among the next 10",
    "soon": "the same for the next 50",
    "max_share": "the largest such share (CM9)",
    "median_ratio": "share of those still free to take it who did, median (CM11)",
    "ratio": "share of those still free to take it who did, on average (CM12)",
    "max_ratio": "the largest such share (CM13)",
    "back_share": "share of an item's takers who took it before, on average",
    "order": "how often it came after, of all the times it came before or after",
    "cosine": "similarity to the profile's items by who took them, on average",
    "recent_cosine": "the same, the latest items of the profile counting most",
    "max_cosine": "the largest such similarity",
    "lift": "how much more often it is taken after these items than by anybody",
    "support": "how many took it",
    "place": "where in their profile users take it",
    "place_ahead": "how much later than the profile's items users take it",
    "days_ahead": "how much newer it is than the profile's items",
    "length": "length of the profile",
    "profile_support": "how popular the profile's items are",
    "ridge": "what a ridge regression on the profile's items expects",
    "late_ridge": "the same, the later items of the profile counting more",
    "recent_ridge": "the same, the latest items of the profile counting most",
    "last_ridge": "the same, hardly any but the last few items of the profile counting",
}
"""The features in order, each in words."""

_HALF_LIFE: Final = 10.0  # items: where recency counts, the tenth-last item weighs half the last
_LONG_HALF_LIFE: Final = 40.0
_SHORT_HALF_LIFE: Final = 3.0
_N_LAST: Final = 5
_NOTHING: Final = np.float32(1e-30)  # LightGBM takes what is nearer to 0 for 0 in places, so we do
_WINDOWS: Final = np.array([10, 50])


class Features:
    """The features of items for a profile, with one user left out of everything, exactly.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts, made from profiles.
    ridge : Ridge, optional
        Made of the same profiles; by default it is fitted here.
    """

    def __init__(self, statistics: PrecedenceStatistics, ridge: Ridge | None = None) -> None:
        if statistics.interactions is None:
            raise InputError(
                "These counts were given without profiles: the learned measure needs profiles."
            )
        self.statistics = statistics
        self.ridge = Ridge.fit(statistics.interactions) if ridge is None else ridge
        self._facts = ItemFacts(statistics.interactions)
        self._nobody = self._facts.without(None)
        self._following = spans(statistics.interactions, "followers", statistics.ties)

    def of(
        self,
        history: NDArray[np.integer],
        *,
        without_user: int | None = None,
        columns: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """Give the features (rows) of every item, or of some (columns).

        Parameters
        ----------
        history : array of int
            Item codes in time order.
        without_user : int, optional
            A user whose own contribution is left out.
        columns : array of int, optional
            The items; by default all.
        """
        rows = ProfileRows(self.statistics, history, without_user)
        means = self._nobody if without_user is None else self._facts.without(without_user)
        age = np.arange(len(rows.history) - 1, -1, -1)
        recent = 0.5 ** (age / _HALF_LIFE)
        late = 0.5 ** (age / _LONG_HALF_LIFE)
        last = 0.5 ** (age / _SHORT_HALF_LIFE)
        sums = self._sums(rows, (recent / recent.sum()).astype(np.float32), columns)
        ridge = self.ridge.score(
            rows.history,
            np.stack((np.ones(len(age)), late, recent, last)),
            self._own(without_user),
            np.arange(self.statistics.n_items) if columns is None else columns,
        )
        near = self._near(rows, without_user)
        return _assemble(sums, means, rows, columns, ridge, near)

    def _own(self, user: int | None) -> NDArray[np.int64]:
        return np.sort(self.statistics.taken_by(user)[0]).astype(np.int64)

    def _near(self, rows: ProfileRows, without_user: int | None) -> NDArray[np.float32]:
        """Give for every item the share of users who took it soon after the last ones."""
        interactions = self.statistics.interactions
        assert interactions is not None  # noqa: S101  # checked when this was made
        last, support = rows.history[-_N_LAST:], rows.support[-_N_LAST:]
        parts = 1 / (np.maximum(support, 1) * float(max(len(last), 1)))
        own_end = -1 if without_user is None else int(interactions.offsets[without_user + 1])
        near = np.zeros((len(_WINDOWS), self.statistics.n_items), np.float32)
        following = self._following
        kernels.count_near(
            last,
            parts.astype(np.float32),
            _WINDOWS,
            own_end,
            following.offsets,
            following.starts,
            following.stops,
            following.items,
            near,
        )
        return near

    def _sums(
        self,
        rows: ProfileRows,
        recent: NDArray[np.float32],
        columns: NDArray[np.int64] | None,
    ) -> NDArray[np.float32]:
        def into(followers: Block, predecessors: Block) -> NDArray[np.float32]:
            sums = np.empty((kernels.N_SUMS, followers.matrix.shape[1]), np.float32)
            kernels.summarise_rows(
                _as_signed(followers.matrix),
                followers.picks,
                _as_signed(predecessors.matrix),
                predecessors.picks,
                rows.support,
                recent,
                _N_LAST,
                sums,
            )
            return sums

        if columns is not None:
            return into(rows.columns("followers", columns), rows.columns("predecessors", columns))
        sums = into(rows.block("followers"), rows.block("predecessors"))
        for own in rows.own_columns():
            sums[:, own] = into(rows.columns("followers", own), rows.columns("predecessors", own))
        return sums


def _as_signed(counts: NDArray[np.unsignedinteger]) -> NDArray[np.integer]:
    """Look at 32-bit counts as signed, which vector lanes turn into floats at once."""
    return counts.view(np.int32) if counts.dtype == np.uint32 else counts


def _assemble(
    sums: NDArray[np.float32],
    means: ItemMeans,
    rows: ProfileRows,
    columns: NDArray[np.int64] | None,
    ridge: NDArray[np.float64],
    near: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Bring sums to means, and put what is known of item and profile beside them."""
    if columns is not None:
        near = near[:, columns]
    m, n_users = max(len(rows.history), 1), max(rows.n_users, 1)
    n_last = min(m, _N_LAST)
    here = slice(None) if columns is None else columns
    support, place, time = (column[here] for column in means)
    popularity = np.log((support + 1) / (n_users + 1))
    length = 1 / np.sqrt(np.maximum(support, 1))
    share = sums[kernels.SHARE] / m
    count, back = sums[kernels.COUNT], sums[kernels.BACK]
    own_support, own_place, own_time = (column[rows.history] for column in means)
    out = np.empty((len(FEATURES), len(support)), np.float32)
    values = {
        "count": count / (m * n_users),
        "share": share,
        "recent_share": sums[kernels.RECENT_SHARE],
        "last_share": sums[kernels.LAST_SHARE] / n_last,
        "next": near[0],
        "soon": near[0] + near[1],
        "max_share": sums[kernels.HIGH_SHARE],
        "median_ratio": sums[kernels.MIDDLE_RATIO],
        "ratio": sums[kernels.RATIO] / m,
        "max_ratio": sums[kernels.HIGH_RATIO],
        "back_share": sums[kernels.BACK_SHARE] / m,
        "order": (count + 1) / (count + back + 2),
        "cosine": sums[kernels.COSINE] / m * length,
        "recent_cosine": sums[kernels.RECENT_COSINE] * length,
        "max_cosine": sums[kernels.HIGH_COSINE] * length,
        "lift": share * n_users / (support + 1),
        "support": popularity,
        "place": place,
        "place_ahead": place - own_place.mean(),
        "days_ahead": time - own_time.mean(),
        "length": m,
        "profile_support": np.log((own_support + 1) / (n_users + 1)).mean(),
        "ridge": ridge[0],
        "late_ridge": ridge[1],
        "recent_ridge": ridge[2],
        "last_ridge": ridge[3],
    }
    for row, name in enumerate(FEATURES):
        out[row] = values[name]
    out[np.abs(out) < _NOTHING] = 0.0
    return out
