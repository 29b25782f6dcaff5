"""Features of items for a profile."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._threads import run_together
from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows
from surerec.measures.learned import _sums as summed
from surerec.measures.learned._items import ItemSums, WindowCounts
from surerec.measures.learned._ridge import ForwardRidge, Ridge, RidgeQuery
from surerec.measures.learned._sequence import STRENGTHS, SequentialRidge
from surerec.measures.learned._sums import N_LAST, sums_in_parts
from surerec.precedence import of_matrix, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures.als import Factorisation
    from surerec.measures.learned._items import ItemMeans
    from surerec.measures.learned._ridge import BaseRidge
    from surerec.precedence import PrecedenceStatistics


FEATURES: Final[dict[str, str]] = {
    "count": "users who consumed it after an item of the profile, mean (CM4)",
    "share": "share of an item's consumers who consumed it later, mean (CM8)",
    "recent_share": "share of consumers who consumed it later, latest items weighted most",
    "last_share": "share of consumers who consumed it later, last 5 items of the profile",
    "next": "share of the last 5 items' consumers who had it among their next 10",
    "soon": "share of the last 5 items' consumers who had it among their next 50",
    "max_share": "share of an item's consumers who consumed it later, maximum (CM9)",
    "median_ratio": "share of those who had not consumed it before and did later, median (CM11)",
    "ratio": "share of those who had not consumed it before and did later, mean (CM12)",
    "max_ratio": "share of those who had not consumed it before and did later, maximum (CM13)",
    "back_share": "share of an item's consumers who consumed it before, mean",
    "order": "share of the times that it came after an item of the profile, not before",
    "cosine": "cosine similarity to the profile's items, mean",
    "recent_cosine": "cosine similarity to the profile's items, latest items weighted most",
    "max_cosine": "cosine similarity to the most similar item of the profile",
    "lift": "lift: consumption after these items relative to its popularity",
    "support": "popularity of the item",
    "place": "position in users' profiles",
    "place_ahead": "position in users' profiles, relative to the profile's items",
    "days_ahead": "days by which it is newer than the profile's items",
    "length": "length of the profile",
    "profile_support": "popularity of the profile's items",
    "ridge": "prediction of a ridge regression on the profile's items",
    "late_ridge": "prediction of a ridge regression, later items weighted more",
    "recent_ridge": "prediction of a ridge regression, latest items weighted most",
    "last_ridge": "prediction of a ridge regression on the last few items",
}
"""Description of each feature, in order."""

_FORWARD: Final = {
    "forward_ridge": "prediction of a ridge regression of later items on earlier items",
    "late_forward_ridge": "the same prediction, later items weighted more",
    "recent_forward_ridge": "the same prediction, latest items weighted most",
    "last_forward_ridge": "the same prediction from the last few items",
}
_PREFERENCE: Final = {"preference": "prediction of a matrix factorisation from the profile's items"}
_SEQUENCE: Final = {
    "sequence": "prediction of a ridge regression of the next items on the latest",
    "long_sequence": "the same prediction of more next items, from more of the profile",
    "follows": "share of the last item's consumers who consumed it next",
    "follows_soon": "share of the last item's consumers who had it among their next 3",
    "follows_later": "share of the last item's consumers who had it among their next 10",
    "max_follows": "share of consumers who consumed it next, maximum over the last 5 items",
    "max_follows_soon": "share of consumers who had it among their next 3, maximum over the last 5",
    "max_follows_later": "share of consumers who had it among their next 10, maximum over these",
    "mean_follows": "share of consumers who consumed it next, mean over the last 5 items",
    "mean_follows_soon": "share of consumers who had it among their next 3, mean over the last 5",
}
EXTRAS: Final[dict[str, dict[str, str]]] = {
    "sequence": _SEQUENCE,
    "past to future": _FORWARD,
    "matrix factorisation": _PREFERENCE,
}
"""Optional features by component, used only where validation users gain by them."""


def describe_features(extras: Sequence[str]) -> dict[str, str]:
    """Return the description of each feature, with the optional features of some components.

    Examples
    --------
    >>> len(describe_features(())), list(describe_features(["matrix factorisation"]))[-1]
    (26, 'preference')
    """
    return FEATURES | {name: words for each in extras for name, words in EXTRAS[each].items()}


def extras_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the components whose optional features are among some names.

    Examples
    --------
    >>> extras_of([*describe_features(["past to future"])]), extras_of([*FEATURES])
    (('past to future',), ())
    """
    extras = tuple(each for each, more in EXTRAS.items() if not {*more}.isdisjoint(names))
    if [*names] != [*describe_features(extras)]:
        raise InputError(
            "The features of this learned model differ from those of this version of surerec. "
            "Train the model again."
        )
    return extras


_HALF_LIVES: Final = (10.0, 40.0, 3.0)  # in items: late, recent and last weights
_FORGOTTEN: Final = 1e-20  # smaller weights are 0, as LightGBM treats them so in places
_MORE_CONSUMERS: Final = 3  # shrinks the shares of a rare last item
_ROUNDING: Final = 1e-6
"""Smallest effect of one user on a ridge regression; less is a rounding error of 0."""


class FeatureQuery(NamedTuple):
    """A profile to compute features for."""

    history: NDArray[np.integer]
    """Item codes in time order."""
    without: tuple[int, ...] = ()
    """Users whose own contribution is left out."""
    only: Collection[str] = tuple(EXTRAS)
    """Components whose features are needed; those of others are 0."""


class _PlacedRidge(NamedTuple):
    """A ridge regression and the rows of its features."""

    ridge: BaseRidge
    component: str
    """Component of the features; empty for basic features."""
    rows: slice
    fewest: int
    """Lowest support of the items of the regression."""


class _Profile(NamedTuple):
    """A profile, the users left out, and the statistics of the items without them."""

    rows: ProfileRows
    history: NDArray[np.int64]
    """Positions of the profile's items in ridge regressions."""
    without: tuple[int, ...]
    """Users left out, of those in the full count."""
    consumed: list[NDArray[np.uint32]]
    """Items of each user left out, in time order."""
    then: ItemMeans
    """Means of every item at the full count."""
    means: ItemMeans
    weights: NDArray[np.float32]
    """Recency weights of the profile's items; they sum to 1."""


class Features:
    """Computes the features of items for a profile, with some users left out exactly.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        Precedence counts with profiles. If they have grown since the full count, counts and support
        are current. All other features are those of the full count.
    ridge : Ridge, optional
        Ridge regression on the same profiles; fitted by default.
    extras : sequence of str, optional
        Components of :data:`EXTRAS` whose features follow the basic ones, in that order.
    forward : ForwardRidge, optional
        Forward ridge regression on the same profiles; fitted by default if it is a component.
    factors : Factorisation, optional
        Matrix factorisation of the same profiles; without it, its feature is 0.
    sequence : sequence of SequentialRidge, optional
        Sequential ridge regressions on the same profiles, one per decay of ``STRENGTHS``; fitted by
        default if they are a component.
    """

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        ridge: Ridge | None = None,
        extras: Sequence[str] = (),
        forward: ForwardRidge | None = None,
        factors: Factorisation | None = None,
        sequence: Sequence[SequentialRidge] = (),
    ) -> None:
        self.statistics = statistics
        self._counted = statistics = statistics.counted  # at the last full count
        self._interactions = statistics.require_profiles("the learned measure needs profiles")
        # Ridge regressions hold the most popular items. Subsets of other data have another order.
        in_order = np.array_equal(statistics.popularity, np.arange(statistics.n_items))
        self._places = None if in_order else statistics.popularity
        popular_first = _recoded(statistics.interactions, self._places)
        self.ridge = Ridge.fit(popular_first) if ridge is None else ridge
        self._item_sums = ItemSums(statistics.interactions)
        self._all_means = self._item_sums.without(())
        self._window_counts = WindowCounts(
            spans(statistics.interactions, "followers", statistics.ties)
        )
        if forward is None and "past to future" in extras:
            forward = ForwardRidge.fit(popular_first)
        if not sequence and "sequence" in extras:
            sequence = [SequentialRidge.fit(popular_first, decay=decay) for decay in STRENGTHS]
        self.sequence, self.forward, self.factors = sequence, forward, factors
        self.descriptions = describe_features(extras)
        # The slower one first, so that threads end together.
        placed = (
            ("forward_ridge", "past to future", forward, 4),
            *((name, "sequence", each, 1) for name, each in zip(_SEQUENCE, sequence, strict=False)),
            ("ridge", "", self.ridge, 4),
        )
        self._ridges = [
            _PlacedRidge(each, which, self._rows_of(name, n), self._least_support(each.n_items))
            for name, which, each, n in placed
            if each is not None
        ]

    def of(
        self,
        history: NDArray[np.integer],
        *,
        without: tuple[int, ...] = (),
        columns: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """Return the features (rows) of every item or of some items (columns).

        Parameters
        ----------
        history : array of int
            Item codes in time order.
        without : tuple of int, default=()
            Users whose own contribution is left out.
        columns : array of int, optional
            Item codes; by default all.
        """
        return next(self.of_many([FeatureQuery(history, without)], columns))

    def of_many(
        self, queries: Sequence[FeatureQuery], columns: NDArray[np.int64] | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the features of each query; ridge regressions score all queries together."""
        profiles = [self._profile(query) for query in queries]
        shape = len(self.descriptions), self.statistics.n_items if columns is None else len(columns)
        expected: list[list[tuple[slice, NDArray[np.float64]]]] = [[] for _ in queries]

        def regress(which: _PlacedRidge) -> None:
            places = [k for k, query in enumerate(queries) if which.component in ("", *query.only)]
            if not places:
                return
            found = self._expected(which.ridge, [profiles[k] for k in places], columns)
            for k, scores in zip(places, found, strict=True):
                expected[k].append((which.rows, scores))

        regressions: list[Callable[[], None]] = [partial(regress, each) for each in self._ridges]
        for query, profile, of_ridges in zip(queries, profiles, expected, strict=True):
            features = np.zeros(shape, np.float32)
            jobs, finish = self._fill(profile, columns, query.only, features)
            run_together(_call, [*regressions, *jobs])
            regressions.clear()
            while of_ridges:  # frees each array once it is used
                rows, scores = of_ridges.pop()
                features[rows] = scores
            finish()
            yield features

    def likely(self, history: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Return `n` items outside a history, those that the sequential ridge predicts most."""
        if not n or not self.sequence:
            return history[:0]
        query = _query(self.sequence[0], self._placed(history), [])
        scores = self._scores(self.sequence[0], [query], None)[0][0]
        scores[history] = -np.inf
        return np.argpartition(scores, -n)[-n:]

    def _fill(
        self,
        profile: _Profile,
        columns: NDArray[np.int64] | None,
        only: Collection[str],
        found: NDArray[np.float32],
    ) -> tuple[list[Callable[[], None]], Callable[[], None]]:
        """Return jobs that write all features except those of ridge regressions, and the end."""
        rows, here, out = profile.rows, profile.means, profile.rows.left_out
        if columns is None:
            sources = rows.source("followers"), rows.source("predecessors")
        else:
            sources = (
                of_matrix(rows.columns("followers", columns)),
                of_matrix(rows.columns("predecessors", columns)),
            )
            here, out = here.at(columns), out.without_own()
        sums, jobs = sums_in_parts(*sources, out, profile.weights, found.shape[1])

        def fill_windows() -> None:
            consumers, counts = self._after_last(profile, columns)
            parts = (1 / (np.maximum(consumers, 1) * float(len(counts)))).astype(np.float32)
            shares = np.zeros(counts.shape[1:], np.float32)
            for part, each in zip(parts, counts, strict=True):
                shares += part * each
            found[self._rows_of("next", 2)] = shares[:3].sum(axis=0), shares.sum(axis=0)
            if self.sequence and "sequence" in only:
                within = counts[:, :3].copy()
                for window in (1, 2):  # cumsum takes ten times as long along this axis
                    within[:, window] += within[:, window - 1]
                within /= (consumers + _MORE_CONSUMERS).astype(np.float32)[:, None, None]
                rows = *within[-1], *within.max(axis=0), *within[:, :2].mean(axis=0)
                found[self._rows_of("follows", len(rows))] = rows

        jobs.append(fill_windows)
        if (factors := self.factors) is not None and "matrix factorisation" in only:

            def factorise() -> None:
                predicted = self._preference(factors, rows.history, profile.without)
                found[-1] = predicted if columns is None else predicted[columns]

            jobs.append(factorise)

        def finish() -> None:
            _assemble(sums, here, profile.means.at(rows.history), rows.n_users, found)
            self._clear(profile, found, columns)

        return jobs, finish

    def _profile(self, query: FeatureQuery) -> _Profile:
        """Look up the rows of a profile and the statistics of items without some users."""
        history, without, _ = query
        if not len(history):
            raise InputError("The history is empty. Pass at least one item.")
        rows = ProfileRows(self.statistics, history, without)
        known = tuple(user for user in without if user < self._counted.n_user_codes)
        means = then = self._item_sums.without(known) if known else self._all_means
        if self.statistics is not self._counted:
            then = then.padded(self.statistics.n_items)
            means = then._replace(support=rows.support_of_all().astype(np.int64))
        age = np.arange(len(rows.history) - 1, -1, -1)
        recent = 0.5 ** (age / _HALF_LIVES[0])
        weights = np.where(recent < _FORGOTTEN, 0.0, recent / recent.sum()).astype(np.float32)
        consumed = [self._counted.consumed_by(user)[0] for user in known]
        placed = self._placed(rows.history)
        return _Profile(rows, placed, known, consumed, then, means, weights)

    def _placed(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the positions of items in ridge regressions; newer items come last."""
        known = codes.astype(np.int64)
        if self._places is None:
            return known
        new = known >= len(self._places)
        return np.where(new, known, self._places[np.where(new, 0, known)])

    def _expected(
        self, ridge: BaseRidge, profiles: Sequence[_Profile], columns: NDArray[np.int64] | None
    ) -> list[NDArray[np.float64]]:
        """Return the predictions of a ridge regression for each profile, in the order of codes."""
        own = ([self._placed(items) for items in each.consumed] for each in profiles)
        queries = [
            _query(ridge, each.history, out) for each, out in zip(profiles, own, strict=True)
        ]
        return self._scores(ridge, queries, columns)

    def _scores(
        self, ridge: BaseRidge, queries: list[RidgeQuery], columns: NDArray[np.int64] | None
    ) -> list[NDArray[np.float64]]:
        """Return the scores of a ridge regression in the order of codes."""
        n_items = self.statistics.n_items
        if columns is None and self._places is not None:
            columns = np.arange(n_items)
        return ridge.score(queries, n_items, None if columns is None else self._placed(columns))

    def _after_last(
        self, profile: _Profile, columns: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the consumers of each of the last items, and their counts after it by window."""
        last = profile.rows.history[-N_LAST:].astype(np.int64)
        own_ends = self._interactions.offsets[1:][np.array(profile.without, dtype=np.int64)]
        n_items = self.statistics.n_items
        counts = self._window_counts.after(last, own_ends, columns, n_items)
        return profile.then.support[last], counts

    def _preference(
        self, factors: Factorisation, history: NDArray[np.int64], users: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Return predictions of factors trained without some users, who share a fold."""
        found, n_then = np.zeros(self.statistics.n_items), self._counted.n_items
        known = history[history < n_then]  # newer items have no factors
        if len(known):
            found[:n_then] = factors.score(factors.fold_for(users, history), known)
        return found

    def _clear(
        self, profile: _Profile, found: NDArray[np.float32], columns: NDArray[np.int64] | None
    ) -> None:
        """Set to 0 what ridge regressions would not predict without the users left out."""
        least = np.float32(_ROUNDING / max(self._counted.n_users, 1))
        for ridge in self._ridges:
            rows = found[ridge.rows]
            rows[np.abs(rows) < least] = 0.0
            own = [items[profile.then.support[items] < ridge.fewest] for items in profile.consumed]
            rare = np.concatenate([np.empty(0, np.int64), *own])
            if len(rare):
                rows[:, rare if columns is None else np.isin(columns, rare)] = 0.0

    def _least_support(self, n_known: int) -> int:
        """Return the lowest support of the items of a ridge regression."""
        support = self._all_means.support
        if not 0 < n_known < len(support):
            return 0
        return int(np.partition(support, len(support) - n_known)[len(support) - n_known])

    def _rows_of(self, name: str, n: int) -> slice:
        """Return the rows of `n` features from one on."""
        first = [*self.descriptions].index(name)
        return slice(first, first + n)


def _query(
    ridge: BaseRidge, history: NDArray[np.int64], own: Sequence[NDArray[np.int64]]
) -> RidgeQuery:
    """Return the query of a history, with all weightings that are features."""
    age = np.arange(len(history) - 1, -1, -1)
    if isinstance(ridge, SequentialRidge):
        return RidgeQuery(history, ridge.decay.of_past(age)[None], own)
    recent, late, last = (0.5 ** (age / half) for half in _HALF_LIVES)
    return RidgeQuery(history, np.stack((np.ones(len(age)), late, recent, last)), own)


def _call(job: Callable[[], None]) -> None:
    job()


def _assemble(
    sums: NDArray[np.float32],
    here: ItemMeans,
    own: ItemMeans,
    n_users: int,
    out: NDArray[np.float32],
) -> None:
    """Write the features from sums over rows and from item means.

    `here` has the means of the columns' items, `own` those of the profile's items.
    """
    support, place, time = here
    m, n_users = len(own.support), max(n_users, 1)
    length = 1 / np.sqrt(np.maximum(support, 1))
    share, (count, back) = sums[summed.SHARE] / m, sums[[summed.COUNT, summed.BACK]]
    found: dict[str, NDArray[np.floating] | float] = {
        "count": count / (m * n_users),
        "share": share,
        "recent_share": sums[summed.RECENT_SHARE],
        "last_share": sums[summed.LAST_SHARE] / min(m, N_LAST),
        "max_share": sums[summed.HIGH_SHARE],
        "median_ratio": sums[summed.MIDDLE_RATIO],
        "ratio": sums[summed.RATIO] / m,
        "max_ratio": sums[summed.HIGH_RATIO],
        "back_share": sums[summed.BACK_SHARE] / m,
        "order": (count + 1) / (count + back + 2),
        "cosine": sums[summed.COSINE] / m * length,
        "recent_cosine": sums[summed.RECENT_COSINE] * length,
        "max_cosine": sums[summed.HIGH_COSINE] * length,
        "lift": share * n_users / (support + 1),
        "support": np.log((support + 1) / (n_users + 1)),
        "place": place,
        "place_ahead": place - own.place.mean(),
        "days_ahead": time - own.time.mean(),
        "length": float(m),
        "profile_support": float(np.log((own.support + 1) / (n_users + 1)).mean()),
    }
    for row, name in zip(out, FEATURES, strict=False):
        if name in found:
            row[:] = found[name]


def _recoded(interactions: Interactions, places: NDArray[np.int64] | None) -> Interactions:
    """Return the profiles with other item codes."""
    if places is None:
        return interactions
    recoded = copy(interactions)
    recoded.item_codes = places[interactions.item_codes].astype(np.uint32)
    return recoded
