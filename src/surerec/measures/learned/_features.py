"""What the trees see of an item and a profile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._calendar import DAY
from surerec._threads import run_together
from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows
from surerec.measures.learned import _kernels as kernels
from surerec.measures.learned._asked import Asked, Person
from surerec.measures.learned._assembling import N_LAST, assemble, clear_nothing, sums_in_parts
from surerec.measures.learned._forward import FORWARD, ForwardRidge
from surerec.measures.learned._items import ItemFacts
from surerec.measures.learned._near import WINDOWS, Near
from surerec.measures.learned._offered import EXTRAS, in_words
from surerec.measures.learned._preference import PREFERENCE
from surerec.measures.learned._recency import RECENCY, Recency
from surerec.measures.learned._ridge import Ridge
from surerec.precedence import of_matrix, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.measures.als import Factorisation
    from surerec.precedence import Block, PrecedenceStatistics

    _Job = Callable[[], None]
    _Part = Callable[[], NDArray[np.float64]]


_NOTHING: Final = np.float32(1e-30)  # LightGBM takes what is nearer to 0 for 0 in places, so we do


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
        support are of now, and all else is of then: who took what soon after, places, days, the
        calendar and the ridge.
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
        if statistics.interactions is None:
            raise InputError(
                "These counts were given without profiles: the learned measure needs profiles."
            )
        self._interactions = statistics.interactions
        self.ridge = Ridge.fit(statistics.interactions) if ridge is None else ridge
        self._facts = ItemFacts(statistics.interactions)
        self._nobody = self._facts.without(())
        self._following = spans(statistics.interactions, "followers", statistics.ties)
        self._soon = Near(self._following)
        self._recency = Recency.of(statistics.interactions) if "calendar" in extras else None
        if forward is None and "past to future" in extras:
            forward = ForwardRidge.fit(statistics.interactions)
        self.forward, self.factors = forward, factors
        self.in_words = in_words(extras)

    def of(
        self,
        history: NDArray[np.integer],
        *,
        without: tuple[int, ...] = (),
        columns: NDArray[np.int64] | None = None,
        stand_ins: NDArray[np.int64] | None = None,
        moment: int | None = None,
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
        stand_ins : array of int, optional
            For each column one of its takers, left out of that column too; −1 for nobody. See
            `surerec.measures.learned._examples`.
        moment : int, optional
            When the last item of the history was taken, in microseconds since 1970; by default as
            that user took it, else after all that is known.
        only : sequence of str, optional
            The ingredients whose features are looked at; those of others are 0. By default all.
        in_threads : bool, default=False
            Whether other threads may help where every item is asked for.
        """
        asked = self._asked(Person(history, without, moment))
        rows, means = asked.rows, asked.means
        wanted = EXTRAS if only is None else only
        if columns is None:
            return self._of_all(asked, wanted, *self._ridges(asked, wanted), in_threads=in_threads)
        parts, near = self._near(asked, columns)
        blocks = rows.columns("followers", columns), rows.columns("predecessors", columns)
        here = means.at(columns)
        if stand_ins is not None:
            taken_at = self._leave_out(rows, columns, stand_ins, parts, near, blocks)
            here = self._facts.without_takers(without, columns, stand_ins, taken_at)
        both, nobody = (of_matrix(*blocks[0]), of_matrix(*blocks[1])), rows.left_out.for_nobody()
        sums, to_do = sums_in_parts(*both, nobody, asked.weights, len(columns))
        for part in to_do:
            part()
        found = np.zeros((len(self.in_words), len(columns)), np.float32)
        ridge = self.ridge.score(rows.history, asked.by_age, asked.own, columns)
        assemble(sums, here, means, rows, ridge, near, found)
        if self._recency is not None and "calendar" in wanted:
            # Nobody stands in there: what the user took next is in none of those days.
            lately = self._recency.features(self._day(asked), columns, self._own(without))
            found[self._places_of(RECENCY)] = lately
        if self.forward is not None and "past to future" in wanted:
            found[self._places_of(FORWARD)] = self.forward.score(
                rows.history, asked.by_age, asked.taken, columns
            )
        if self.factors is not None and "matrix factorisation" in wanted:
            found[self._places_of(PREFERENCE)] = self._preference(rows.history, without)[columns]
        clear_nothing(found, _NOTHING)
        return found

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
        history, without, moment = person
        if not len(history):
            raise InputError("The history is empty: it needs at least one item.")
        rows = ProfileRows(self.statistics, history, without)
        then = self._facts.without(self._known(without)) if without else self._nobody
        means = then
        if self.statistics is not self._counted:
            then = then.padded(self.statistics.n_items)
            means = then._replace(support=rows.support_of_all().astype(np.int64))
        return Asked.of(rows, without, moment, self._taken(without), then, means)

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
            ridge.append(expect())

        def look_near() -> None:
            near.append(self._near(asked, None)[1])

        def look_ahead(part: _Part) -> None:
            found[self._places_of(FORWARD)] = part()

        def look_back(recency: Recency) -> None:
            own = self._own(asked.without)
            lately = recency.features_of_all(self._day(asked), n_items, own)
            found[self._places_of(RECENCY)] = lately

        def prefer() -> None:
            found[self._places_of(PREFERENCE)] = self._preference(history, asked.without)

        # What takes longest comes first, so that threads end together.
        jobs: list[_Job] = [regress, *to_do, look_near]
        if ahead is not None:
            jobs.insert(0, partial(look_ahead, ahead))
        if self._recency is not None and "calendar" in wanted:
            jobs.append(partial(look_back, self._recency))
        if self.factors is not None and "matrix factorisation" in wanted:
            jobs.append(prefer)
        (run_together if in_threads else _run_in_turn)(_call, jobs)
        assemble(sums, asked.means, asked.means, rows, ridge[0], near[0], found)
        clear_nothing(found, _NOTHING)
        return found

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
            fold = self.factors.fold_for(self._known(users))
            found[:n_then] = self.factors.score(fold, known)
        return found

    def _places_of(self, extra: dict[str, str]) -> slice:
        """Give where the features of an ingredient stand."""
        first = list(self.in_words).index(next(iter(extra)))
        return slice(first, first + len(extra))

    def _own(self, users: tuple[int, ...]) -> NDArray[np.int64]:
        """Give where in the flat profiles some users have theirs."""
        starts = self._interactions.offsets
        parts = [np.arange(starts[user], starts[user + 1]) for user in self._known(users)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _day(self, asked: Asked) -> int:
        """Give the day of the last known item."""
        assert self._recency is not None  # noqa: S101  # only asked for its features
        if asked.moment is not None and self.statistics is not self._counted:
            return min(asked.moment // DAY, self._recency.last_day)
        if asked.moment is not None:
            return asked.moment // DAY
        own, last = self._own(asked.without), asked.rows.history[-1]
        taken = self._interactions.times[own[self._interactions.items_taken[own] == last]]
        return int(taken.max()) // DAY if taken.size else self._recency.last_day

    def _known(self, users: tuple[int, ...]) -> tuple[int, ...]:
        """Give those of some users who were there when all was counted."""
        return tuple(user for user in users if user < self._counted.n_user_codes)

    def takers(self, items: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
        """Draw one taker of each item; −1 where nobody took it."""
        starts, stops = self._following.offsets[items], self._following.offsets[items + 1]
        drawn = starts + (chance.random(len(items)) * (stops - starts)).astype(np.int64)
        taken = stops > starts
        ends = self._following.stops[np.where(taken, drawn, 0)].astype(np.int64)
        users = np.searchsorted(self._interactions.offsets[1:], ends)  # each profile has its end
        return np.where(taken, users, -1)

    def _near(
        self, asked: Asked, columns: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Give what the last items weigh, and the share who took each item soon after."""
        last, support = asked.rows.history[-N_LAST:], asked.then.support
        parts = (1 / (np.maximum(support[last], 1) * float(len(last)))).astype(np.float32)
        own = np.array(self._known(asked.without), dtype=np.int64)
        own_ends = self._interactions.offsets[1:][own]
        there = last < self._counted.n_items
        n_items = self.statistics.n_items
        return parts, self._soon.shares(last[there], parts[there], own_ends, columns, n_items)

    def _leave_out(
        self,
        rows: ProfileRows,
        columns: NDArray[np.int64],
        stand_ins: NDArray[np.int64],
        parts: NDArray[np.float32],
        near: NDArray[np.float32],
        blocks: tuple[Block, Block],
    ) -> NDArray[np.int64]:
        """Take the stand-ins out of their columns; give where they took the items."""
        taken_at = np.empty(len(columns), np.int64)
        kernels.leave_out_stand_ins(
            rows.history,
            columns,
            stand_ins,
            self._interactions.offsets,
            self._interactions.items_taken,
            self._interactions.times,
            self.statistics.ties == "strict",
            parts,
            WINDOWS,
            blocks[0].matrix,
            blocks[1].matrix,
            near,
            np.full(self.statistics.n_items, -1),
            taken_at,
        )
        near[near < parts.min() / 2] = 0.0  # what rounding leaves of nothing would tell them apart
        return taken_at
