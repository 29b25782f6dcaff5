"""A fitted model: everything that answers questions, composed of parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_codes, check_kind
from surerec._columns import Columns, frame_of
from surerec._words import shown
from surerec.calibration import Guarantee, guarantee_of
from surerec.errors import AlreadyConsumedError, InputError, NotSupportedError
from surerec.recommenders import _batch, _group_answers
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._group_calibration import GROUP_PRECISION
from surerec.recommenders._options import (
    RecommendOptions,
    RequestOptions,
    require,
    without_hits,
)
from surerec.recommenders._parts import ModelParts
from surerec.recommenders._query import read_group, refuse_times, select_known
from surerec.recommenders._sets import (
    Hits,
    RecommendationSet,
    p_value_column,
    result_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    import polars as pl
    from numpy.typing import NDArray

    from surerec.calibration import Assessment, Calibration
    from surerec.measures import Query

_UNTESTED: Final = Guarantee(
    kind="precision", holds=False, reason="a list without precision= is not tested"
)


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
        segment: Any = None,
        group: Any = None,
        query: Query | None = None,
        group_guarantee: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> RecommendationSet:
        """Recommend items to a user, or to a group of users who choose together.

        With `confidence` the answer is a recommendation set with a guarantee. With `k` alone it is
        a short list: the k best items, whatever their level, and the probability of a hit.

        Parameters
        ----------
        user : id, optional
            A user of the data; their own profile is left out of all counts that score them.
        history : iterable of ids, optional
            What a new user consumed, in order; beside `user`, what is known of that user. A list of
            (item, time) pairs, or a frame with a column of times, has its times with it.
        times : list, array or series, optional
            When each item of the history was consumed: datetimes, dates, ISO text or Unix times.
            They sort the history. surerec's own measures do not use them otherwise. With a scorer
            that declares ``uses_times``, a guarantee without them assumes a recent history.
        at : datetime, date, text or number, optional
            The moment at which the question is asked, for a history without times; with times, it
            must not lie before the last of them. For a group, that of all its histories.
        segment : str, optional
            The segment of a new user, where thresholds are calibrated by segment; a user of the
            data has their own.
        group : list or mapping, optional
            The members of a group that is to get one answer: users' ids, lists of items (histories)
            of new users, or both; a mapping gives them names. Items that any member has consumed
            are no candidates.
        query : Query, optional
            Instead of these, what :meth:`query` made of them.
        group_guarantee : str, optional
            What is guaranteed to a group. User-level: of what "any" member consumes (the default),
            "most" or "all" of them; by the "worst"-served one; a "hit-any" or "hit-all". By the
            paper's p-values, how they are merged: "mean" (twice; the default), "geometric",
            "harmonic" or "bonferroni" for what everyone consumes, "maximum" for what someone does.
        confidence, significance : float, optional
            1 − ε, or ε itself, in (0, 1). Without these, `k` and `precision`, 0.9.
        k : int, optional
            The k best items: of the set at a confidence that is given too, otherwise of the whole
            ranking. Such a list has no guarantee, and says what the set at its confidence, or at
            0.9, would have.
        exclude : iterable of ids, default=()
            Items to leave out, which voids the guarantee.
        min_probability : float, optional
            Only items that are consumed with this probability at least; with the same effect. For
            user-level calibrations.
        precision : float, optional
            For a recommender that guarantees precision: which share of what is shown must be
            consumed; `confidence` is then that of the guarantee, 0.9 by default.
        items : iterable of ids, optional
            Only these may be recommended; with the same effect on the guarantee as excluding.
        item_list : str, optional
            Only the items of this calibrated item list (:meth:`surerec.PopulationConformal.allow`),
            with a guarantee on them.
        unknown : {"check", "skip"}, default="check"
            Unknown ids of `items` are skipped, with a ``LeftOutWarning`` that names the first five.
            A list of which more than half is unknown is refused, unless this is "skip".

        Returns
        -------
        RecommendationSet
            Ordered by p-value, then by conformity, then by popularity. A set may be empty: nothing
            conforms well enough at that confidence. For a group a :class:`GroupSet`, which also
            has how well each member is served.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> top = model.recommend(user=7, k=5)
        >>> len(top), round(top.hit_probability, 2)
        (5, 1.0)
        """
        if group is not None and "precision" in self.features:
            raise NotSupportedError(GROUP_PRECISION)
        checked = self.options(**options)
        if group is not None:
            if any(each is not None for each in (user, history, query, segment)):
                raise InputError(
                    "Say for whom once: a group's members are all in group=, users and histories "
                    "alike."
                )
            refuse_times(times, None, "each member of a group has one of their own")
            members = read_group(self.statistics, group, at)
            return _group_answers.group_set(self, members, checked, group_guarantee)
        if group_guarantee is not None:
            raise InputError(
                f"group_guarantee={group_guarantee!r} is about a group: pass its members as "
                "group=[…]."
            )
        return self.recommend_query(self._asked(user, history, times, at, segment, query), checked)

    def recommend_query(self, query: Query, options: RecommendOptions) -> RecommendationSet:
        """Return the recommendation set of a query; see :meth:`recommend`."""
        query = options.limited(query)
        if query.allowed is not options.items:  # a query may have its own
            options = replace(options, items=query.allowed)
        assessment = self.assess(query, options=options)
        calibration, sizes = self.calibration_for(options), options.sizes(assessment)
        if sizes is not None:
            n_shown, full_size = sizes
            find_columns = partial(_columns, assessment, options)
        else:
            places, full_size = options.shown(assessment)
            n_shown, find_columns = len(places), partial(dict, result_columns(assessment, places))
        return RecommendationSet(
            find_columns=find_columns,
            size=n_shown,
            catalogue=self.items.ids,
            titles=self.titles,
            history=query.history,
            significance=options.level,
            guarantee=self._guarantee(calibration, options, assessment)
            .assuming(self.assumption(calibration, query))
            .shortened(options.left_out(n_shown, full_size)),
            full_size=full_size,
            n_candidates=len(assessment.candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(options.level),
            ignored=query.ignored,
            recommender=self.name,
            about_probability=assessment.about_probabilities,
            precision=options.precision,
            find_hits=partial(self._hits, query, assessment, options, n_shown),
        )

    def _hits(
        self, query: Query, assessment: Assessment, options: RecommendOptions, n_shown: int
    ) -> Hits:
        """Return the probabilities of hits in a list of the user's best items, or why not."""
        if reason := without_hits(options, self.calibration, self.kind):
            return Hits(about=reason)
        if assessment.gap or not n_shown:
            return Hits(about=f"None: {assessment.gap or 'the list is empty'}.")
        calibration = self.calibration_for(options)
        known = query.known_to(self.statistics)
        length = options.hits_length(n_shown)
        found = calibration.list_hits([known], [assessment], [length])
        about = calibration.about_hits(known, length), self.assumption(calibration.fitted, query)
        interval = float(found.low[0, 0]), float(found.high[0, 0])
        return Hits(tuple(found.probability[:, 0].tolist()), interval, " ".join(about).rstrip())

    def p_values(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        segment: Any = None,
        query: Query | None = None,
        items: Iterable[Any] | None = None,
        codes: NDArray[np.int64] | None = None,
        unknown: str = "check",
    ) -> pl.DataFrame:
        """Return the p-value of each candidate, or of the given items.

        Parameters
        ----------
        user, history, times, at, segment, query
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
        asked = self._asked(user, history, times, at, segment, query)
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
        segment: Any = None,
        query: Query | None = None,
        item: Any,
    ) -> Explanation:
        """Return which earlier items speak for an item, with the counts in words.

        Parameters
        ----------
        user, history, times, at, segment, query
            As in :meth:`recommend`; for a group, see :meth:`explain_group`.
        item : id
            The item to explain.
        """
        asked = self._asked(user, history, times, at, segment, query)
        code = self.items.code(item)
        self._refuse_known(asked, np.array([code]), "there is nothing to explain")
        assessment = self.assess(asked, np.array([code]))
        return explain(self, self.calibration.scored(asked), code, assessment)

    @property
    def valid_until(self) -> datetime | None:
        """The end of the window that a temporal split was calibrated for; None without one."""
        end = self.calibration.valid_until
        return None if end is None else _instant(end)

    def age(self, at: datetime | None = None) -> timedelta:
        """Return how long ago the futures that calibrated it ended.

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

    def guarantee_to_all(self, options: RecommendOptions) -> Guarantee:
        """Return what rows of :meth:`recommend_many` guarantee to users with ``covered``.

        Parameters
        ----------
        options : RecommendOptions
            As :meth:`options` returns them.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> print(model.guarantee_to_all(model.options(confidence=0.5)))
        An item new to the user that they will consume is left out with probability at most 0.5.
        Assumes that the user's calibration items and the items consumed next are exchangeable. It
        holds less well the more tastes drift.
        """
        calibration = self.calibration_for(options)
        found = self._guarantee(calibration, options)
        return found.assuming(self.assumption(calibration)).shortened(options.left_out())

    def _guarantee(
        self,
        calibration: Calibration,
        options: RecommendOptions,
        assessment: Assessment | None = None,
    ) -> Guarantee:
        """Return the guarantee of a set, or of the sets of all covered users."""
        if options.significance is None and "precision" in self.features:
            return _UNTESTED
        return guarantee_of(calibration, options.significance, assessment)

    recommend_many = _batch.recommend_many
    iter_recommendations = _batch.iter_recommendations
    histories = _batch.read_histories
    rows_of = _batch.rows_of
    recommend_groups = _group_answers.recommend_groups
    group_rows = _group_answers.group_rows
    guarantee_to_groups = _group_answers.guarantee_to_groups
    explain_group = _group_answers.explain_group
    assess_group = _group_answers.assess_group
    offers_group_guarantee = _group_answers.offers_group_guarantee

    def _asked(
        self, user: Any, history: Any, times: Any, at: Any, segment: Any, query: Query | None
    ) -> Query:
        if query is None:
            return self.query(user, history=history, times=times, at=at, segment=segment)
        refuse_times(times, at, "query= has times of its own")
        return self.check_query(query)

    def _refuse_known(self, query: Query, codes: NDArray[np.int64], why: str) -> None:
        consumed = np.isin(codes, query.history)
        if consumed.any():
            raise AlreadyConsumedError(self.items[int(codes[int(np.argmax(consumed))])], why)
        unknown = np.isin(codes, self.scorer.unknown(self.statistics, query.users))
        if unknown.any():
            item = self.items[int(codes[int(np.argmax(unknown))])]
            raise InputError(f"Nobody else consumed {shown(item)}: {why}.")


def _columns(assessment: Assessment, options: RecommendOptions) -> dict[str, NDArray[Any]]:
    return result_columns(assessment, options.shown(assessment)[0])


def _instant(time: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    except OverflowError:  # beyond the years that datetimes know
        return datetime.max.replace(tzinfo=UTC) if time > 0 else datetime.min.replace(tzinfo=UTC)
