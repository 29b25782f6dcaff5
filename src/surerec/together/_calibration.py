"""Sets for groups, calibrated on other groups' futures; and what that promises to whom."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._calendar import day_of
from surerec._state import State
from surerec.conformal import users_needed
from surerec.errors import InputError, LeftOutWarning, NotOffered, TooFewUsers
from surerec.futures import profile_cases
from surerec.together._aggregations import AGGREGATIONS, rank_together
from surerec.together._assessment import GroupAssessment
from surerec.together._forming import FORMED, form_groups
from surerec.together._outcomes import GroupOutcomes, observe_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        if len(cases) > 1 and len(np.unique(folds)) == len(cases):
            raise NotOffered(
                f"Groups are not offered with {scorer.called}: it leaves out one user at "
                "a time (a Scorer says by fold_of who can be left out together)."
            )
        if given is None:
            groups = form_groups(cases, size, formed, folds, seed)
        else:
            groups = _within(cases, given, folds, profiles.n_users, min_known)
            size = max((len(group) for group in groups), default=size)
        if not groups:
            whom = "of those given" if formed == "given" else f"of {size}"
            raise TooFewUsers(
                f"There is no group {whom} to calibrate on: {len(cases):,} users have "
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

    @property
    def people(self) -> str:
        """Whom it is about, in words."""
        if self.formed == "given":
            return f"groups such as those given, of up to {self.size}"
        how = "at random" if self.formed == "random" else "of similar people"
        return f"groups of {self.size} formed {how}"

    def state(self) -> State:
        """Return the outcomes, and how groups were formed; refuse an aggregation of one's own."""
        if AGGREGATIONS.get(self.aggregation.name) is not self.aggregation:
            raise InputError(
                f"Groups with the aggregation {self.aggregation.name!r} of your own cannot be "
                "saved: a folder holds no code."
            )
        about = {"formed": self.formed, "size": self.size, "aggregation": self.aggregation.name}
        return self.outcomes.state() | State(texts={"about": json.dumps(about)})

    @classmethod
    def from_state(
        cls, state: State, n_users: int, horizon: Horizon, min_known: int
    ) -> GroupCalibration:
        """Read it back; KeyError or ValueError if it is no such calibration."""
        about = json.loads(state.texts["about"])
        if not isinstance(about, dict) or state.texts.keys() != {"about"}:
            raise ValueError("what is said of its groups is no mapping")
        formed, size, by = about["formed"], about["size"], about["aggregation"]
        is_known = formed in (*FORMED, "given") and by in tuple(AGGREGATIONS)
        if not is_known or type(size) is not int or size < 1:
            raise ValueError("they are not those of calibration groups")
        outcomes = GroupOutcomes.from_state(state, n_users)
        return cls(outcomes, formed, size, AGGREGATIONS[by], horizon, min_known)

    def at(self, promise: GroupPromise) -> KeptPromise:
        """Give it with one of the promises that its groups can keep."""
        if self.formed != "given" and self.size > promise.largest:
            raise NotOffered(
                f"together={promise.name!r} is offered for groups of up to {promise.largest}, and "
                f"this one has {self.size}: in larger ones hardly any item counts."
            )
        return KeptPromise(self, promise)


@dataclass(frozen=True)
class KeptPromise:
    """One promise to groups, and the calibration that keeps it."""

    calibration: GroupCalibration
    promised: GroupPromise

    @property
    def together(self) -> str:
        """What it is called."""
        return self.promised.name

    @property
    def people(self) -> str:
        """Whom it is about, in words."""
        return self.calibration.people

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        company: Company,
        candidates: NDArray[np.int64],
        names: Sequence[str],
    ) -> GroupAssessment:
        """Evaluate candidates for a group; `names` call its members in words.

        Ranks are among all items that no member has taken, whatever the candidates.
        """
        outcomes = self.calibration.outcomes
        outside = scorer.candidates(statistics, company.known, company.users)
        member_ranks = company.ranks(scorer, statistics, outside)
        joint = None
        if self.calibration.aggregation.joint:
            joint = company.joint_ranks(scorer, statistics, outside)
        popularity = statistics.popularity_without(company.users, company.known)
        value, ranks = rank_together(
            self.calibration.aggregation, member_ranks, joint, popularity[outside]
        )
        curve, groups = self.calibration.curve(self.promised)
        own = outcomes.with_any_of(company.users)
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
            n_without=len(outcomes) - len(own) - curve.n_users,
        )

    def _gap(self, scorer: Scorer, company: Company, names: Sequence[str]) -> str:
        short = [
            name
            for name, query in zip(names, company.members, strict=True)
            if len(query.history) < self.calibration.min_known
        ]
        if short:
            return (
                f"fewer than {self.calibration.min_known} items are known of {', '.join(short)}, "
                "and more of every member of the calibration groups"
            )
        return folds_gap(scorer, company)

    def promise(self, significance: float, assessment: GroupAssessment) -> str:
        """Say what is promised to whom, with its assumption and how the groups were formed."""
        return self._in_words(significance, assessment.n_calibration, assessment.n_without)

    def promise_to_all(self, significance: float) -> str:
        """Return what the confidence guarantees to every covered group, with the assumption."""
        n = self.calibration.curve(self.promised)[0].n_users
        return self._in_words(significance, n, len(self.calibration.outcomes) - n)

    def _in_words(self, significance: float, n_calibration: int, without: int) -> str:
        future = _in_words(self.calibration.horizon)
        sentence = self.promised.sentence(significance, future, self.people)
        others = f", besides {without:,} that took no such item and do not count" if without else ""
        begin, end = (day_of(int(time)) for time in self.calibration.outcomes.period)
        return (
            f"{sentence}, if they are exchangeable with the {n_calibration:,} "
            f"calibration groups{others}, whose futures lie between {begin} and {end}: as the "
            "calendar moves on it holds less well. It is kept over groups, not for each member."
        )

    def beyond(self, significance: float, assessment: GroupAssessment) -> str:
        """Say what keeps every confidence from being supported: too few groups, or new items."""
        n, needed = assessment.n_calibration, users_needed(significance)
        if n < needed:
            return (
                f"Every item qualifies: a confidence of {1 - significance:.4g} needs at least "
                f"{needed:,} calibration groups with an item that {self.promised.whose} took, and "
                f"there {'is' if n == 1 else 'are'} {n:,}."
            )
        return (
            "None: too much of what calibration groups took next was unknown to the model, so no "
            f"set of known items supports a confidence above {assessment.highest_confidence:.4g}; "
            "every item is in the set."
        )


def _in_words(horizon: Horizon) -> str:
    if isinstance(horizon, float):
        return f"the last {horizon:.0%} of each member's items"
    return f"each member's next {'item' if horizon == 1 else f'{horizon} items'}"


def folds_gap(scorer: Scorer, company: Company) -> str:
    """Say why a scorer may know the futures of members; empty if it surely does not."""
    folds = scorer.fold_of(np.array(company.users, dtype=np.int64))
    if len(np.unique(folds[folds >= 0])) <= 1:
        return ""
    return (
        f"{scorer.name} was trained in folds, and these members are in several: each fold's model "
        "has learned from one of them"
    )


def check_leaves_out(scorer: Scorer) -> None:
    """Refuse a scorer that people cannot be left out of."""
    if scorer.leaves_users_out is not True:
        raise NotOffered(
            f"Groups are not offered with {scorer.called}: its members cannot be left out "
            "of what it learned."
        )


def _within(
    cases: Cases,
    given: Sequence[NDArray[np.int64]],
    folds: NDArray[np.int64],
    n_users: int,
    min_known: int,
) -> list[NDArray[np.int64]]:
    """Give the given groups whose members can all calibrate, and be left out together."""
    place_of = np.full(n_users, -1)
    place_of[cases.users] = np.arange(len(cases))
    groups = [place_of[members] for members in given]
    kept = [group for group in groups if (group >= 0).all() and len(np.unique(folds[group])) == 1]
    if 0 < len(kept) < len(groups):
        warnings.warn(
            f"{len(groups) - len(kept):,} of the {len(groups):,} given groups do not calibrate: of "
            f"a member fewer than {min_known} items and a future are known, or its members were "
            "trained on in several folds.",
            LeftOutWarning,
            stacklevel=5,
        )
    return kept
