"""User-level calibration on groups of users who choose together."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_choice, check_list, check_whole
from surerec._state import State
from surerec._words import day_of
from surerec.calibration import Guarantee, UserAssessment, codes_in, level_of
from surerec.conformal import users_needed
from surerec.errors import InputError, LeftOutWarning, NotSupportedError, TooFewUsersError
from surerec.interactions import read_members
from surerec.recommenders import _group_rankings as rankings
from surerec.recommenders._group_rankings import (
    AGGREGATIONS,
    FORMED,
    GROUP_GUARANTEE_KINDS,
    GroupOutcomes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from surerec.calibration import Cases
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._group_rankings import Aggregation, GroupGuaranteeKind
    from surerec.recommenders._query import Group

MOST_MEMBERS: Final = 8
"""The largest size of groups that surerec forms itself."""
GROUP_PRECISION: Final = (
    "There is no precision guarantee for groups. Fit a model with guarantee='recall' or 'hit'."
)
GIVEN: Final = 0  # the key of given groups of all sizes
_SIZE: Final = "size"
_CALIBRATING: Final = Lock()


@dataclass(frozen=True, eq=False)
class Sample:
    """A scorer, the statistics that it was calibrated with, and its calibration users."""

    scorer: Scorer
    past: PrecedenceStatistics
    cases: Cases


@dataclass(frozen=True, kw_only=True)
class OfMembers:
    """Adds the members' ranks of the candidates to an assessment."""

    member_ranks: NDArray[np.float64]
    """The rank of each candidate for each member, members × candidates."""

    def values(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the value of some candidates to each member, from 1 (best) to 0."""
        n = int(self.member_ranks.max(initial=2))
        return rankings.values_of(self.member_ranks[:, places], n)

    def satisfaction(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return, for each member, the share of their own n best items among n candidates.

        It is 1 for a member who would receive the same set alone, and NaN for no candidates.
        """
        n = len(places)
        if not n:
            return np.full(len(self.member_ranks), np.nan)
        own = np.argsort(np.argsort(self.member_ranks, axis=1), axis=1)
        return np.asarray((own[:, places] < n).mean(axis=1))


@dataclass(frozen=True, kw_only=True)
class GroupAssessment(OfMembers, UserAssessment):
    """The significance level at which each candidate leaves a group's set."""


@dataclass(frozen=True, eq=False)
class GroupCalibration:
    """At ε, chooses the smallest set with which the calibration groups lose no more than ε.

    Parameters
    ----------
    outcomes : GroupOutcomes
        The ranks of the members' held-out items in the groups' rankings.
    formed : {"random", "similar", "given"}
        How the groups were formed.
    size : int
        Number of members; for given groups the largest.
    aggregation : Aggregation
        Combines the members' rankings.
    future : str
        Description of each member's held-out interactions.
    min_history : int
        Groups with a member with a shorter history have no guarantee.
    whom : str, default=""
        Description of the members, if not all users are covered.
    guarantee_kind : GroupGuaranteeKind
        The guarantee.
    """

    outcomes: GroupOutcomes
    formed: str
    size: int
    aggregation: Aggregation
    future: str
    min_history: int
    whom: str = ""
    guarantee_kind: GroupGuaranteeKind = GROUP_GUARANTEE_KINDS["any"]

    @property
    def group_guarantee(self) -> str:
        """The name of the guarantee."""
        return self.guarantee_kind.name

    @property
    def covers(self) -> str:
        """Description of the covered groups."""
        if self.formed == "given":
            return f"groups like the given ones, of up to {self.size}{self.whom}"
        return f"{self.formed} groups of {self.size}{self.whom}"

    def state(self) -> State:
        """Return the outcomes and how groups were formed; custom aggregations cannot be saved."""
        if AGGREGATIONS.get(self.aggregation.name) is not self.aggregation:
            raise InputError(
                f"The custom aggregation {self.aggregation.name!r} cannot be saved, because a "
                f"folder stores no code. Use one of {', '.join(AGGREGATIONS)}."
            )
        about = {"formed": self.formed, "size": self.size, "aggregation": self.aggregation.name}
        return self.outcomes.state() | State(texts={"about": json.dumps(about)})

    @classmethod
    def from_state(
        cls, state: State, n_users: int, future: str, min_history: int, whom: str
    ) -> GroupCalibration:
        """Restore it from its state; raise KeyError or ValueError if they do not match."""
        about = json.loads(state.texts["about"])
        if not isinstance(about, dict) or state.texts.keys() != {"about"}:
            raise ValueError("the description of its groups is no mapping")
        formed, size, by = about["formed"], about["size"], about["aggregation"]
        is_known = formed in (*FORMED, "given") and by in tuple(AGGREGATIONS)
        if not is_known or type(size) is not int or size < 1:
            raise ValueError("the description of its groups is invalid")
        outcomes = GroupOutcomes.from_state(state, n_users)
        return cls(outcomes, formed, size, AGGREGATIONS[by], future, min_history, whom)

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        group: Group,
        candidates: NDArray[np.int64],
    ) -> GroupAssessment:
        """Evaluate candidates for a group, by their ranks among all items new to every member."""
        outside = scorer.candidates(statistics, group.known, group.users)
        ranked = rankings.group_ranks(self.aggregation, scorer, statistics, group, outside)
        member_ranks, values, ranks = ranked
        curve, groups = self.outcomes.curve(self.guarantee_kind)
        own = self.outcomes.with_any_of(group.users)
        if len(own):
            curve = curve.of_owners(~np.isin(groups, own))
        here = np.searchsorted(outside, candidates)
        return GroupAssessment(
            candidates=candidates,
            score=-ranks[here],
            shown=values[here].__getitem__,
            popularity=statistics.popularity_without(group.users, group.known),
            n_calibration=curve.n_users,
            levels_below=curve.levels(ranks[here]),
            lowest_level=curve.lowest_level(),
            gap=self._gap(scorer, group),
            member_ranks=member_ranks[:, here],
        )

    def _gap(self, scorer: Scorer, group: Group) -> str:
        least = self.min_history
        members = zip(group.words, group.members, strict=True)
        short = [name for name, query in members if len(query.history) < least]
        if short:
            return (
                f"the history of {', '.join(short)} has fewer than {least} items, unlike those of "
                "the calibration groups"
            )
        return folds_gap(scorer, group)

    def guarantee(
        self, significance: float, assessment: GroupAssessment | None = None
    ) -> Guarantee:
        """Return the guarantee for one group, or for all covered groups."""
        n = self.outcomes.curve(self.guarantee_kind)[0].n_users
        if assessment is not None:
            n = assessment.n_calibration
        begin, end = (day_of(int(time)) for time in self.outcomes.period)
        alike = f"groups exchangeable with the {n:,} calibration groups ({begin} to {end})"
        return Guarantee(
            kind=self.guarantee_kind.guarantees,
            level=level_of(significance),
            claim=self.guarantee_kind.sentence(significance, self.future, self.covers),
            horizon=self.future,
            n_calibration=n,
            period=(begin, end),
            covers=self.covers,
            assumptions=(f"Assumes {alike} and no drift since.",),
        )

    def beyond(self, significance: float, assessment: GroupAssessment) -> str:
        """Return the reason why every item qualifies: too few groups, or too many new items."""
        n, needed = assessment.n_calibration, users_needed(significance)
        if n < needed:
            return (
                f"a confidence of {1 - significance:.4g} needs at least {needed:,} calibration "
                f"groups with an item that {self.guarantee_kind.whose} consumed, and there "
                f"{'is' if n == 1 else 'are'} {n:,}, so every item qualifies"
            )
        return (
            "too many items that calibration groups consumed next are unknown to the model: the "
            f"highest confidence is {assessment.highest_confidence:.4g}, so every item qualifies"
        )


@dataclass(frozen=True)
class CalibratedGroups:
    """Thresholds calibrated on groups of calibration users, by size.

    Other sizes are calibrated on first use, on random groups and with the average.
    """

    future: str
    """Description of each member's held-out interactions."""
    min_history: int
    n_calibration: int
    random_state: int
    sample: Callable[[Any], Sample]
    """Returns the users of a fitted model who may be in calibration groups."""
    held_out: bool
    """Whether held-out interactions are unknown to a scorer that cannot leave users out."""
    tested: bool
    """Whether the model guarantees precision, which has no version for groups."""
    whom: str = ""
    """Description of the members, if not all users are covered."""
    by_size: dict[int, GroupCalibration] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The calibrated sizes; with given groups, up to the largest."""
        if GIVEN in self.by_size:
            return tuple(range(2, self.by_size[GIVEN].size + 1))
        return tuple(sorted(self.by_size))

    def allows(self, scorer: Scorer) -> bool:
        """Return whether a scorer can be calibrated on groups."""
        out = scorer.leaves_users_out
        return out is True or (self.held_out and out is False)

    def of(self, model: Any, n_members: int, group_guarantee: str | None) -> GroupCalibration:
        """Return the calibration for groups of a size; calibrate on first use."""
        name = "any" if group_guarantee is None else group_guarantee
        guarantee = GROUP_GUARANTEE_KINDS[
            check_choice("group_guarantee", name, GROUP_GUARANTEE_KINDS)
        ]
        given = self.by_size.get(GIVEN)
        if given is not None:
            if n_members > given.size:
                raise NotSupportedError(
                    f"The group has {n_members} members, but the largest calibration group has "
                    f"{given.size}. Calibrate on larger groups, or ask for a smaller one."
                )
            return replace(given, guarantee_kind=guarantee)
        if n_members > MOST_MEMBERS:
            raise NotSupportedError(
                f"The group has {n_members} members, but surerec forms calibration groups of up to "
                f"{MOST_MEMBERS}. Pass your own groups: model.calibrate_groups(groups=…)."
            )
        with _CALIBRATING:  # threads may request the first group of a size at once
            if n_members not in self.by_size:
                by = rankings.find_aggregation("average")
                self.by_size[n_members] = self._calibrate(model, "random", n_members, by)
        if n_members > guarantee.largest:
            raise NotSupportedError(
                f"group_guarantee={guarantee.name!r} supports groups of up to {guarantee.largest}, "
                f"and this one has {n_members}: larger groups hardly ever consume such an item. "
                "Use group_guarantee='any'."
            )
        return replace(self.by_size[n_members], guarantee_kind=guarantee)

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, is in a calibration group."""
        return any(user in each.outcomes.users for each in self.by_size.values())

    def state(self) -> State:
        """Return the state of all calibrations."""
        return State.numbered(_SIZE, (each.state() for each in self.by_size.values()))

    def from_state(self, state: State, n_users: int) -> CalibratedGroups:
        """Restore calibrations from their state; raise KeyError or ValueError on a mismatch."""
        states, rest = state.split_numbered(_SIZE)
        rest.require_empty("a calibration on groups")
        found = [
            GroupCalibration.from_state(each, n_users, self.future, self.min_history, self.whom)
            for each in states
        ]
        by_size = {GIVEN if each.formed == "given" else each.size: each for each in found}
        return replace(self, by_size=by_size)

    def calibrated(
        self,
        model: Any,
        sizes: int | Iterable[int],
        formed: str,
        aggregation: str | Aggregation,
        groups: Any,
    ) -> CalibratedGroups:
        """Return a copy with some sizes calibrated, or with given groups only."""
        how, by = check_choice("formed", formed, FORMED), rankings.find_aggregation(aggregation)
        if groups is not None:
            made = self._calibrate(model, "given", GIVEN, by, groups)
            return replace(self, by_size={GIVEN: made})
        one = isinstance(sizes, (int, np.integer))
        found = dict(self.by_size)
        for size in [sizes] if one else check_list("sizes", sizes, "numbers"):
            n = check_whole("size", size, lowest=2, highest=MOST_MEMBERS)
            found[n] = self._calibrate(model, how, n, by)
        return replace(self, by_size=found)

    def _calibrate(
        self, model: Any, formed: str, size: int, aggregation: Aggregation, given: Any = None
    ) -> GroupCalibration:
        """Form groups of the sample, and rank their held-out items."""
        if self.tested:
            raise NotSupportedError(GROUP_PRECISION)
        if not self.allows(model.scorer):
            refuse_scorer(model.scorer)
        sample = self.sample(model)
        scorer, past, cases = sample.scorer, sample.past, sample.cases
        folds = np.zeros(len(cases), dtype=np.int64)
        if scorer.leaves_users_out is True:
            folds = scorer.fold_of(codes_in(past, cases.interactions)[0][cases.users])
        if len(cases) > 1 and len(np.unique(folds)) == len(cases):
            raise NotSupportedError(
                f"Groups are not supported with {scorer.called}, which leaves out one user at a "
                "time. Implement Scorer.fold_of to leave out several users together."
            )
        if given is None:
            groups = rankings.form_groups(cases, size, formed, folds, self.random_state)
        else:
            groups = _given_groups(cases, given, folds, self.min_history)
            size = max((len(group) for group in groups), default=size)
        if not groups:
            which = "given group" if formed == "given" else f"group of {size}"
            raise TooFewUsersError(
                f"No {which} can calibrate: {len(cases):,} users have {self.min_history} known "
                "items and held-out items. Use more data, or a smaller min_history=."
            )
        drawn = np.random.default_rng(self.random_state).permutation(len(groups))[
            : self.n_calibration
        ]
        chosen = [groups[place] for place in np.sort(drawn)]
        outcomes = rankings.observe_groups(
            scorer, past, cases, chosen, aggregation, model.statistics
        )
        return GroupCalibration(
            outcomes, formed, size, aggregation, self.future, self.min_history, self.whom
        )


def _given_groups(
    cases: Cases, given: Any, folds: NDArray[np.int64], min_history: int
) -> list[NDArray[np.int64]]:
    """Return the given groups whose members can all calibrate and be left out together."""
    users = cases.interactions.users
    place_of = np.full(len(users), -1)
    place_of[cases.users] = np.arange(len(cases))
    groups, kept, seen = read_members(given), [], dict[int, Any]()
    for name, members in groups.items():
        codes = users.require(members)
        if len(np.unique(codes)) < len(codes) or len(codes) < 2:  # noqa: PLR2004
            raise InputError(f"Group {name!r} needs two members or more, each listed once.")
        for code in codes.tolist():
            if seen.setdefault(code, name) != name:
                raise InputError(
                    f"User {users[code]!r} is in two groups, {seen[code]!r} and {name!r}. Pass "
                    "disjoint groups."
                )
        places = place_of[codes]
        if (places >= 0).all() and len(np.unique(folds[places])) == 1:
            kept.append(places)
    if 0 < len(kept) < len(groups):
        warnings.warn(
            f"{len(groups) - len(kept):,} of the {len(groups):,} given groups do not calibrate: a "
            f"member has fewer than {min_history} items or none held out, or the members are in "
            "several training folds.",
            LeftOutWarning,
            stacklevel=5,
        )
    return kept


def refuse_scorer(scorer: Scorer) -> None:
    """Raise NotSupportedError for a scorer that cannot leave users out."""
    raise NotSupportedError(
        f"Groups are not supported with {scorer.called}, which cannot leave their members out of "
        "its training data."
    )


def folds_gap(scorer: Scorer, group: Group) -> str:
    """Return why a scorer may know held-out items of members; empty if it does not."""
    folds = scorer.fold_of(np.array(group.users, dtype=np.int64))
    if scorer.leaves_users_out is not True or len(np.unique(folds[folds >= 0])) <= 1:
        return ""
    return (
        f"{scorer.name} was trained in folds, and the members are in several: each fold's model "
        "was trained on one of them"
    )
