"""The fitted model, which answers all requests."""

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
    kind="precision", holds=False, reason="without precision= the precision of a list is not tested"
)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FittedModel(ModelParts):
    """A fitted recommender: immutable components that answer all requests together.

    The estimators' ``fit`` builds it. Use ``dataclasses.replace`` for a model with another
    component. Its attributes are those of :class:`ModelParts`.
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

        With `confidence` the result is a recommendation set with a guarantee. With `k` alone it is
        a short list of the k best items, with the probability of a hit.

        Parameters
        ----------
        user : id, optional
            A user of the data, whose own interactions are left out of the statistics.
        history : iterable of ids, optional
            The items of a new user in time order; with `user`, that user's history instead of the
            whole profile. A list of (item, time) pairs or a frame may include times.
        times : list, array or series, optional
            The time of each item of the history: datetimes, dates, ISO text or Unix times. They
            sort the history. If a scorer declares ``uses_times`` and there are none, the guarantee
            assumes a recent history.
        at : datetime, date, text or number, optional
            The time of the request, for histories without times; otherwise not before the last
            time. It applies to all histories of a group.
        segment : str, optional
            The segment of a new user, for models with segments.
        group : list or mapping, optional
            The members of a group: user ids, or lists of items (histories) of new users; a mapping
            names them. Items that any member has consumed are no candidates.
        query : Query, optional
            A query from ``model_.query``, instead of the parameters above.
        group_guarantee : str, optional
            The guarantee for a group. User-level: items that "any" (default), "most" or "all"
            members consume; the "worst"-served member; "hit-any" or "hit-all". Item-level, how
            p-values are merged: "mean" (twice the mean; default), "geometric", "harmonic" or
            "bonferroni" for items that every member consumes, "maximum" for some member.
        confidence, significance : float, optional
            1 − ε, or ε, between 0 and 1. The default is a confidence of 0.9, unless `k` is given.
        k : int, optional
            The k best items: of the set if a confidence is given, else of the whole ranking. The
            list has no guarantee; ``guarantee.full`` is that of the full set.
        exclude : iterable of ids, default=()
            Items to leave out. The result then has no guarantee.
        min_probability : float, optional
            Only items with at least this probability, without a guarantee. For user-level
            calibrations.
        precision : float, optional
            For models that guarantee precision: the share of shown items that is consumed, with
            `confidence` as the confidence of the guarantee.
        items : iterable of ids, optional
            Only these items may be recommended, without a guarantee.
        item_list : str, optional
            A calibrated item list (:meth:`add_item_list`): only its items, with a guarantee.
        unknown : {"check", "skip"}, default="check"
            Unknown ids in `items` are skipped with a ``LeftOutWarning`` that names the first five.
            If more than half are unknown, "check" raises an error and "skip" does not.

        Returns
        -------
        RecommendationSet
            Ordered by p-value, then score, then popularity. It may be empty if no item conforms at
            the confidence. For a group a :class:`GroupSet`, with each member's satisfaction.

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
                    "group= was given with user=, history=, query= or segment=. Pass all members, "
                    "users and histories alike, in group=."
                )
            refuse_times(times, None, "each member of a group has a history of their own")
            members = read_group(self.statistics, group, at)
            return _group_answers.group_set(self, members, checked, group_guarantee)
        if group_guarantee is not None:
            raise InputError(
                f"group_guarantee={group_guarantee!r} needs a group. Pass its members in group=."
            )
        return self.recommend_query(self._query(user, history, times, at, segment, query), checked)

    def recommend_query(self, query: Query, options: RecommendOptions) -> RecommendationSet:
        """Return the recommendation set of a query; see :meth:`recommend`."""
        query = options.limited(query)
        if query.allowed is not options.items:  # the query has its own
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
        """Return the probabilities of hits in a short list, or the reason for their absence."""
        if reason := without_hits(options, self.calibration, self.kind):
            return Hits(about=reason)
        if assessment.gap or not n_shown:
            return Hits(about=f"No probability: {assessment.gap or 'the list is empty'}.")
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
            By default all items outside the history, most popular first.
        codes : array of int, optional
            The codes of the items, instead of `items`.
        unknown : {"check", "skip"}, default="check"
            Treatment of unknown ids in `items`, as in :meth:`recommend`.

        Returns
        -------
        polars.DataFrame
            ``item_id``, ``p_value`` (item-level calibrations only), ``entry_confidence``.
        """
        require(self.calibration, "confidence", self.kind)
        query = self._query(user, history, times, at, segment, query)
        if codes is None and items is not None:
            codes = select_known(self.items, items, unknown)
        if codes is None:
            candidates = self.candidates(query)
            candidates = candidates[np.argsort(self.statistics.popularity[candidates])]
        else:
            candidates = check_codes("codes", codes, self.statistics.n_items)
            self._refuse_known(query, candidates, "it has no p-value")
        assessment = self.assess(query, candidates)
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
        """Return which items of the history support an item.

        Parameters
        ----------
        user, history, times, at, segment, query
            As in :meth:`recommend`; for groups, see :meth:`explain_group`.
        item : id
            The item to explain.
        """
        query = self._query(user, history, times, at, segment, query)
        code = self.items.code(item)
        self._refuse_known(query, np.array([code]), "it is not explained")
        assessment = self.assess(query, np.array([code]))
        return explain(self, self.calibration.scored(query), code, assessment)

    @property
    def valid_until(self) -> datetime | None:
        """The end of the calibrated window of a temporal split; None for a per-user split."""
        end = self.calibration.valid_until
        return None if end is None else _instant(end)

    def age(self, at: datetime | None = None) -> timedelta:
        """Return the time since the end of the held-out interactions.

        Parameters
        ----------
        at : datetime, optional
            The reference time, with a time zone; by default now.
        """
        moment = datetime.now(UTC) if at is None else check_kind("at", at, datetime, "a datetime")
        if moment.tzinfo is None:
            raise InputError(f"at is {moment}, without a time zone. Add one, such as UTC.")
        require(self.calibration, "period", self.kind)
        return moment - _instant(self.calibration.period[1])

    def guarantee_to_all(self, options: RecommendOptions) -> Guarantee:
        """Return the guarantee of the rows of :meth:`recommend_many` with ``covered``.

        Parameters
        ----------
        options : RecommendOptions
            Options from :meth:`options`.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
        >>> model = sr.InductiveConformal().fit(films).model_
        >>> print(model.guarantee_to_all(model.options(confidence=0.5)))
        An item new to the user that they consume next is left out with probability at most 50%.
        Assumes that the user's calibration items and future items are exchangeable. Drift of the
        user's taste weakens it.
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
        """Return the guarantee of one set, or of the sets of all covered users."""
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

    def _query(
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
            raise InputError(f"No other user consumed {shown(item)}: {why}.")


def _columns(assessment: Assessment, options: RecommendOptions) -> dict[str, NDArray[Any]]:
    return result_columns(assessment, options.shown(assessment)[0])


def _instant(time: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    except OverflowError:  # beyond the range of datetime
        return datetime.max.replace(tzinfo=UTC) if time > 0 else datetime.min.replace(tzinfo=UTC)
