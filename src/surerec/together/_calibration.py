"""Sets for groups, calibrated on other groups' futures; and what that promises to whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._calendar import day_of
from surerec.calibration import Terms, UserAssessment
from surerec.conformal import users_needed
from surerec.errors import InputError, NotOffered, TooFewUsers
from surerec.futures import profile_cases
from surerec.together._aggregations import AGGREGATIONS, rank_together, values_of
from surerec.together._forming import form_groups
from surerec.together._outcomes import GroupOutcomes, observe_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.conformal import RiskCurve
    from surerec.futures import Cases, Horizon
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.together._aggregations import Aggregation
    from surerec.together._company import Company
    from surerec.together._promises import GroupPromise

MOST_MEMBERS: Final = 8
"""Of groups that surerec forms itself."""


@dataclass(frozen=True, kw_only=True)
class GroupAssessment(UserAssessment):
    """The ε below which each candidate is in a group's set, and what each member makes of it."""

    member_ranks: NDArray[np.float64]
    """The rank of every candidate for every member, members × candidates."""
    group_ranks: NDArray[np.float64]
    """Its rank for the group."""
    n_without: int = 0
    """How many groups could not calibrate, as they took no such item."""

    def values(self) -> NDArray[np.float64]:
        """Give what every candidate is worth to every member, from 1 down to 0."""
        return values_of(self.member_ranks, len(self.candidates))


@dataclass(frozen=True, eq=False)
class GroupCalibration:
    """At ε, the smallest cut with which the calibration groups lose no more than ε.

    Parameters
    ----------
    outcomes : GroupOutcomes
        Where groups' rankings had what their members took next.
    formed : {"random", "similar", "given"}
        How the groups were formed.
    size : int
        How many members each has; for given groups the largest.
    aggregation : Aggregation
        What makes one ranking of the members'.
    horizon : float or int
        The future that it is about.
    min_known : int
        Members of whom less is known are promised nothing.
    """

    outcomes: GroupOutcomes
    formed: str
    size: int
    aggregation: Aggregation
    horizon: Horizon
    min_known: int

    @classmethod
    def of(
        cls,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        *,
        formed: str,
        size: int,
        aggregation: Aggregation,
        horizon: Horizon,
        min_known: int,
        most_groups: int,
        seed: int,
        given: Sequence[NDArray[np.int64]] | None = None,
    ) -> GroupCalibration:
        """Form groups over all users, and see where their futures had been ranked for them.

        Parameters
        ----------
        scorer, statistics
            What scores, and what is known.
        formed, size, aggregation, horizon, min_known
            As of the class.
        most_groups : int
            How many groups at the most, drawn at random.
        seed : int
            Of the draw.
        given : sequence of arrays of int, optional
            The members of given groups, by code.
        """
        profiles = statistics.interactions
        if profiles is None:
            raise InputError("These counts were given without profiles: no group can calibrate.")
        check_leaves_out(scorer)
        cases = profile_cases(profiles, horizon, min_known=min_known)
        folds = scorer.fold_of(cases.users)
        if given is None:
            groups = form_groups(cases, size, formed, folds, seed)
        else:
            groups = _within(cases, given, folds, profiles.n_users)
            size = max((len(group) for group in groups), default=size)
        if not groups:
            raise TooFewUsers(
                f"There is no group of {size} to calibrate on: {len(cases):,} users have "
                f"{min_known} known items and a future."
            )
        chosen = np.sort(np.random.default_rng(seed).permutation(len(groups))[:most_groups])
        groups = [groups[place] for place in chosen]
        (outcomes,) = observe_groups(scorer, statistics, cases, groups, aggregation)
        return cls(outcomes, formed, size, aggregation, horizon, min_known)

    @cached_property
    def _curves(self) -> dict[str, tuple[RiskCurve, NDArray[np.int64]]]:
        return {}

    def curve(self, promise: GroupPromise) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Give what groups lose as sets grow, and which groups these are."""
        if promise.name not in self._curves:
            self._curves[promise.name] = promise.curve_of(self.outcomes)
        return self._curves[promise.name]

    def check_offered(self, promise: GroupPromise) -> None:
        """Refuse a promise that so large groups are not offered."""
        if self.formed != "given" and self.size > promise.largest:
            raise NotOffered(
                f"together={promise.name!r} is offered for groups of up to {promise.largest}, and "
                f"this one has {self.size}: in larger ones hardly any item counts."
            )

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        company: Company,
        candidates: NDArray[np.int64],
        promise: GroupPromise,
        names: Sequence[str],
    ) -> GroupAssessment:
        """Evaluate candidates for a group; `names` call its members in words.

        Ranks are among all items that no member has taken, whatever the candidates.
        """
        self.check_offered(promise)
        outside = statistics.items_outside(company.known)
        member_ranks = company.ranks(scorer, statistics, outside)
        joint = None
        if self.aggregation.joint:
            joint = company.joint_ranks(scorer, statistics, outside)
        popularity = statistics.popularity
        value, ranks = rank_together(self.aggregation, member_ranks, joint, popularity[outside])
        curve, groups = self.curve(promise)
        own = self.outcomes.with_any_of(company.users)
        if own:
            curve = curve.of_owners(~np.isin(groups, list(own)))
        here = np.searchsorted(outside, candidates)
        return GroupAssessment(
            candidates=candidates,
            score=-ranks[here],
            shown=value[here].__getitem__,
            popularity=popularity,
            n_calibration=curve.n_users,
            levels_below=curve.levels(ranks[here]),
            lowest_level=curve.lowest_level(),
            gap=self._gap(scorer, company, names),
            member_ranks=member_ranks[:, here],
            group_ranks=ranks[here],
            n_without=len(self.outcomes) - len(own) - curve.n_users,
        )

    def _gap(self, scorer: Scorer, company: Company, names: Sequence[str]) -> str:
        short = [
            name
            for name, query in zip(names, company.members, strict=True)
            if len(query.history) < self.min_known
        ]
        if short:
            return (
                f"fewer than {self.min_known} items are known of {', '.join(short)}, and of the "
                "calibration groups' members more"
            )
        folds = scorer.fold_of(np.array(company.users, dtype=np.int64))
        if len(np.unique(folds[folds >= 0])) > 1:
            return (
                f"{scorer.name} was trained in folds, and these members are in several: each "
                "fold's model has learned from one of them"
            )
        return ""

    def promise(
        self, promise: GroupPromise, significance: float, assessment: GroupAssessment
    ) -> str:
        """Say what is promised to whom, with its assumption and how the groups were formed."""
        future = Terms(promise, self.horizon, None, (0, 0)).future()
        sentence = promise.sentence(significance, future, self.people)
        without = assessment.n_without
        others = f", besides {without:,} that took no such item and do not count" if without else ""
        begin, end = (day_of(int(time)) for time in self.outcomes.period)
        return (
            f"{sentence}, if they are exchangeable with the {assessment.n_calibration:,} "
            f"calibration groups{others}, whose futures lie between {begin} and {end}: as the "
            "calendar moves on it holds less well. Each member's own part is not promised anything "
            "by itself."
        )

    @property
    def people(self) -> str:
        """Whom it is about, in words."""
        if self.formed == "given":
            return f"groups such as those given, of up to {self.size}"
        how = "at random" if self.formed == "random" else "of similar people"
        return f"groups of {self.size} formed {how}"

    def beyond(
        self, promise: GroupPromise, significance: float, assessment: GroupAssessment
    ) -> str:
        """Say what keeps every confidence from being supported: too few groups, or new items."""
        n, needed = assessment.n_calibration, users_needed(significance)
        if n < needed:
            return (
                f"Every item qualifies: a confidence of {1 - significance:.4g} needs at least "
                f"{needed:,} calibration groups with an item that {promise.whose} took, and there "
                f"{'is' if n == 1 else 'are'} {n:,}."
            )
        return (
            "None: too much of what calibration groups took next was unknown to the model, so no "
            f"set of known items supports a confidence above {assessment.highest_confidence:.4g}; "
            "every item is in the set."
        )

    def about(self) -> dict[str, Any]:
        """Give what is stored of it beside the arrays; refuses an aggregation of one's own."""
        if AGGREGATIONS.get(self.aggregation.name) is not self.aggregation:
            raise InputError(
                f"Groups with the aggregation {self.aggregation.name!r} of your own cannot be "
                "saved: a folder holds no code."
            )
        return {"formed": self.formed, "size": self.size, "aggregation": self.aggregation.name}

    def restored(self, about: Mapping[str, Any]) -> GroupCalibration:
        """Give it as it was; KeyError or ValueError if `about` is not of such a calibration."""
        formed, size = about["formed"], about["size"]
        if formed not in {"random", "similar", "given"} or type(size) is not int or size < 1:
            raise ValueError("they are not those of calibration groups")
        return replace(
            self, formed=formed, size=size, aggregation=AGGREGATIONS[about["aggregation"]]
        )


def check_leaves_out(scorer: Scorer) -> None:
    """Refuse a scorer that people cannot be left out of."""
    if scorer.leaves_users_out is not True:
        raise NotOffered(
            f"Groups are not offered with the scorer {scorer.name}: its members cannot be left out "
            "of what it learned."
        )


def _within(
    cases: Cases, given: Sequence[NDArray[np.int64]], folds: NDArray[np.int64], n_users: int
) -> list[NDArray[np.int64]]:
    """Give the given groups whose members can all calibrate, and be left out together."""
    place_of = np.full(n_users, -1)
    place_of[cases.users] = np.arange(len(cases))
    groups = [place_of[members] for members in given]
    return [group for group in groups if (group >= 0).all() and len(np.unique(folds[group])) == 1]
