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
from surerec.calibration import Guarantee, codes_in, level_of
from surerec.conformal import users_needed
from surerec.errors import InputError, LeftOutWarning, NotOffered, TooFewUsers
from surerec.together._aggregations import AGGREGATIONS, rank_together
from surerec.together._assessment import GroupAssessment
from surerec.together._forming import FORMED, form_groups
from surerec.together._outcomes import GroupOutcomes, observe_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases, Horizon
    from surerec.conformal import RiskCurve
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
    future : str
        The held-out interactions of each member, in words.
    min_known : int
        Groups with a member of whom less is known have no guarantee.
    whom : str, default=""
        Who the members are, in words, where not everybody is covered.
    """

    outcomes: GroupOutcomes
    formed: str
    size: int
    aggregation: Aggregation
    future: str
    min_known: int
    whom: str = ""

    @classmethod
    def of(
        cls,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        cases: Cases,
        *,
        serving: PrecedenceStatistics,
        formed: str,
        size: int,
        aggregation: Aggregation,
        future: str,
        min_known: int,
        whom: str,
        most_groups: int,
        seed: int,
        given: Sequence[NDArray[np.int64]] | None = None,
    ) -> GroupCalibration:
        """Form groups of the cases, and see where their held-out items are ranked for them.

        Parameters
        ----------
        scorer, statistics
            The scorer to calibrate, and what was known then.
        cases : Cases
            The calibration users. Either the scorer leaves them out, or it learned nothing of
            their held-out interactions.
        serving : PrecedenceStatistics
            Those that answer later, whose codes name the members.
        formed, size, aggregation, future, min_known, whom
            As of the class.
        most_groups : int
            How many groups at the most, drawn at random.
        seed : int
            Of the draw.
        given : sequence of arrays of int, optional
            The members of given groups, by code.
        """
        folds = np.zeros(len(cases), dtype=np.int64)
        if scorer.leaves_users_out is True:
            folds = scorer.fold_of(codes_in(statistics, cases.interactions)[0][cases.users])
        if len(cases) > 1 and len(np.unique(folds)) == len(cases):
            raise NotOffered(
                f"Groups are not offered with {scorer.called}: it leaves out one user at "
                "a time (a Scorer says by fold_of who can be left out together)."
            )
        if given is None:
            groups = form_groups(cases, size, formed, folds, seed)
        else:
            groups = _within(cases, given, folds, min_known)
            size = max((len(group) for group in groups), default=size)
        if not groups:
            whom = "of those given" if formed == "given" else f"of {size}"
            raise TooFewUsers(
                f"There is no group {whom} to calibrate on: {len(cases):,} users have "
                f"{min_known} known items and a future."
            )
        chosen = np.sort(np.random.default_rng(seed).permutation(len(groups))[:most_groups])
        groups = [groups[place] for place in chosen]
        (outcomes,) = observe_groups(
            scorer, statistics, cases, groups, aggregation, serving=serving
        )
        return cls(outcomes, formed, size, aggregation, future, min_known, whom)

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
            return f"groups such as those given, of up to {self.size}{self.whom}"
        how = "at random" if self.formed == "random" else "of similar users"
        return f"groups of {self.size}{self.whom} formed {how}"

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
        cls, state: State, n_users: int, future: str, min_known: int, whom: str
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
        return cls(outcomes, formed, size, AGGREGATIONS[by], future, min_known, whom)

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

    def guarantee(
        self, significance: float, assessment: GroupAssessment | None = None
    ) -> Guarantee:
        """Return what the confidence guarantees, to a group or to every covered one."""
        n = self.calibration.curve(self.promised)[0].n_users
        without = len(self.calibration.outcomes) - n
        if assessment is not None:
            n, without = assessment.n_calibration, assessment.n_without
        horizon = self.calibration.future
        begin, end = (day_of(int(time)) for time in self.calibration.outcomes.period)
        others = f", besides {without:,} that took no such item" if without else ""
        alike = f"groups exchangeable with the {n:,} calibration groups ({begin} to {end}){others}"
        return Guarantee(
            kind=self.promised.guarantees,
            level=level_of(significance),
            claim=self.promised.sentence(significance, horizon, self.people),
            horizon=horizon,
            n_calibration=n,
            period=(begin, end),
            covers=self.people,
            assumptions=(
                f"Assumes {alike}, and no drift since.",
                "It is kept over groups, not for each member.",
            ),
        )

    def beyond(self, significance: float, assessment: GroupAssessment) -> str:
        """Return what keeps a confidence from being supported: too few groups, or new items."""
        n, needed = assessment.n_calibration, users_needed(significance)
        if n < needed:
            return (
                f"a confidence of {1 - significance:.4g} needs at least {needed:,} calibration "
                f"groups with an item that {self.promised.whose} took, and there "
                f"{'is' if n == 1 else 'are'} {n:,}, so every item qualifies"
            )
        return (
            "too much of what calibration groups took next was unknown to the model, so no set of "
            f"known items supports a confidence above {assessment.highest_confidence:.4g}, and "
            "every item qualifies"
        )


def members_future(horizon: Horizon, window: float | None) -> str:
    """Return the held-out interactions of a group's members in words.

    Examples
    --------
    >>> members_future(0.4, None), members_future(1, None)
    ("the last 40% of each member's items", "each member's next item")
    >>> members_future(0.4, 30.0), members_future(5, 30.0)
    ("each member's items of the next 30 days", "each member's next 5 items within 30 days")
    """
    if isinstance(horizon, float):
        if window is None:
            return f"the last {horizon:.0%} of each member's items"
        return f"each member's items of the next {window:g} days"
    within = "" if window is None else f" within {window:g} days"
    return f"each member's next {'item' if horizon == 1 else f'{horizon} items'}{within}"


def folds_gap(scorer: Scorer, company: Company) -> str:
    """Say why a scorer may know the futures of members; empty if it surely does not."""
    folds = scorer.fold_of(np.array(company.users, dtype=np.int64))
    if scorer.leaves_users_out is not True or len(np.unique(folds[folds >= 0])) <= 1:
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
    min_known: int,
) -> list[NDArray[np.int64]]:
    """Return the given groups whose members can all calibrate, and be left out together."""
    place_of = np.full(cases.interactions.n_users, -1)
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
