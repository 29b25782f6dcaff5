"""Answers to groups of users who choose together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_choice
from surerec._columns import Columns
from surerec.calibration import (
    Assessment,
    Guarantee,
    ItemCalibration,
    Uncalibrated,
    guarantee_of,
    level_of,
)
from surerec.conformal import MERGERS, TOLERANCE, Merger, merge_p_values
from surerec.errors import InputError, NotOffered
from surerec.interactions import read_members
from surerec.recommenders._explanation import GroupExplanation, explain
from surerec.recommenders._group_calibration import OfMembers, folds_gap, refuse_scorer
from surerec.recommenders._group_rankings import GROUP_PROMISES
from surerec.recommenders._options import how_to_get
from surerec.recommenders._query import places_of
from surerec.recommenders._sets import GroupSet, Hits, result_columns, result_frame, stacked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._group_calibration import GroupAssessment, GroupCalibration
    from surerec.recommenders._options import RecommendOptions
    from surerec.recommenders._parts import ModelParts
    from surerec.recommenders._query import Group

_NO_HITS: Final = "Groups have no calibrated probability of a hit: ask for one of the members."


@dataclass(frozen=True, kw_only=True)
class MergedAssessment(OfMembers, Assessment):
    """Every candidate's merged p-value."""

    merged: NDArray[np.float64]
    lowest: float
    """The smallest p-value that so few calibration items can give."""

    @property
    def key(self) -> NDArray[np.float64]:
        """What ranks the candidates: the p-value."""
        return self.merged

    @property
    def p_values(self) -> NDArray[np.float64]:
        """The p-value of each candidate."""
        return self.merged

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        return 1 - self.merged

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out."""
        return 1 - self.lowest

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        return self.merged > significance + TOLERANCE

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        By p-value, then the members' mean rank, then popularity.
        """
        order = np.lexsort((self.popularity[self.candidates], -self.score, -self.merged))
        return order if significance is None else order[self.included(significance)[order]]


@dataclass(frozen=True)
class MergedPValues:
    """Merges members' p-values by a rule that is valid whatever the dependence between them.

    Parameters
    ----------
    rule : Merger
        One of :data:`surerec.conformal.MERGERS`.
    calibration : ItemCalibration
        What gives each member's.
    """

    rule: Merger
    calibration: ItemCalibration
    people = "this group"

    @property
    def together(self) -> str:
        """The name of the rule."""
        return self.rule.name

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        group: Group,
        candidates: NDArray[np.int64],
    ) -> MergedAssessment:
        """Return every candidate's merged p-value; ties come by the members' mean rank."""
        found = [
            self.calibration.assess(scorer, statistics, group.asked(member), candidates)
            for member in range(len(group))
        ]
        popularity = statistics.popularity[candidates]
        orders = [np.lexsort((popularity, -each.score, -each.p_values)) for each in found]
        ranks = np.stack([places_of(order) for order in orders])
        merged = merge_p_values(np.stack([each.p_values for each in found]), self.rule.name)
        least = [1 / (each.n_calibration + 1) for each in found]
        return MergedAssessment(
            candidates=candidates,
            score=-np.log(ranks).mean(axis=0),
            shown=merged.__getitem__,
            popularity=statistics.popularity,
            n_calibration=min(each.n_calibration for each in found),
            gap=next((each.gap for each in found if each.gap), "") or folds_gap(scorer, group),
            member_ranks=ranks,
            merged=merged,
            lowest=float(merge_p_values(least, self.rule.name)[0]),
        )

    def guarantee(
        self, significance: float, assessment: MergedAssessment | None = None
    ) -> Guarantee:
        """Return what the confidence guarantees, to a group or to every covered one."""
        group, members = "a group", "the members"
        if assessment is not None:
            group, members = "this group", f"{len(assessment.member_ranks)} members"
        whose = "everyone in" if self.rule.of == "everyone" else "someone of"
        return Guarantee(
            kind="item",
            level=level_of(significance),
            claim=(
                f"An item new to every member that {whose} {group} will take is left out with "
                f"probability at most {significance:.4g} ({self.rule.words} of the p-values of "
                f"{members}, valid whatever the dependence between them)"
            ),
            horizon="items new to every member",
            n_calibration=None if assessment is None else assessment.n_calibration,
            covers=group,
            assumptions=(
                "Assumes that each member's calibration and next items are exchangeable.",
                "It holds less well the more the members' tastes drift.",
            ),
        )

    def beyond(self, significance: float, assessment: MergedAssessment) -> str:
        """Return why a confidence cannot be supported, so that every item qualifies."""
        return (
            f"with {assessment.n_calibration} calibration items of the member of whom least is "
            f"known, {self.rule.words} supports a confidence of at most "
            f"{assessment.highest_confidence:.4g}, not {1 - significance:.4g}, so every item "
            "qualifies"
        )


def merged_p_values(
    scorer: Scorer, calibration: ItemCalibration, together: str | None
) -> MergedPValues:
    """Return the merged p-values of groups by a rule; twice the mean if none is named."""
    if scorer.leaves_users_out is not True:
        refuse_scorer(scorer)
    name = "mean" if together is None else together
    return MergedPValues(MERGERS[check_choice("together", name, MERGERS)], calibration)


def offered(model: ModelParts) -> tuple[str, ...]:
    """Return the names of the guarantees that groups can be given; empty for none."""
    if model.groups is not None:
        allowed = not model.groups.tested and model.groups.allows(model.scorer)
        return tuple(GROUP_PROMISES) if allowed else ()
    merges = isinstance(model.calibration.fitted, ItemCalibration)
    return tuple(MERGERS) if merges and model.scorer.leaves_users_out is True else ()


def calibration_of(
    model: ModelParts, n_members: int, together: str | None
) -> GroupCalibration | MergedPValues:
    """Return the calibration for groups of a size, with the guarantee of that name."""
    if model.groups is not None:
        return model.groups.of(model, n_members, together)
    calibration = model.calibration.fitted
    if isinstance(calibration, ItemCalibration):
        return merged_p_values(model.scorer, calibration, together)
    reason = model.calibration.reasons.get("groups")
    raise NotOffered(reason or how_to_get("groups", model.kind))


def guarantee_to_groups(
    model: ModelParts, groups: Any, options: RecommendOptions, together: str | None
) -> Guarantee:
    """Return what the rows of many groups guarantee to covered ones; of each size, if they differ.

    The guarantees of further sizes are sentences of the first one.
    """
    sizes = sorted({len(members) for members in read_members(groups).values()})
    each = (
        guarantee_of(calibration_of(model, size, together), options.significance) for size in sizes
    )
    first, *more = dict.fromkeys(each)
    if more:
        covers = " and ".join(found.covers for found in (first, *more))
        first = replace(first, covers=covers, n_calibration=None).assuming(*map(str, more))
    return first.assuming(model.calibration.unadapted).shortened(options.left_out())


def assess(
    model: ModelParts,
    group: Group,
    kept: GroupCalibration | MergedPValues,
    allowed: NDArray[np.int64] | None = None,
) -> GroupAssessment | MergedAssessment:
    """Return the assessment of all candidates of a group, or of the allowed ones."""
    candidates = model.scorer.candidates(model.statistics, group.known, group.users)
    if allowed is not None:
        candidates = np.intersect1d(candidates, allowed)
    found = kept.assess(model.scorer, model.statistics, group, candidates)
    if found.gap:
        return found
    users = model.calibration.fitted  # groups are calibrated as fitted, whatever is adapted
    gaps = (users.gap(model.scorer, each) for each in group.members)
    named = zip(group.words, gaps, strict=True)
    return replace(found, gap=next((f"of {name}: {gap}" for name, gap in named if gap), ""))


def group_set(
    model: ModelParts, group: Group, options: RecommendOptions, together: str | None
) -> GroupSet:
    """Return the recommendation set of a group."""
    if options.min_probability is not None or options.item_list is not None or options.precision:
        raise NotOffered(
            "A group's set has no probabilities, precision or named lists: ask for it without "
            "min_probability=, precision= and item_list=."
        )
    kept = calibration_of(model, len(group), together)
    assessment = assess(model, group, kept, options.items)
    places, full_size = options.shown(assessment)
    assumes = model.calibration.fitted.assumes
    return GroupSet(
        find_columns=partial(result_columns, assessment, places),
        size=len(places),
        catalogue=model.items.ids,
        titles=model.titles,
        history=group.known,
        significance=options.level,
        guarantee=guarantee_of(kept, options.significance, assessment)
        .assuming(
            f"Also assumes that {assumes}." if assumes else "",
            model.assumption(kept, *group.members),
        )
        .shortened(options.left_out(len(places), full_size)),
        full_size=full_size,
        n_candidates=len(assessment.candidates),
        highest_confidence=assessment.highest_confidence,
        everything_qualifies=assessment.everything_qualifies(options.level),
        ignored=group.ignored,
        recommender=model.name,
        members=group.names,
        satisfaction=tuple(assessment.satisfaction(places).tolist()),
        together=kept.together,
        formed=kept.people,
        values=assessment.values(places),
        member_ranks=assessment.member_ranks[:, places],
        find_hits=partial(Hits, about=_NO_HITS),
    )


def explain_group(
    model: ModelParts, group: Group, item: Any, together: str | None
) -> GroupExplanation:
    """Return what speaks for an item, for each member of a group; all members are left out."""
    code = model.items.code(item)
    for name, query in zip(group.words, group.members, strict=True):
        if code in query.history:
            raise InputError(
                f"{name.capitalize()} has taken {model.items[code]!r} already: it is no "
                "candidate for the group."
            )
    found = assess(model, group, calibration_of(model, len(group), together))
    place = int(np.searchsorted(found.candidates, code))
    out, reasons = model.scorer.leaves_users_out is True, []
    for member in range(len(group)):
        scored = model.calibration.scored(group.asked(member, leaving_out=out))
        alone = Uncalibrated().assess(model.scorer, model.statistics, scored, np.array([code]))
        reasons.append(explain(model, scored, code, alone))
    return GroupExplanation(
        item=model.items[code],
        title=reasons[0].title,
        rank=int(np.flatnonzero(found.ordered(None) == place)[0]) + 1,
        n_candidates=len(found.candidates),
        entry_confidence=float(found.entry_confidences[place]),
        members=group.names,
        ranks=tuple(int(rank) for rank in found.member_ranks[:, place]),
        reasons=tuple(reasons),
        recommender=model.name,
    )


def group_rows(
    model: ModelParts, groups: Any, options: RecommendOptions, together: str | None, at: Any
) -> pl.DataFrame:
    """Return the sets of many groups as rows."""
    names, found = [], []
    for name, members in read_members(groups).items():
        try:
            found.append(group_set(model, model.group(members, at), options, together))
        except InputError as error:
            raise InputError(f"Group {name!r}: {error}") from error
        names.append(str(name))
    if not found:
        raise InputError("There are no groups: give at least one.")
    columns, owners = stacked(
        [{**each.columns, Columns.Covered: np.full(len(each), each.covered)} for each in found]
    )
    return (
        result_frame(columns, model.items.ids, model.titles)
        .with_columns(
            pl.Series("least_served", [str(found[owner].least_served) for owner in owners]),
            pl.Series("satisfaction", [min(found[owner].satisfaction) for owner in owners]),
        )
        .select(pl.Series("group", [names[owner] for owner in owners], dtype=pl.String), pl.all())
    )
