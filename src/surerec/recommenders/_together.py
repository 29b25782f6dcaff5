"""Questions about groups of people who choose together: one set for all of them, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec.calibration import Uncalibrated
from surerec.errors import InputError, NotOffered
from surerec.interactions import read_members
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._group_sets import GroupExplanation, GroupSet
from surerec.recommenders._offers import Offers
from surerec.recommenders._party import Party, read_party
from surerec.recommenders._query import assumed_of
from surerec.recommenders._sets import (
    RANKS_ONLY,
    guarantee,
    left_out_of,
    result_columns,
    result_frame,
    stacked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.measures import Query
    from surerec.recommenders._wanted import Wanted
    from surerec.together import GroupAssessment, KeptPromise, MergedAssessment, MergedPValues


class AskingTogether(Offers):
    """Gives a recommender its questions about groups."""

    def party(self, group: Any, at: Any = None) -> Party:
        """Turn the members of a group into queries; see :meth:`recommend`."""
        self.require_fit()
        return read_party(self.statistics_, self.items_, group, at)

    def offers_together(self) -> tuple[str, ...]:
        """Give what can be promised to groups, by name; nothing if there are no sets for them."""
        return ()

    def assess_group(
        self, group: Any, together: str | None = None, *, at: Any = None
    ) -> tuple[GroupAssessment | MergedAssessment, Party, str]:
        """Evaluate all candidates of a group, for every confidence; see :meth:`recommend`.

        Gives its members too, and what is promised to it by name.
        """
        party = self.party(group, at)
        kept = self._for_groups(len(party), together)
        return self.assess_together(party, self._candidates_of(party), kept), party, kept.together

    def _for_groups(self, n_members: int, together: str | None) -> KeptPromise | MergedPValues:  # noqa: ARG002
        """Give what serves groups of so many, with what is to be promised to them."""
        raise NotOffered(
            f"{type(self).__name__} has no sets for groups; PopulationConformal and "
            "InductiveConformal have."
        )

    def assess_together(
        self,
        party: Party,
        candidates: NDArray[np.int64],
        kept: KeptPromise | MergedPValues,
    ) -> GroupAssessment | MergedAssessment:
        """Evaluate candidates for a group: the confidence at which each enters its set, by code."""
        return kept.assess(self.scorer_, self.statistics_, party.company, candidates, party.words)

    def _candidates_of(self, party: Party, wanted: Wanted | None = None) -> NDArray[np.int64]:
        company = party.company
        outside = self.scorer_.candidates(self.statistics_, company.known, company.users)
        if wanted is None or wanted.allowed is None:
            return outside
        return np.intersect1d(outside, wanted.allowed)

    def _set_together(self, party: Party, wanted: Wanted, together: str | None) -> GroupSet:
        """Give the set of what is wanted for a group, with what is promised of it."""
        if wanted.min_probability is not None or wanted.among is not None or wanted.precision:
            raise NotOffered(
                "A group's set has no probabilities, precision or named lists: ask for it without "
                "min_probability=, precision= and among=."
            )
        kept = self._for_groups(len(party), together)
        candidates = self._candidates_of(party, wanted)
        assessment = self.assess_together(party, candidates, kept)
        epsilon, shown = wanted.significance, wanted.shown(assessment)
        return GroupSet(
            columns=result_columns(assessment, shown.places),
            catalogue=self.items_.ids,
            titles=self.titles_,
            history=party.company.known,
            significance=epsilon,
            guarantee=guarantee(
                kept,
                epsilon,
                assessment,
                is_whole=shown.is_whole and wanted.allowed is None,
                whom="group",
                assumes=assumed_of(self.scorer_, *party.company.members),
            ),
            full_size=shown.full_size,
            n_candidates=len(candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(epsilon),
            ignored=party.ignored,
            recommender=self.name_,
            members=party.names,
            satisfaction=tuple(assessment.satisfaction(shown.places).tolist()),
            together=kept.together,
            formed=kept.people,
            covered=assessment.covers(epsilon),
            values=assessment.values(shown.places),
            member_ranks=assessment.member_ranks[:, shown.places],
        )

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
        party = self.party(group, at)
        code, candidates = self.items_.code(item), self._candidates_of(party)
        self._refuse_taken(party, code)
        kept = self._for_groups(len(party), together)
        found = self.assess_together(party, candidates, kept)
        place = int(np.searchsorted(candidates, code))
        order = found.ordered(None)
        reasons = tuple(self._reason(party.company.asked(m), code) for m in range(len(party)))
        return GroupExplanation(
            item=self.items_[code],
            title=reasons[0].title,
            rank=int(np.flatnonzero(order == place)[0]) + 1,
            n_candidates=len(candidates),
            entry_confidence=float(found.entry_confidences[place]),
            members=party.names,
            ranks=tuple(int(rank) for rank in found.member_ranks[:, place]),
            reasons=reasons,
            recommender=self.name_,
        )

    def _reason(self, query: Query, code: int) -> Explanation:
        """Say what speaks for an item for one member, everybody left out."""
        only = np.array([code])
        scored = self._calibration().scored(query)
        found = Uncalibrated().assess(self.scorer_, self.statistics_, scored, only)
        said = explain(self.statistics_, self.items_, scored, code, found, self.scorer_)
        return replace(said, recommender=self.name_)

    def _refuse_taken(self, party: Party, code: int) -> None:
        for name, query in zip(party.words, party.company.members, strict=True):
            if code in query.history:
                raise InputError(
                    f"{name.capitalize()} has taken {self.items_[code]!r} already: it is no "
                    "candidate for the group."
                )

    def guarantee_to_groups(self, groups: Any, wanted: Wanted, together: str | None = None) -> str:
        """Return what rows of :meth:`recommend_groups` guarantee to groups with ``covered``.

        Parameters
        ----------
        groups, together
            As in :meth:`recommend_groups`. Groups of each size have a guarantee of their own.
        wanted : Wanted
            As :meth:`wanted` gives it.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> said = model.guarantee_to_groups({"a": [7, 3]}, model.wanted(0.5))
        >>> said.startswith("An item new to every member that everyone in a group will take is")
        True
        """
        epsilon = wanted.significance
        if epsilon is None:
            return RANKS_ONLY
        sizes = sorted({len(members) for members in read_members(groups).values()})
        each = (self._for_groups(size, together).promise_to_all(epsilon) for size in sizes)
        return left_out_of(wanted, " ".join(dict.fromkeys(each)))

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
        wanted = self.wanted(confidence, significance, k=k, items=items, unknown=unknown)
        names, found = [], []
        for name, members in read_members(groups).items():
            try:
                found.append(self._set_together(self.party(members, at), wanted, together))
            except InputError as error:
                raise InputError(f"Group {name!r}: {error}") from error
            names.append(str(name))
        if not found:
            raise InputError("There are no groups: give at least one.")
        columns, owners = stacked(
            [{**each.columns, Columns.Covered: np.full(len(each), each.covered)} for each in found]
        )
        return (
            result_frame(columns, self.items_.ids, self.titles_)
            .with_columns(
                pl.Series("least_served", [str(found[owner].least_served) for owner in owners]),
                pl.Series("satisfaction", [min(found[owner].satisfaction) for owner in owners]),
            )
            .select(
                pl.Series("group", [names[owner] for owner in owners], dtype=pl.String), pl.all()
            )
        )
