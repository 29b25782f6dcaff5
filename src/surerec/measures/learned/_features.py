"""What the trees see of an item and a profile."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._threads import run_together
from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows
from surerec.measures.learned import _sums as summed
from surerec.measures.learned._items import ItemFacts, Near
from surerec.measures.learned._ridge import ForwardRidge, Ridge, RidgeQuery
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
    "count": "users who took it after an item of the profile, on average (CM4)",
    "share": "share of an item's takers who took it later, on average (CM8)",
    "recent_share": "share of takers who took it later, the latest items counting most",
    "last_share": "share of takers who took it later, over the last 5 items of the profile",
    "next": "share of the takers of the last 5 items for whom it was among the next 10",
    "soon": "share of the takers of the last 5 items for whom it was among the next 50",
    "max_share": "share of an item's takers who took it later, the largest (CM9)",
    "median_ratio": "share of those still free to take it who did, median (CM11)",
    "ratio": "share of those still free to take it who did, on average (CM12)",
    "max_ratio": "share of those still free to take it who did, the largest (CM13)",
    "back_share": "share of an item's takers who took it before, on average",
    "order": "how often it came after, of all the times it came before or after",
    "cosine": "similarity to the profile's items by who took them, on average",
    "recent_cosine": "similarity to the profile's items, the latest of them counting most",
    "max_cosine": "similarity to the most similar item of the profile",
    "lift": "how much more often it is taken after these items than by anybody",
    "support": "how many took it",
    "place": "where in their profile users take it",
    "place_ahead": "how much later than the profile's items users take it",
    "days_ahead": "how much newer it is than the profile's items",
    "length": "length of the profile",
    "profile_support": "how popular the profile's items are",
    "ridge": "what a ridge regression on the profile's items expects",
    "late_ridge": "what a ridge regression expects, later items counting more",
    "recent_ridge": "what a ridge regression expects, the latest items counting most",
    "last_ridge": "what a ridge regression expects of the last few items, hardly any other",
}
"""The features in order, each in words."""

_FORWARD: Final = {
    "forward_ridge": "what a ridge regression of later items on earlier ones expects",
    "late_forward_ridge": "what it expects of later items, those just before counting more",
    "recent_forward_ridge": "what it expects of later items, the latest before them counting most",
    "last_forward_ridge": "what it expects of later items by the last few, hardly any other",
}
_PREFERENCE: Final = {"preference": "what a matrix factorisation expects of the profile's items"}
EXTRAS: Final[dict[str, dict[str, str]]] = {
    "past to future": _FORWARD,
    "matrix factorisation": _PREFERENCE,
}
"""Features that are used only where users who were set aside gain by them, by ingredient."""


def in_words(extras: Sequence[str]) -> dict[str, str]:
    """Return all features in order, each in words, with those of some ingredients.

    Examples
    --------
    >>> len(in_words(())), list(in_words(["matrix factorisation"]))[-1]
    (26, 'preference')
    """
    return FEATURES | {name: words for each in extras for name, words in EXTRAS[each].items()}


def extras_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the ingredients whose features these are, beside the others.

    Examples
    --------
    >>> extras_of([*in_words(["past to future"])]), extras_of([*FEATURES])
    (('past to future',), ())
    """
    extras = tuple(each for each, more in EXTRAS.items() if not {*more}.isdisjoint(names))
    if [*names] != [*in_words(extras)]:
        raise InputError(
            "This learned measure has other features than this surerec computes: train it anew."
        )
    return extras


_HALF_LIVES: Final = (10.0, 40.0, 3.0)  # items after which an earlier one weighs half, by recency
_FORGOTTEN: Final = 1e-20  # what weighs less is nothing, as LightGBM takes it for in places
_ROUNDING: Final = 1e-6
"""Of what one user tells a ridge: less is what rounding leaves of nothing."""


class Asked(NamedTuple):
    """A profile whose features are asked for."""

    history: NDArray[np.integer]
    """Item codes in time order."""
    without: tuple[int, ...] = ()
    """The users whose own contribution is left out."""
    only: Collection[str] = tuple(EXTRAS)
    """The ingredients whose features are looked at; those of others are 0."""


class _PlacedRidge(NamedTuple):
    """A ridge, and where its features stand."""

    ridge: BaseRidge
    ingredient: str
    """Whose features they are; empty for none."""
    rows: slice
    fewest: int
    """How many users consumed each item that it knows, at the least."""


class _Profile(NamedTuple):
    """A profile, who is left out, and what that makes of the items."""

    rows: ProfileRows
    history: NDArray[np.int64]
    """Where ridges have the profile's items."""
    without: tuple[int, ...]
    """The users who are left out, of those who were there when all was counted."""
    consumed: list[NDArray[np.uint32]]
    """What each of them took, in time order."""
    then: ItemMeans
    """Of every item, when all was counted."""
    means: ItemMeans
    weights: NDArray[np.float32]
    """Of the profile's items by recency; they sum to 1."""
    by_age: NDArray[np.float64]
    """Four weightings of them for a ridge."""


class Features:
    """The features of items for a profile, with some users left out of everything, exactly.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts, made from profiles. If they have grown since they were counted whole, counts and
        support are of now, and all else is of then: who took what soon after, places, days and the
        ridge.
    ridge : Ridge, optional
        Made of the same profiles; by default it is fitted here.
    extras : sequence of str, optional
        The ingredients of :data:`EXTRAS` whose features come after the others, in that order.
    forward : ForwardRidge, optional
        Made of the same profiles; by default it is fitted here if it is one of the ingredients.
    factors : Factorisation, optional
        Of the same profiles; without it, a matrix factorisation among the ingredients says nothing.
    """

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        ridge: Ridge | None = None,
        extras: Sequence[str] = (),
        forward: ForwardRidge | None = None,
        factors: Factorisation | None = None,
    ) -> None:
        self.statistics = statistics
        self._counted = statistics = statistics.counted  # all but counts is of then
        self._interactions = statistics.require_profiles("the learned measure needs profiles")
        # Ridges know the most popular items. Codes are in that order, but for parts of other data.
        in_order = np.array_equal(statistics.popularity, np.arange(statistics.n_items))
        self._places = None if in_order else statistics.popularity
        popular_first = _recoded(statistics.interactions, self._places)
        self.ridge = Ridge.fit(popular_first) if ridge is None else ridge
        self._facts = ItemFacts(statistics.interactions)
        self._nobody = self._facts.without(())
        self._soon = Near(spans(statistics.interactions, "followers", statistics.ties))
        if forward is None and "past to future" in extras:
            forward = ForwardRidge.fit(popular_first)
        self.forward, self.factors = forward, factors
        self.in_words = in_words(extras)
        """The features in order, each in words."""
        # The slower one first, so that threads end together.
        placed = ("forward_ridge", "past to future", forward), ("ridge", "", self.ridge)
        self._ridges = [
            _PlacedRidge(each, which, self._rows_of(name), self._least_support(each.n_items))
            for name, which, each in placed
            if each is not None
        ]

    def of(
        self,
        history: NDArray[np.integer],
        *,
        without: tuple[int, ...] = (),
        columns: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """Return the features (rows) of every item, or of some (columns).

        Parameters
        ----------
        history : array of int
            Item codes in time order.
        without : tuple of int, default=()
            The users whose own contribution is left out.
        columns : array of int, optional
            The items; by default all.
        """
        return next(self.of_many([Asked(history, without)], columns))

    def of_many(
        self, asked: Sequence[Asked], columns: NDArray[np.int64] | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the features of each that is asked for; what ridges expect is found together."""
        profiles = [self._profile(each) for each in asked]
        shape = len(self.in_words), self.statistics.n_items if columns is None else len(columns)
        expected: list[list[tuple[slice, NDArray[np.float64]]]] = [[] for _ in asked]

        def regress(which: _PlacedRidge) -> None:
            those = [k for k, each in enumerate(asked) if which.ingredient in ("", *each.only)]
            if not those:
                return
            found = self._expected(which.ridge, [profiles[k] for k in those], columns)
            for k, scores in zip(those, found, strict=True):
                expected[k].append((which.rows, scores))

        run_together(regress, self._ridges)
        for each, profile, of_ridges in zip(asked, profiles, expected, strict=True):
            features = np.zeros(shape, np.float32)
            while of_ridges:  # each is let go once it is used
                rows, scores = of_ridges.pop()
                features[rows] = scores
            self._fill(profile, columns, each.only, features)
            yield features

    def _fill(
        self,
        profile: _Profile,
        columns: NDArray[np.int64] | None,
        only: Collection[str],
        found: NDArray[np.float32],
    ) -> None:
        """Write all features but those of ridges, which are there."""
        rows, here, out = profile.rows, profile.means, profile.rows.left_out
        if columns is None:
            sources = rows.source("followers"), rows.source("predecessors")
        else:
            sources = (
                of_matrix(rows.columns("followers", columns)),
                of_matrix(rows.columns("predecessors", columns)),
            )
            here, out = here.at(columns), out.for_nobody()
        sums, jobs = sums_in_parts(*sources, out, profile.weights, found.shape[1])

        def look_near() -> None:
            near = self._near(profile, columns)
            found[self._rows_of("next", 2)] = near[0], near[0] + near[1]

        jobs.append(look_near)
        if (factors := self.factors) is not None and "matrix factorisation" in only:

            def prefer() -> None:
                preferred = self._preference(factors, rows.history, profile.without)
                found[-1] = preferred if columns is None else preferred[columns]

            jobs.append(prefer)
        run_together(_call, jobs)
        _assemble(sums, here, profile.means.at(rows.history), rows.n_users, found)
        self._clear(profile, found, columns)

    def _profile(self, asked: Asked) -> _Profile:
        """Look up what is known of a profile, and of the items without some users."""
        history, without, _ = asked
        if not len(history):
            raise InputError("The history is empty: it needs at least one item.")
        rows = ProfileRows(self.statistics, history, without)
        known = tuple(user for user in without if user < self._counted.n_user_codes)
        means = then = self._facts.without(known) if known else self._nobody
        if self.statistics is not self._counted:
            then = then.padded(self.statistics.n_items)
            means = then._replace(support=rows.support_of_all().astype(np.int64))
        age = np.arange(len(rows.history) - 1, -1, -1)
        recent, late, last = (0.5 ** (age / half) for half in _HALF_LIVES)
        weights = np.where(recent < _FORGOTTEN, 0.0, recent / recent.sum()).astype(np.float32)
        by_age = np.stack((np.ones(len(age)), late, recent, last))
        consumed = [self._counted.consumed_by(user)[0] for user in known]
        placed = self._placed(rows.history)
        return _Profile(rows, placed, known, consumed, then, means, weights, by_age)

    def _placed(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return where ridges have items; what has come since they were fitted is behind all."""
        known = codes.astype(np.int64)
        if self._places is None:
            return known
        new = known >= len(self._places)
        return np.where(new, known, self._places[np.where(new, 0, known)])

    def _expected(
        self, ridge: BaseRidge, profiles: Sequence[_Profile], columns: NDArray[np.int64] | None
    ) -> list[NDArray[np.float64]]:
        """Return what a ridge expects of items for each profile, in the order of the codes."""
        queries = [
            RidgeQuery(each.history, each.by_age, [self._placed(items) for items in each.consumed])
            for each in profiles
        ]
        n_items = self.statistics.n_items
        if columns is None and self._places is not None:
            columns = np.arange(n_items)
        return ridge.score(queries, n_items, None if columns is None else self._placed(columns))

    def _near(self, profile: _Profile, columns: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Return the share of the takers of the last items who took each item soon after."""
        last, support = profile.rows.history[-N_LAST:], profile.then.support
        parts = (1 / (np.maximum(support[last], 1) * float(len(last)))).astype(np.float32)
        own_ends = self._interactions.offsets[1:][np.array(profile.without, dtype=np.int64)]
        there = last < self._counted.n_items
        n_items = self.statistics.n_items
        return self._soon.shares(last[there], parts[there], own_ends, columns, n_items)

    def _preference(
        self, factors: Factorisation, history: NDArray[np.int64], users: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Return what factors expect that were trained without some users, who share a fold."""
        found, n_then = np.zeros(self.statistics.n_items), self._counted.n_items
        known = history[history < n_then]  # what is new since they were trained has no factors
        if len(known):
            found[:n_then] = factors.score(factors.fold_for(users, history), known)
        return found

    def _clear(
        self, profile: _Profile, found: NDArray[np.float32], columns: NDArray[np.int64] | None
    ) -> None:
        """Set to 0 what ridges would not expect had the users left out never been there."""
        least = np.float32(_ROUNDING / max(self._counted.n_users, 1))
        for ridge in self._ridges:
            rows = found[ridge.rows]
            rows[np.abs(rows) < least] = 0.0
            own = [items[profile.then.support[items] < ridge.fewest] for items in profile.consumed]
            rare = np.concatenate([np.empty(0, np.int64), *own])
            if len(rare):
                rows[:, rare if columns is None else np.isin(columns, rare)] = 0.0

    def _least_support(self, n_known: int) -> int:
        """Return how many users consumed each item that a ridge knows, at the least."""
        support = self._nobody.support
        if not 0 < n_known < len(support):
            return 0
        return int(np.partition(support, len(support) - n_known)[len(support) - n_known])

    def _rows_of(self, name: str, n: int = 4) -> slice:
        """Return where features stand: as many from one on, by default those of a ridge."""
        first = [*self.in_words].index(name)
        return slice(first, first + n)


def _call(job: Callable[[], None]) -> None:
    job()


def _assemble(
    sums: NDArray[np.float32],
    here: ItemMeans,
    own: ItemMeans,
    n_users: int,
    out: NDArray[np.float32],
) -> None:
    """Write the features that come from sums over rows and from what is known of items.

    `here` are the means of the columns' items, `own` those of the profile's.
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
    """Return the same profiles with items under other codes."""
    if places is None:
        return interactions
    recoded = copy(interactions)
    recoded.item_codes = places[interactions.item_codes].astype(np.uint32)
    return recoded
