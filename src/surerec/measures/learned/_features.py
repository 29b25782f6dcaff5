"""What the trees see of an item and a profile."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._threads import run_together
from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows
from surerec.measures.learned._asked import Asked, Person
from surerec.measures.learned._assembling import N_LAST, assemble, clear_nothing, sums_in_parts
from surerec.measures.learned._forward import FORWARD, ForwardRidge
from surerec.measures.learned._items import ItemFacts
from surerec.measures.learned._near import Near
from surerec.measures.learned._offered import EXTRAS, in_words
from surerec.measures.learned._preference import PREFERENCE
from surerec.measures.learned._ridge import Ridge
from surerec.precedence import of_matrix, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures.als import Factorisation
    from surerec.precedence import PrecedenceStatistics

    _Job = Callable[[], None]
    _Part = Callable[[], NDArray[np.float64]]


_NOTHING: Final = np.float32(1e-30)  # LightGBM takes what is nearer to 0 for 0 in places, so we do
_ROUNDING: Final = 1e-6
"""Of what one user tells a ridge: less is what rounding leaves of nothing."""


def _recoded(interactions: Interactions, places: NDArray[np.int64] | None) -> Interactions:
    """Return the same profiles with items under other codes."""
    if places is None:
        return interactions
    recoded = copy(interactions)
    recoded.items_taken = places[interactions.items_taken].astype(np.uint32)
    return recoded


def _call(job: _Job) -> None:
    job()


def _run_in_turn(task: Callable[[_Job], object], jobs: Sequence[_Job]) -> None:
    for job in jobs:
        task(job)


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
        self._following = spans(statistics.interactions, "followers", statistics.ties)
        self._soon = Near(self._following)
        if forward is None and "past to future" in extras:
            forward = ForwardRidge.fit(popular_first)
        self.forward, self.factors = forward, factors
        self.in_words = in_words(extras)
        n_usual = len(in_words(()))
        self._of_ridges = [(slice(n_usual - 4, n_usual), self._least_support(self.ridge.n_items))]
        if forward is not None:
            self._of_ridges += [(self._places_of(FORWARD), self._least_support(forward.n_items))]
        """Where the features of each ridge stand, and how many users consumed what it knows."""

    def of(
        self,
        history: NDArray[np.integer],
        *,
        without: tuple[int, ...] = (),
        columns: NDArray[np.int64] | None = None,
        only: Sequence[str] | None = None,
        in_threads: bool = False,
    ) -> NDArray[np.float32]:
        """Give the features (rows) of every item, or of some (columns).

        Parameters
        ----------
        history : array of int
            Item codes in time order.
        without : tuple of int, default=()
            The users whose own contribution is left out.
        columns : array of int, optional
            The items; by default all.
        only : sequence of str, optional
            The ingredients whose features are looked at; those of others are 0. By default all.
        in_threads : bool, default=False
            Whether other threads may help where every item is asked for.
        """
        asked = self._asked(Person(history, without))
        rows, means = asked.rows, asked.means
        wanted = EXTRAS if only is None else only
        if columns is None:
            return self._of_all(asked, wanted, *self._ridges(asked, wanted), in_threads=in_threads)
        near = self._near(asked, columns)
        blocks = rows.columns("followers", columns), rows.columns("predecessors", columns)
        both, nobody = (of_matrix(*blocks[0]), of_matrix(*blocks[1])), rows.left_out.for_nobody()
        sums, to_do = sums_in_parts(*both, nobody, asked.weights, len(columns))
        for part in to_do:
            part()
        found = np.zeros((len(self.in_words), len(columns)), np.float32)
        ranked = self._placed(columns)
        ridge = self.ridge.score(*asked.by_code, ranked)
        assemble(sums, means.at(columns), means, rows, ridge, near, found)
        if self.forward is not None and "past to future" in wanted:
            found[self._places_of(FORWARD)] = self.forward.score(*asked.in_order, ranked)
        if self.factors is not None and "matrix factorisation" in wanted:
            found[self._places_of(PREFERENCE)] = self._preference(rows.history, without)[columns]
        return self._cleared(asked, found, columns)

    def of_many(
        self, people: Sequence[Person], only: Sequence[Container[str]]
    ) -> Iterator[NDArray[np.float32]]:
        """Give what :meth:`of` gives of every item, for one person after the other."""
        asked, n_items = [self._asked(person) for person in people], self.statistics.n_items
        ridge = self.ridge.score_many([each.by_code for each in asked], n_items)
        some = [place for place, wanted in enumerate(only) if "past to future" in wanted]
        ahead: dict[int, _Part] = {}
        if self.forward is not None and some:
            expected = self.forward.score_many([asked[place].in_order for place in some], n_items)
            ahead = {place: partial(expected.__getitem__, row) for row, place in enumerate(some)}
        for place, each in enumerate(asked):
            expect = partial(ridge.__getitem__, place)
            yield self._of_all(each, only[place], expect, ahead.get(place), in_threads=False)

    def _placed(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return where ridges have items; what has come since they were fitted is behind all."""
        known = codes.astype(np.int64)
        if self._places is None:
            return known
        new = known >= len(self._places)
        return np.where(new, known, self._places[np.where(new, 0, known)])

    def _ridges(self, asked: Asked, wanted: Container[str]) -> tuple[_Part, _Part | None]:
        """Give what is to be called for what each ridge expects of one person."""
        ridge, forward, n_items = self.ridge, self.forward, self.statistics.n_items

        def expect() -> NDArray[np.float64]:
            return ridge.score_all(*asked.by_code, n_items)

        if forward is None or "past to future" not in wanted:
            return expect, None
        return expect, lambda: forward.score_all(*asked.in_order, n_items)

    def _asked(self, person: Person) -> Asked:
        """Look up what is known of a person, and of the items without some users."""
        history, without = person
        if not len(history):
            raise InputError("The history is empty: it needs at least one item.")
        rows = ProfileRows(self.statistics, history, without)
        then = self._facts.without(self._known(without)) if without else self._nobody
        means = then
        if self.statistics is not self._counted:
            then = then.padded(self.statistics.n_items)
            means = then._replace(support=rows.support_of_all().astype(np.int64))
        taken = [self._placed(items) for items in self._taken(without)]
        return Asked.of(rows, self._placed(rows.history), without, taken, then, means)

    def _of_all(
        self,
        asked: Asked,
        wanted: Container[str],
        expect: _Part,
        ahead: _Part | None,
        *,
        in_threads: bool,
    ) -> NDArray[np.float32]:
        """Give the features of every item, their parts computed side by side.

        The ridges say what they `expect`, and from past to future `ahead`, if that is looked at.
        """
        rows, n_items, history = asked.rows, self.statistics.n_items, asked.rows.history
        found = np.zeros((len(self.in_words), n_items), np.float32)
        both = rows.source("followers"), rows.source("predecessors")
        sums, to_do = sums_in_parts(*both, rows.left_out, asked.weights, n_items)
        ridge: list[NDArray[np.float64]] = []
        near: list[NDArray[np.float32]] = []

        def regress() -> None:
            ridge.append(self._by_code(expect()))

        def look_near() -> None:
            near.append(self._near(asked, None))

        def look_ahead(part: _Part) -> None:
            found[self._places_of(FORWARD)] = self._by_code(part())

        def prefer() -> None:
            found[self._places_of(PREFERENCE)] = self._preference(history, asked.without)

        # What takes longest comes first, so that threads end together.
        jobs: list[_Job] = [regress, *to_do, look_near]
        if ahead is not None:
            jobs.insert(0, partial(look_ahead, ahead))
        if self.factors is not None and "matrix factorisation" in wanted:
            jobs.append(prefer)
        (run_together if in_threads else _run_in_turn)(_call, jobs)
        assemble(sums, asked.means, asked.means, rows, ridge[0], near[0], found)
        return self._cleared(asked, found, None)

    def _by_code(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a ridge says of every item in the order of the codes."""
        if self._places is None:
            return scores
        return scores[:, self._placed(np.arange(scores.shape[1]))]

    def _cleared(
        self, asked: Asked, found: NDArray[np.float32], columns: NDArray[np.int64] | None
    ) -> NDArray[np.float32]:
        """Set to 0 what would be 0 had the users left out never been there."""
        clear_nothing(found, _NOTHING)
        for places, least in self._of_ridges:
            rows = found[places]
            clear_nothing(rows, np.float32(_ROUNDING / max(self._counted.n_users, 1)))
            own = [items[asked.then.support[items] < least] for items in self._taken(asked.without)]
            rare = np.concatenate([np.empty(0, np.int64), *own])
            if len(rare):
                rows[:, rare if columns is None else np.isin(columns, rare)] = 0.0
        return found

    def _least_support(self, n_known: int) -> int:
        """Return how many users consumed each item that a ridge knows, at the least."""
        support = self._nobody.support
        if not 0 < n_known < len(support):
            return 0
        return int(np.partition(support, len(support) - n_known)[len(support) - n_known])

    def _taken(self, users: tuple[int, ...]) -> list[NDArray[np.uint32]]:
        """Give what some users took, of those who were there when all was counted."""
        return [self._counted.taken_by(user)[0] for user in self._known(users)]

    def _preference(
        self, history: NDArray[np.int64], users: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Give what factors expect that were trained without some users, who share a fold."""
        found, n_then = np.zeros(self.statistics.n_items), self._counted.n_items
        known = history[history < n_then]  # what is new since they were trained has no factors
        if self.factors is not None and len(known):
            fold = self.factors.fold_for(self._known(users), history)
            found[:n_then] = self.factors.score(fold, known)
        return found

    def _places_of(self, extra: dict[str, str]) -> slice:
        """Give where the features of an ingredient stand."""
        first = list(self.in_words).index(next(iter(extra)))
        return slice(first, first + len(extra))

    def _known(self, users: tuple[int, ...]) -> tuple[int, ...]:
        """Give those of some users who were there when all was counted."""
        return tuple(user for user in users if user < self._counted.n_user_codes)

    def _near(self, asked: Asked, columns: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Give the share of the takers of the last items who took each item soon after."""
        last, support = asked.rows.history[-N_LAST:], asked.then.support
        parts = (1 / (np.maximum(support[last], 1) * float(len(last)))).astype(np.float32)
        own = np.array(self._known(asked.without), dtype=np.int64)
        own_ends = self._interactions.offsets[1:][own]
        there = last < self._counted.n_items
        n_items = self.statistics.n_items
        return self._soon.shares(last[there], parts[there], own_ends, columns, n_items)
