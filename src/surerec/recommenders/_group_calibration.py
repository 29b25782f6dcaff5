"""Calibrations for groups of users who choose together: on other groups, or by merged p-values."""

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
"""Of groups that surerec forms itself."""
GROUP_PRECISION: Final = (
    "Groups have no guarantee of precision, only of recall: fit guarantee='recall' or 'hit' for "
    "them."
)
GIVEN: Final = 0  # the key of given groups, whatever their sizes
_SIZE: Final = "size"
_CALIBRATING: Final = Lock()


@dataclass(frozen=True, eq=False)
class Sample:
    """A scorer, what was known when it was calibrated, and the users who calibrate it."""

    scorer: Scorer
    past: PrecedenceStatistics
    cases: Cases


@dataclass(frozen=True, kw_only=True)
class OfMembers:
    """Adds what every candidate is to every member to an assessment."""

    member_ranks: NDArray[np.float64]
    """The rank of every candidate for every member, members × candidates."""

    def values(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return what some candidates are worth to every member, from 1 for the best down to 0."""
        n = int(self.member_ranks.max(initial=2))
        return rankings.values_of(self.member_ranks[:, places], n)

    def satisfaction(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return, for every member, the share of their own best items among some candidates.

        Of as many best items as there are: 1 for a member who would have got the same set alone.
        NaN if there are none.
        """
        n = len(places)
        if not n:
            return np.full(len(self.member_ranks), np.nan)
        own = np.argsort(np.argsort(self.member_ranks, axis=1), axis=1)
        return np.asarray((own[:, places] < n).mean(axis=1))


@dataclass(frozen=True, kw_only=True)
class GroupAssessment(OfMembers, UserAssessment):
    """The ε below which each candidate is in a group's set, and what each member makes of it."""

    n_without: int = 0
    """How many groups could not calibrate, as they consumed no such item."""


@dataclass(frozen=True, eq=False)
class GroupCalibration:
    """At ε, the smallest set with which the calibration groups lose no more than ε.

    Parameters
    ----------
    outcomes : GroupOutcomes
        Where groups' rankings had what their members consumed next.
    formed : {"random", "similar", "given"}
        How the groups were formed.
    size : int
        How many members each has; for given groups the largest.
    aggregation : Aggregation
        What makes one ranking of the members'.
    future : str
        The held-out interactions of each member, in words.
    min_history : int
        Groups with a member of whom less is known have no guarantee.
    whom : str, default=""
        Who the members are, in words, where not everybody is covered.
    promised : GroupGuaranteeKind
        What is guaranteed.
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
        cls, state: State, n_users: int, future: str, min_history: int, whom: str
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
        return cls(outcomes, formed, size, AGGREGATIONS[by], future, min_history, whom)

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        group: Group,
        candidates: NDArray[np.int64],
    ) -> GroupAssessment:
        """Evaluate candidates for a group.

        Ranks are among all items that no member has consumed, whatever the candidates.
        """
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
            n_without=len(self.outcomes) - len(own) - curve.n_users,
        )

    def _gap(self, scorer: Scorer, group: Group) -> str:
        least = self.min_history
        members = zip(group.words, group.members, strict=True)
        short = [name for name, query in members if len(query.history) < least]
        if short:
            return (
                f"fewer than {least} items are known of {', '.join(short)}, and more of every "
                "member of the calibration groups"
            )
        return folds_gap(scorer, group)

    def guarantee(
        self, significance: float, assessment: GroupAssessment | None = None
    ) -> Guarantee:
        """Return what the confidence guarantees, to a group or to every covered one."""
        n = self.outcomes.curve(self.guarantee_kind)[0].n_users
        without = len(self.outcomes) - n
        if assessment is not None:
            n, without = assessment.n_calibration, assessment.n_without
        horizon = self.future
        begin, end = (day_of(int(time)) for time in self.outcomes.period)
        others = f", besides {without:,} that took no such item" if without else ""
        alike = f"groups exchangeable with the {n:,} calibration groups ({begin} to {end}){others}"
        return Guarantee(
            kind=self.guarantee_kind.guarantees,
            level=level_of(significance),
            claim=self.guarantee_kind.sentence(significance, horizon, self.people),
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
                f"groups with an item that {self.guarantee_kind.whose} took, and there "
                f"{'is' if n == 1 else 'are'} {n:,}, so every item qualifies"
            )
        return (
            "too much of what calibration groups took next was unknown to the model, so no set of "
            f"known items supports a confidence above {assessment.highest_confidence:.4g}, and "
            "every item qualifies"
        )


@dataclass(frozen=True)
class CalibratedGroups:
    """Thresholds calibrated on groups of calibration users, by size.

    A size that was not calibrated is calibrated when a group of it first asks: on random groups,
    with the average.
    """

    future: str
    """The held-out interactions of each member, in words."""
    min_history: int
    n_calibration: int
    random_state: int
    sample: Callable[[Any], Sample]
    """Returns the users who may be in calibration groups of a fitted model."""
    held_out: bool
    """Whether a scorer that leaves nobody out has learned nothing of what is held out of it."""
    tested: bool
    """Whether the model guarantees precision, which groups are not given."""
    whom: str = ""
    """Who the members are, in words, where not everybody is covered."""
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
        """Return the calibration for groups of a size; calibrate it if nobody has yet."""
        name = "any" if group_guarantee is None else group_guarantee
        guarantee = GROUP_GUARANTEE_KINDS[
            check_choice("group_guarantee", name, GROUP_GUARANTEE_KINDS)
        ]
        given = self.by_size.get(GIVEN)
        if given is not None:
            if n_members > given.size:
                raise NotSupportedError(
                    f"This group has {n_members} members, and the largest that was calibrated on "
                    f"has {given.size}."
                )
            return replace(given, guarantee_kind=guarantee)
        if n_members > MOST_MEMBERS:
            raise NotSupportedError(
                f"This group has {n_members} members, and groups are calibrated up to "
                f"{MOST_MEMBERS}; larger ones if they are given: "
                "model.calibrate_groups(groups=…)."
            )
        with _CALIBRATING:  # several threads may ask for the first group of a size
            if n_members not in self.by_size:
                by = rankings.find_aggregation("average")
                self.by_size[n_members] = self._calibrate(model, "random", n_members, by)
        if n_members > guarantee.largest:
            raise NotSupportedError(
                f"group_guarantee={guarantee.name!r} is offered for groups of up to "
                f"{guarantee.largest}, and this one has {n_members}: in larger "
                "ones hardly any item counts."
            )
        return replace(self.by_size[n_members], guarantee_kind=guarantee)

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, is in a calibration group."""
        return any(user in each.outcomes.users for each in self.by_size.values())

    def state(self) -> State:
        """Return all calibrations."""
        return State.numbered(_SIZE, (each.state() for each in self.by_size.values()))

    def from_state(self, state: State, n_users: int) -> CalibratedGroups:
        """Return the same with what was saved; KeyError or ValueError if it is not its own."""
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
        """Return the same with some sizes calibrated, or with given groups only."""
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
        """Form groups of the sample, and find where their held-out items are ranked for them."""
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
                f"Groups are not offered with {scorer.called}: it leaves out one user at "
                "a time (a Scorer says by fold_of who can be left out together)."
            )
        if given is None:
            groups = rankings.form_groups(cases, size, formed, folds, self.random_state)
        else:
            groups = _given_groups(cases, given, folds, self.min_history)
            size = max((len(group) for group in groups), default=size)
        if not groups:
            whom = "of those given" if formed == "given" else f"of {size}"
            raise TooFewUsersError(
                f"There is no group {whom} to calibrate on: {len(cases):,} users have "
                f"{self.min_history} known items and a future."
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
    """Return the given groups whose members can all calibrate, and be left out together.

    Given groups are disjoint, and have two members or more each.
    """
    users = cases.interactions.users
    place_of = np.full(len(users), -1)
    place_of[cases.users] = np.arange(len(cases))
    groups, kept, seen = read_members(given), [], dict[int, Any]()
    for name, members in groups.items():
        codes = users.require(members)
        if len(np.unique(codes)) < len(codes) or len(codes) < 2:  # noqa: PLR2004
            raise InputError(f"Group {name!r} needs two members or more, each of them once.")
        for code in codes.tolist():
            if seen.setdefault(code, name) != name:
                raise InputError(
                    f"User {users[code]!r} is in two groups, {seen[code]!r} and {name!r}: give "
                    "disjoint ones."
                )
        places = place_of[codes]
        if (places >= 0).all() and len(np.unique(folds[places])) == 1:
            kept.append(places)
    if 0 < len(kept) < len(groups):
        warnings.warn(
            f"{len(groups) - len(kept):,} of the {len(groups):,} given groups do not calibrate: of "
            f"a member fewer than {min_history} items and a future are known, or its members were "
            "trained on in several folds.",
            LeftOutWarning,
            stacklevel=5,
        )
    return kept


def refuse_scorer(scorer: Scorer) -> None:
    """Refuse a scorer that users cannot be left out of."""
    raise NotSupportedError(
        f"Groups are not offered with {scorer.called}: its members cannot be left out "
        "of what it learned."
    )


def folds_gap(scorer: Scorer, group: Group) -> str:
    """Return why a scorer may know the futures of members; empty if it surely does not."""
    folds = scorer.fold_of(np.array(group.users, dtype=np.int64))
    if scorer.leaves_users_out is not True or len(np.unique(folds[folds >= 0])) <= 1:
        return ""
    return (
        f"{scorer.name} was trained in folds, and these members are in several: each fold's model "
        "has learned from one of them"
    )
