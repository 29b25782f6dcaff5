"""Questions about one person: a set, p-values, an explanation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_codes, check_kind
from surerec._columns import Columns, frame_of
from surerec._shown import shown
from surerec.errors import InProfile, InputError, NotOffered
from surerec.measures import Query
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._later import LaterColumns
from surerec.recommenders._offers import select_known
from surerec.recommenders._party import is_party
from surerec.recommenders._query import assumed_of, refuse_times, resolve
from surerec.recommenders._sets import (
    RecommendationSet,
    guarantee,
    p_value_column,
    result_columns,
)
from surerec.recommenders._together import AskingTogether
from surerec.recommenders._wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from surerec.calibration import Assessment, Calibration


_ANYTHING: Final = Wanted()


class Asking(AskingTogether):
    """Gives a recommender its questions about one person, or one group."""

    def query(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        group: Any = None,
    ) -> Query:
        """Turn ids into a query, as all questions do; one query may be asked several of them.

        Parameters
        ----------
        user, history, times, at, group
            As in :meth:`recommend`.
        """
        self.require_fit()
        if is_party(group):
            raise InputError(
                "This question is about one person; to a group of several recommend and "
                "explain_group answer."
            )
        found = resolve(self.statistics_, self.items_, user, history, times, at)
        if group is None:
            return found
        if self._user_groups() is None:
            raise NotOffered(
                f"This {type(self).__name__} has no groups by a column of people's own: ask "
                "without group=."
            )
        return replace(found, group=str(group))

    def assumption(self, query: Query) -> str:
        """Return what guarantees assume of a query without times; a sentence, or "".

        It is not empty only for a scorer that declares ``uses_times``.

        Parameters
        ----------
        query : Query
            What :meth:`query` made.
        """
        self.require_fit()
        return assumed_of(self.scorer_, query)

    def candidates(self, query: Query) -> NDArray[np.int64]:
        """Give the codes of the items that may be recommended."""
        self._within(query)
        outside = self.scorer_.candidates(self.statistics_, query.history, query.users)
        return outside if query.allowed is None else np.intersect1d(outside, query.allowed)

    def assess(
        self,
        query: Query,
        candidates: NDArray[np.int64] | None = None,
        *,
        wanted: Wanted | None = None,
    ) -> Assessment:
        """Evaluate candidates: the confidence at which each enters the set, by code.

        Parameters
        ----------
        query : Query
            Whom it is about.
        candidates : array of int, optional
            Item codes outside the history; by default all that may be recommended.
        wanted : Wanted, optional
            What is asked for, where that says by which calibration.
        """
        scorer = self.scorer_
        if candidates is None:
            candidates = self._listed_of(self.candidates(query), wanted)
        else:
            self._within(query)
            candidates = check_codes("candidates", candidates, self.statistics_.n_items)
        calibration = self._calibration_for(wanted or _ANYTHING)
        return calibration.assess(scorer, self.statistics_, query, candidates)

    def _calibration_for(self, wanted: Wanted) -> Calibration:  # noqa: ARG002
        """Give the calibration that serves what is wanted."""
        return self._calibration()

    def _listed_of(
        self,
        candidates: NDArray[np.int64],
        wanted: Wanted | None,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """Give the candidates that are in the list that is asked for."""
        return candidates

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
            1 − ε, or ε itself: one of the two, in (0, 1).
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
        wanted = self.wanted(
            confidence,
            significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
            unknown=unknown,
        )
        wanted = self._leaving_out(wanted, exclude)
        if is_party(group):
            _refuse_more(user, history, query)
            refuse_times(times, None, "each member of a group has one of their own")
            return self._set_together(self.party(group, at), wanted, together)
        _refuse_together(together)
        asked = wanted.limited(self._asked(user, history, times, at, group, query))
        return self._set_of(asked, wanted, self.assess(asked, wanted=wanted))

    def _set_of(self, asked: Query, wanted: Wanted, assessment: Assessment) -> RecommendationSet:
        """Give the set of what is wanted, with what is promised of it."""
        epsilon, sizes = wanted.significance, wanted.sizes(assessment)
        columns: Mapping[str, NDArray[Any]]
        if sizes is not None:
            n_shown, full_size = sizes

            def columns_now() -> Mapping[str, NDArray[Any]]:
                return result_columns(assessment, wanted.shown(assessment).places)

            columns = LaterColumns(columns_now, n_shown)
        else:
            shown = wanted.shown(assessment)
            n_shown, full_size = len(shown.places), shown.full_size
            columns = result_columns(assessment, shown.places)
        return RecommendationSet(
            columns=columns,
            catalogue=self.items_.ids,
            titles=self.titles_,
            history=asked.history,
            significance=epsilon,
            guarantee=guarantee(
                self._calibration_for(wanted),
                epsilon,
                assessment,
                is_whole=n_shown == full_size and asked.allowed is None,
                assumes=self.assumption(asked),
            ),
            full_size=full_size,
            n_candidates=len(assessment.candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(epsilon),
            ignored=asked.ignored,
            recommender=self.name_,
            about_probability=assessment.about_chances,
            precision=wanted.precision,
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
        self.require_confidence()
        asked = self._asked(user, history, times, at, group, query)
        if codes is None and items is not None:
            codes = select_known(self.items_, items, unknown)
        if codes is None:
            candidates = self.candidates(asked)
            candidates = candidates[np.argsort(self.statistics_.popularity[candidates])]
        else:
            candidates = check_codes("codes", codes, self.statistics_.n_items)
            self._refuse_known(asked, candidates, "it has no p-value")
        assessment = self.assess(asked, candidates)
        return frame_of(
            {
                Columns.Item: self.items_.ids.gather(candidates),
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
        code = self.items_.code(item)
        self._refuse_known(asked, np.array([code]), "there is nothing to explain")
        assessment = self.assess(asked, np.array([code]))
        scored = self._calibration().scored(asked)
        found = explain(self.statistics_, self.items_, scored, code, assessment, self.scorer_)
        return replace(found, recommender=self.name_)

    def _asked(
        self, user: Any, history: Any, times: Any, at: Any, group: Any, query: Query | None
    ) -> Query:
        """Give what is asked: the query that was made before, or one of ids."""
        if query is None:
            return self.query(user, history=history, times=times, at=at, group=group)
        refuse_times(times, at, "query= has times of its own")
        return self._within(query)

    def _within(self, query: Query) -> Query:
        """Refuse what is no query, or has codes that are not there."""
        self.require_fit()
        check_kind("query", query, Query, "a Query, as Recommender.query makes it")
        profiles = self.statistics_.interactions
        return query.within(self.statistics_.n_items, 0 if profiles is None else profiles.n_users)

    def _refuse_known(self, query: Query, codes: NDArray[np.int64], why: str) -> None:
        taken = np.isin(codes, query.history)
        if taken.any():
            raise InProfile(self.items_[int(codes[int(np.argmax(taken))])], why)
        unknown = np.isin(codes, self.scorer_.unknown(self.statistics_, query.users))
        if unknown.any():
            item = self.items_[int(codes[int(np.argmax(unknown))])]
            raise InputError(f"Nobody else consumed {shown(item)}: {why}.")


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
