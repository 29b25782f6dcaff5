"""A fitted model: everything that answers questions, composed of parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_codes, check_kind
from surerec._checks import check_whole
from surerec._columns import Columns, frame_of
from surerec._shown import shown
from surerec.calibration import UserCalibration
from surerec.errors import InProfile, InputError
from surerec.recommenders import _batch, _group_answers
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._later import LaterColumns
from surerec.recommenders._options import (
    RecommendOptions,
    require,
)
from surerec.recommenders._parts import ModelParts
from surerec.recommenders._party import Party, is_party
from surerec.recommenders._query import refuse_times, select_known
from surerec.recommenders._sets import (
    RANKS_ONLY,
    RecommendationSet,
    guarantee,
    left_out_of,
    p_value_column,
    result_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Slate
    from surerec.measures import Queries, Query
    from surerec.recommenders._group_sets import GroupExplanation
    from surerec.recommenders._histories import Histories
    from surerec.together import GroupAssessment, MergedAssessment

_ANYTHING: Final = RecommendOptions()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FittedModel(ModelParts):
    """A fitted recommender: it answers every question, from parts that never change.

    Made by the estimators' ``fit``. To change a part, make another model with
    ``dataclasses.replace``. Its attributes are those of :class:`ModelParts`.
    """

    def __repr__(self) -> str:
        return f"FittedModel({self.name!r}, {self.statistics.n_items:,} items)"

    def recommend(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        group: Any = None,
        query: Query | None = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        exclude: Iterable[Any] = (),
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
        together: str | None = None,
        unknown: str = "check",
    ) -> RecommendationSet:
        """Recommend a set of items to a person, or to a group of people who choose together.

        Parameters
        ----------
        user : id, optional
            A user of the data; their own profile is left out of all counts that score them.
        history : iterable of ids, optional
            What a person took, in order; beside `user`, what is known of that user. A list of
            (item, time) pairs, or a frame with a column of times, has its times with it.
        times : list, array or series, optional
            When each item of the history was consumed: datetimes, dates, ISO text or Unix times.
            They sort the history. surerec's own measures do not use them otherwise. With a scorer
            that declares ``uses_times``, a guarantee without them assumes a recent history.
        at : datetime, date, text or number, optional
            The moment at which the question is asked, for a history without times; with times, it
            must not lie before the last of them. For a group, that of all its histories.
        group : list or mapping, or str, optional
            The members of a group that is to get one set: users' ids, lists of items (histories) of
            people who need not be in the data, or both; a mapping gives them names. Items that any
            member has taken are no candidates. Or, as text, the kind of person that this one is,
            where people are calibrated in groups by a column of their own; a user of the data has
            theirs.
        query : Query, optional
            Instead of these, what :meth:`query` made of them.
        confidence, significance : float, optional
            1 − ε, or ε itself, in (0, 1); by default a confidence of 0.9.
        k : int, optional
            Cut the set to the k best. This voids the guarantee, and the result says so.
        exclude : iterable of ids, default=()
            Items to leave out; with the same effect on the guarantee.
        min_probability : float, optional
            Only items that are taken with this probability at least; with the same effect. For
            recommenders that are calibrated over users.
        precision : float, optional
            For a recommender that promises precision: which share of what is shown must be taken;
            `confidence` is then that of the promise, 0.9 if nothing is said.
        items : iterable of ids, optional
            Only these may be recommended; with the same effect on the guarantee as excluding.
        among : str, optional
            Only the items of this list, which was named by
            :meth:`surerec.PopulationConformal.allow`: what is promised is promised for them.
        together : str, optional
            What is promised to a group. Over users: of what "any" member takes (the default),
            "most" or "all" of them; by the "worst"-served one; a "hit-any" or "hit-all". By the
            paper's p-values, how they are merged: "mean" (twice; the default), "geometric",
            "harmonic" or "bonferroni" for what everyone takes, "maximum" for what someone does.
        unknown : {"check", "skip"}, default="check"
            Unknown ids of `items` are skipped, with a ``LeftOutWarning`` that names the first five.
            A list of which more than half is unknown is refused, unless this is "skip".

        Returns
        -------
        RecommendationSet
            Ordered by p-value, then by conformity, then by popularity. It may be empty: nothing
            conforms well enough at that confidence. For a group a :class:`GroupSet`, which also
            says how well each member is served.
        """
        options = self.options(
            confidence,
            significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
            exclude=exclude,
            unknown=unknown,
        )
        if is_party(group):
            _refuse_more(user, history, query)
            refuse_times(times, None, "each member of a group has one of their own")
            return _group_answers.group_set(self, self.party(group, at), options, together)
        _refuse_together(together)
        return self.recommend_query(self._asked(user, history, times, at, group, query), options)

    def recommend_query(self, query: Query, options: RecommendOptions) -> RecommendationSet:
        """Return the recommendation set of a query; see :meth:`recommend`."""
        query = options.limited(query)
        assessment = self.assess(query, options=options)
        epsilon, sizes = options.significance, options.sizes(assessment)
        columns: Mapping[str, NDArray[Any]]
        if sizes is not None:
            n_shown, full_size = sizes

            def columns_now() -> Mapping[str, NDArray[Any]]:
                return result_columns(assessment, options.shown(assessment).places)

            columns = LaterColumns(columns_now, n_shown)
        else:
            found = options.shown(assessment)
            n_shown, full_size = len(found.places), found.full_size
            columns = result_columns(assessment, found.places)
        return RecommendationSet(
            columns=columns,
            catalogue=self.items.ids,
            titles=self.titles,
            history=query.history,
            significance=epsilon,
            guarantee=guarantee(
                self.calibration_for(options),
                epsilon,
                assessment,
                is_whole=n_shown == full_size and query.allowed is None,
                assumes=self.assumption(query),
            ),
            full_size=full_size,
            n_candidates=len(assessment.candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(epsilon),
            ignored=query.ignored,
            recommender=self.name,
            about_probability=assessment.about_chances,
            precision=options.precision,
        )

    def p_values(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        group: Any = None,
        query: Query | None = None,
        items: Iterable[Any] | None = None,
        codes: NDArray[np.int64] | None = None,
        unknown: str = "check",
    ) -> pl.DataFrame:
        """Give the p-value of each candidate, or of the given items.

        Parameters
        ----------
        user, history, times, at, group, query
            As in :meth:`recommend`.
        items : iterable of ids, optional
            By default all items outside the known profile, the most popular first.
        codes : array of int, optional
            Instead of `items`, their codes, if they were looked up before.
        unknown : {"check", "skip"}, default="check"
            What happens to unknown ids of `items`, as in :meth:`recommend`.

        Returns
        -------
        polars.DataFrame
            ``item_id``, ``p_value`` (not with a calibration over users, which gives no p-values),
            ``entry_confidence``.
        """
        require(self.calibration, "confidence", self.kind)
        asked = self._asked(user, history, times, at, group, query)
        if codes is None and items is not None:
            codes = select_known(self.items, items, unknown)
        if codes is None:
            candidates = self.candidates(asked)
            candidates = candidates[np.argsort(self.statistics.popularity[candidates])]
        else:
            candidates = check_codes("codes", codes, self.statistics.n_items)
            self._refuse_known(asked, candidates, "it has no p-value")
        assessment = self.assess(asked, candidates)
        return frame_of(
            {
                Columns.Item: self.items.ids.gather(candidates),
                **p_value_column(assessment.p_values),
                Columns.EntryConfidence: assessment.entry_confidences,
            }
        )

    def explain(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        group: Any = None,
        query: Query | None = None,
        item: Any,
    ) -> Explanation:
        """Say which earlier items speak for an item, with the counts in words.

        Parameters
        ----------
        user, history, times, at, group, query
            As in :meth:`recommend`; to people who choose together :meth:`explain_group` does.
        item : id
            The item to explain.
        """
        if is_party(group):
            raise InputError("To explain an item to each member of a group, call explain_group.")
        asked = self._asked(user, history, times, at, group, query)
        code = self.items.code(item)
        self._refuse_known(asked, np.array([code]), "there is nothing to explain")
        assessment = self.assess(asked, np.array([code]))
        scored = self.calibration.scored(asked)
        found = explain(self.statistics, self.items, scored, code, assessment, self.scorer)
        return replace(found, recommender=self.name, ignored=asked.ignored)

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
        options = self.options(
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
        whom = _batch.read_users(self, users, histories, leave_out, at, unknown)
        return pl.concat(_batch.batches(self, whom, options))

    def iter_recommendations(
        self,
        /,
        users: Sequence[Any] | None = None,
        *,
        histories: Any = None,
        leave_out: bool = False,
        at: Any = None,
        unknown: str = "check",
        **options: Any,
    ) -> Iterator[pl.DataFrame]:
        """Recommend to many users, some at a time, so that results can be written as they come.

        Yields the rows of :meth:`recommend_many`, which has the same parameters.
        """
        checked = self.options(unknown=unknown, **options)
        whom = _batch.read_users(self, users, histories, leave_out, at, unknown)
        yield from _batch.batches(self, whom, checked)

    def hit_probability(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        k: int = 10,
    ) -> Slate:
        """Give the k best items, and this person's probability that at least one is a hit.

        Calibrated on the calibration users by Venn–Abers: among people with such a probability,
        that share takes one of their k best items within the horizon.

        Parameters
        ----------
        user, history, times, at
            As in :meth:`recommend`.
        k : int, default=10
            Length of the slate, up to 100.
        """
        n, query = check_whole("k", k), self.query(user, history=history, times=times, at=at)
        require(self.calibration, "hits", self.kind)
        assert isinstance(self.calibration, UserCalibration)  # noqa: S101  # it has hits
        found = self.calibration.slate(
            self.scorer, self.statistics, query, self.items, n, self.assumption(query)
        )
        taken = self.statistics.interactions
        titles: list[str] = []
        if taken is not None:
            titles = [taken.title(self.items.code(item)) for item in found.items]
        return replace(found, recommender=self.name, titles=titles)

    @property
    def valid_until(self) -> datetime | None:
        """The end of the window that a temporal split was calibrated for; None without one."""
        end = self.calibration.valid_until
        return None if end is None else _instant(end)

    def age(self, at: datetime | None = None) -> timedelta:
        """Give how long ago the futures that calibrated it ended.

        Parameters
        ----------
        at : datetime, optional
            By default now.
        """
        moment = datetime.now(UTC) if at is None else check_kind("at", at, datetime, "a datetime")
        if moment.tzinfo is None:
            raise InputError(f"at is {moment}; it must have a time zone, such as UTC.")
        require(self.calibration, "period", self.kind)
        return moment - _instant(self.calibration.period[1])

    def guarantee_to_all(self, options: RecommendOptions) -> str:
        """Return what rows of :meth:`recommend_many` guarantee to users with ``covered``.

        Parameters
        ----------
        options : RecommendOptions
            As :meth:`options` returns them.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> print(model.guarantee_to_all(model.options(0.5)))
        An item new to a user that the user will consume is left out of that user's set with
        probability at most 0.5, if the user's calibration items and the items consumed next are
        exchangeable: it holds less well the more tastes drift.
        """
        if options.significance is None:
            return RANKS_ONLY
        said = self.calibration_for(options).promise_to_all(options.significance)
        return left_out_of(said) if options.shortens else said

    def histories(
        self, source: Any, /, *, leave_out: bool = False, at: Any = None, **reading: Any
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
        return _batch.histories(self, source, leave_out=leave_out, at=at, reading=reading)

    def rows_of(self, users: NDArray[np.int64], options: RecommendOptions) -> pl.DataFrame:
        """Return the rows of :meth:`recommend_many` for some users of the data, by code."""
        return _batch.rows_of(self, users, options)

    def rows_for(
        self, queries: Queries, people: pl.Series, options: RecommendOptions
    ) -> pl.DataFrame:
        """Return the rows of :meth:`recommend_many` for queries, with the ids of their users."""
        return _batch.rows_for(self, queries, people, options)

    def guarantee_to_groups(
        self, groups: Any, options: RecommendOptions, together: str | None = None
    ) -> str:
        """Return what rows of :meth:`recommend_groups` guarantee to groups with ``covered``.

        Parameters
        ----------
        groups, together
            As in :meth:`recommend_groups`. Groups of each size have a guarantee of their own.
        options : RecommendOptions
            As :meth:`options` returns them.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> said = model.guarantee_to_groups({"a": [7, 3]}, model.options(0.5))
        >>> said.startswith("An item new to every member that everyone in a group will take is")
        True
        """
        return _group_answers.guarantee_to_groups(self, groups, options, together)

    def offers_together(self) -> tuple[str, ...]:
        """Return the names of the guarantees that groups can be given; empty for none."""
        return () if self.groups is None else self.groups.offers(self.scorer)

    def assess_group(
        self, group: Any, together: str | None = None, *, at: Any = None
    ) -> tuple[GroupAssessment | MergedAssessment, Party, str]:
        """Return the assessment of a group's candidates, its members, and the guarantee's name."""
        return _group_answers.assess_group(self, self.party(group, at), together)

    def explain_group(
        self, group: Any, *, item: Any, together: str | None = None, at: Any = None
    ) -> GroupExplanation:
        """Say to each member of a group which of their items speak for an item.

        Parameters
        ----------
        group, together, at
            As in :meth:`recommend`.
        item : id
            The item to explain.
        """
        return _group_answers.explain_group(self, self.party(group, at), item, together)

    def recommend_groups(
        self,
        groups: Any,
        *,
        together: str | None = None,
        at: Any = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        items: Iterable[Any] | None = None,
        unknown: str = "check",
    ) -> pl.DataFrame:
        """Recommend to many groups of people who choose together.

        Parameters
        ----------
        groups : mapping, frame or path
            Members by group: users' ids, or lists of items; or a frame or a file with columns
            ``user_id`` and ``group``, a row for each member.
        together, at, confidence, significance, k, items, unknown
            As in :meth:`recommend`.

        Returns
        -------
        polars.DataFrame
            ``group``, the columns of :meth:`RecommendationSet.to_frame`, ``covered``, whether the
            guarantee covers the group (:meth:`guarantee_to_groups` has its words), and of each
            group its ``least_served`` member with their ``satisfaction``.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> model.recommend_groups({"a": [7, 3], "b": [12, 9]}, confidence=0.8, k=2)["group"]
        shape: (4,)
        Series: 'group' [str]
        [
            "a"
            "a"
            "b"
            "b"
        ]
        """
        options = self.options(confidence, significance, k=k, items=items, unknown=unknown)
        return _group_answers.group_rows(self, groups, options, together, at)

    def _asked(
        self, user: Any, history: Any, times: Any, at: Any, group: Any, query: Query | None
    ) -> Query:
        if query is None:
            return self.query(user, history=history, times=times, at=at, group=group)
        refuse_times(times, at, "query= has times of its own")
        return self.check_query(query)

    def _refuse_known(self, query: Query, codes: NDArray[np.int64], why: str) -> None:
        taken = np.isin(codes, query.history)
        if taken.any():
            raise InProfile(self.items[int(codes[int(np.argmax(taken))])], why)
        unknown = np.isin(codes, self.scorer.unknown(self.statistics, query.users))
        if unknown.any():
            item = self.items[int(codes[int(np.argmax(unknown))])]
            raise InputError(f"Nobody else consumed {shown(item)}: {why}.")


def _instant(time: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    except OverflowError:  # beyond the years that datetimes know
        return datetime.max.replace(tzinfo=UTC) if time > 0 else datetime.min.replace(tzinfo=UTC)


def _refuse_more(user: Any, history: Any, query: Any) -> None:
    if user is not None or history is not None or query is not None:
        raise InputError(
            "Say for whom once: a group's members are all in group=, users and histories alike."
        )


def _refuse_together(together: str | None) -> None:
    if together is not None:
        raise InputError(
            f"together={together!r} says what is promised to a group: give its members, group=[…]."
        )
