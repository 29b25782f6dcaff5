"""Questions about many people: rows of all of them in one frame, on all cores."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_flag
from surerec._progress import progress
from surerec._threads import available_threads, run_blocks
from surerec.errors import HistoriesWarning, InputError, NoUsers
from surerec.measures import Queries
from surerec.recommenders._asking import Asking
from surerec.recommenders._histories import Histories, read_histories
from surerec.recommenders._offers import select_known
from surerec.recommenders._query import refuse_times
from surerec.recommenders._sets import (
    RANKS_ONLY,
    batch_columns,
    left_out_of,
    people_frame,
    stacked,
    user_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import BestOfMany
    from surerec.interactions import Interactions
    from surerec.measures import Query
    from surerec.recommenders._wanted import Wanted

_USERS_AT_ONCE: Final = 512
_WORTH_A_THREAD: Final = 128
_RECENT: Final = (
    "No times were given: guarantees assume that the histories ended near the end of the data."
)
_ROWS_AT_ONCE = 1 << 22  # at the most, as whole sets may hold nearly the whole catalogue


class AskingMany(Asking):
    """Gives a recommender its questions about many people."""

    def recommend_many(
        self,
        users: Sequence[Any] | None = None,
        *,
        histories: Any = None,
        leave_out: bool = False,
        at: Any = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
        chances: bool = False,
        unknown: str = "check",
    ) -> pl.DataFrame:
        """Recommend to many people, on all cores.

        Parameters
        ----------
        users : sequence of ids, optional
            By default all users of the data.
        histories : frame, Interactions, mapping or Histories, optional
            Instead of these, people who need not be in the data: what :meth:`histories` takes or
            gives. Whoever is left out is told by a ``HistoriesWarning``.
        leave_out : bool, default=False
            Whether people of these histories whose ids are users' of the data are these users, and
            left out of all that scores them; see :meth:`histories`.
        at : datetime, date, text or number, optional
            When these histories are asked for, if they have no times; see :meth:`histories`.
        confidence, significance, k, min_probability, precision, items, among
            As in :meth:`recommend`.
        chances : bool, default=False
            Say of each user's list, of at most k items, how likely at least one, two and three of
            them are taken, and how many are to be expected; for what is calibrated over users.
        unknown : {"check", "skip"}, default="check"
            Unknown ids of `users` and `items` are skipped, with a ``LeftOutWarning`` that names the
            first five. A list of which more than half is unknown is refused, unless this is "skip".

        Returns
        -------
        polars.DataFrame
            ``user_id``, the columns of :meth:`RecommendationSet.to_frame` and
            ``covered``, whether the guarantee covers the user; :meth:`guarantee_to_all` says what
            is guaranteed. With `chances` also ``at_least_1``, ``at_least_2``, ``at_least_3`` and
            ``expected_hits``.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> new = {"ann": films.items.ids[:4], "bob": films.items.ids[6:9]}
        >>> model.recommend_many(histories=new, confidence=0.5, k=2)["user_id"].to_list()
        ['ann', 'ann', 'bob', 'bob']
        """
        self.require_fit()
        wanted = self.wanted(
            confidence,
            significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
            chances=chances,
            unknown=unknown,
        )
        return pl.concat(
            self._batches(self._whom(users, histories, leave_out, at, unknown), wanted)
        )

    def iter_recommendations(
        self,
        users: Sequence[Any] | None = None,
        *,
        histories: Any = None,
        leave_out: bool = False,
        at: Any = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
        chances: bool = False,
        unknown: str = "check",
    ) -> Iterator[pl.DataFrame]:
        """Recommend to many people, some at a time, so that results can be written as they come.

        Yields the rows of :meth:`recommend_many`, people in the order given.
        """
        self.require_fit()
        wanted = self.wanted(
            confidence,
            significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
            chances=chances,
            unknown=unknown,
        )
        yield from self._batches(self._whom(users, histories, leave_out, at, unknown), wanted)

    def guarantee_to_all(self, wanted: Wanted) -> str:
        """Return what rows of :meth:`recommend_many` guarantee to users with ``covered``.

        Parameters
        ----------
        wanted : Wanted
            As :meth:`wanted` gives it.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> print(model.guarantee_to_all(model.wanted(0.5)))
        An item new to a user that the user will consume is left out of that user's set with
        probability at most 0.5, if the user's calibration items and the items consumed next are
        exchangeable: it holds less well the more tastes drift.
        """
        self.require_fit()
        if wanted.significance is None:
            return RANKS_ONLY
        said = self._calibration_for(wanted).promise_to_all(wanted.significance)
        return left_out_of(wanted, said)

    def histories(
        self, source: Any, *, leave_out: bool = False, at: Any = None, **reading: Any
    ) -> Histories:
        """Take what is known of many people who need not be in the data; it says what is not used.

        Parameters
        ----------
        source : frame, path, Interactions or mapping
            Who took what when: whatever :func:`surerec.read_interactions` reads, with or without a
            column of times (without, the order of the rows counts); or a mapping of ids to lists of
            items, or of (item, time) pairs. With groups of people's own, it needs their column too.
        leave_out : bool, default=False
            These people are newcomers: nobody is left out of the counts, and an id that a user of
            the data has too means nothing. With True it is that user, known by what is given here,
            as in ``recommend(user=…, history=…)``: for newer histories of people of the data.
        at : datetime, date, text or number, optional
            The moment at which all of them are asked for, where there are no times; with times, it
            must not lie before the last of them. See :meth:`recommend`.
        **reading
            As in :func:`surerec.read_interactions`: ``user``, ``item``, ``time``, ``threshold``, …

        Returns
        -------
        Histories
            For :meth:`recommend_many`; its ``ignored`` and ``left_out`` say what is not used.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> new = model.histories({"ann": films.items.ids[:4], "bob": ["no such film"]})
        >>> new, new.left_out.to_list(), len(new.ignored)
        (Histories(1 people, 1 left out), ['bob'], 1)
        """
        self.require_fit()
        interactions = self.statistics_.interactions
        is_of_data = check_flag("leave_out", leave_out)
        users = interactions.users if is_of_data and interactions is not None else None
        found = read_histories(source, self.items_, users, self._user_groups(), reading, at)
        untimed = self.scorer_.uses_times and not found.timed
        return replace(found, assumes=_RECENT) if untimed else found

    def best_of(self, queries: Queries, wanted: Wanted) -> BestOfMany | None:
        """Find the best items of many people at once, where there is a faster way than one by one.

        Parameters
        ----------
        queries : Queries
            Whom it is about.
        wanted : Wanted
            As :meth:`wanted` gives it.
        """
        if wanted.significance is None or not wanted.is_plain:
            return None
        return self._calibration().best_of_many(
            self.scorer_, self.statistics_, queries, wanted.significance, wanted.limit
        )

    def rows_of(self, users: NDArray[np.int64], wanted: Wanted) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many` for some users by code.

        Parameters
        ----------
        users : array of int
            Their codes.
        wanted : Wanted
            As :meth:`wanted` gives it.
        """
        known = self._profiles()
        asked = Queries.of_users(known, users)
        return self.rows_for(asked, known.users.ids.gather(users), wanted)

    def rows_for(self, queries: Queries, people: pl.Series, wanted: Wanted) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many` for some people, with the ids they go by.

        Parameters
        ----------
        queries : Queries
            What is known of them.
        people : polars.Series
            Their ids.
        wanted : Wanted
            As :meth:`wanted` gives it.
        """
        best = self.best_of(queries, wanted)
        if best is not None:
            columns, owners = batch_columns(best), best.owners
        else:
            parts = [self._columns_of(queries[place], wanted) for place in range(len(queries))]
            columns, owners = stacked(parts)
        return people_frame(columns, people.gather(owners), self.items_.ids, self.titles_)

    def _columns_of(self, query: Query, wanted: Wanted) -> dict[str, NDArray[Any]]:
        assessment = self.assess(wanted.limited(query), wanted=wanted)
        places = wanted.shown(assessment).places
        return user_columns(assessment, places, wanted.significance)

    def _whom(
        self,
        users: Sequence[Any] | None,
        histories: Any,
        leave_out: bool,  # noqa: FBT001
        at: Any,
        unknown: str,
    ) -> NDArray[np.int64] | Histories:
        """Give the codes of users, or people by what is known of them."""
        if histories is None:
            if check_flag("leave_out", leave_out):
                raise InputError(
                    "leave_out is about histories=: users of the data are always left out."
                )
            refuse_times(None, at, "users of the data have times of their own")
            known = self._profiles()
            codes = np.arange(known.n_users)
            if users is not None:
                codes = select_known(known.users, users, unknown)
            if not len(codes):
                raise InputError("There is nobody to recommend to: the list of users is empty.")
            return codes
        if users is not None:
            raise InputError("Say for whom once: give users or histories=, not both.")
        if isinstance(histories, Histories):
            refuse_times(None, at, "these were read before: pass at= to histories(…)")
            return histories
        found = self.histories(histories, leave_out=leave_out, at=at)
        for sentence in found.warnings():
            warnings.warn(sentence, HistoriesWarning, stacklevel=3)
        return found

    def _profiles(self) -> Interactions:
        interactions = self.statistics_.interactions
        if interactions is None:
            raise NoUsers("These statistics have no users to recommend to.")
        return interactions

    def _batches(
        self, people: NDArray[np.int64] | Histories, wanted: Wanted
    ) -> Iterator[pl.DataFrame]:
        """Give the rows of people, some at a time and in their order."""
        longest = self.statistics_.n_items if wanted.limit is None else wanted.limit
        most = int(np.clip(_ROWS_AT_ONCE // max(longest, 1), 1, _USERS_AT_ONCE))
        n_batches, n_threads = -(-len(people) // most), available_threads()
        if n_batches > 1 or len(people) >= n_threads * _WORTH_A_THREAD:
            # As many for each thread: the last would keep the others waiting.
            n_batches = n_threads * -(-n_batches // n_threads)
        at_once = -(-len(people) // max(n_batches, 1))

        def batch(start: int) -> pl.DataFrame:
            if not isinstance(people, Histories):
                return self.rows_of(people[start : start + at_once], wanted)
            some = people.queries.part(start, start + at_once)
            return self.rows_for(some, people.people.slice(start, len(some)), wanted)

        with progress("Recommending", total=len(people), unit="users") as advance:
            for rows in run_blocks(batch, range(0, len(people), max(at_once, 1))):
                yield rows
                advance(at_once)
