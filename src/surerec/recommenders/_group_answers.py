"""Recommendations for groups of users who choose together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_choice
from surerec._columns import Columns
from surerec.calibration import (
    Guarantee,
    ItemAssessment,
    ItemCalibration,
    Uncalibrated,
    guarantee_of,
    level_of,
)
from surerec.conformal import MERGERS, Merger, merge_p_values
from surerec.errors import InputError, NotSupportedError
from surerec.interactions import read_members
from surerec.recommenders._explanation import GroupExplanation, explain
from surerec.recommenders._group_calibration import OfMembers, folds_gap, refuse_scorer
from surerec.recommenders._group_rankings import GROUP_GUARANTEE_KINDS
from surerec.recommenders._options import how_to_get
from surerec.recommenders._query import places_of, read_group
from surerec.recommenders._sets import GroupSet, Hits, result_columns, result_frame, stacked

if TYPE_CHECKING:
    from typing import Unpack

    from numpy.typing import NDArray

    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._group_calibration import GroupAssessment, GroupCalibration
    from surerec.recommenders._options import RecommendOptions, RequestOptions
    from surerec.recommenders._parts import ModelParts
    from surerec.recommenders._query import Group

_NO_HITS: Final = (
    "Groups have no calibrated probability of a hit. Request a list for a single member."
)


@dataclass(frozen=True, kw_only=True)
class MergedAssessment(OfMembers, ItemAssessment):
    """The merged p-value of each candidate; the members' mean rank breaks ties."""

    lowest: float
    """The smallest p-value that the calibration items allow."""

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which any item can be left out."""
        return 1 - self.lowest


@dataclass(frozen=True)
class MergedPValues:
    """Merges the members' p-values by a rule that is valid under any dependence.

    Parameters
    ----------
    rule : Merger
        One of :data:`surerec.conformal.MERGERS`.
    calibration : ItemCalibration
        The calibration that computes each member's p-values.
    """

    rule: Merger
    calibration: ItemCalibration
    covers = "this group"

    @property
    def group_guarantee(self) -> str:
        """The name of the rule."""
        return self.rule.name

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        group: Group,
        candidates: NDArray[np.int64],
    ) -> MergedAssessment:
        """Return the merged p-value of each candidate."""
        found = [
            self.calibration.assess(scorer, statistics, group.query(member), candidates)
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
            counts=np.empty(0, dtype=np.int64),  # merged p-values are no multiples of 1 / (n + 1)
            levels=0,
            smoothed=merged,
            lowest=float(merge_p_values(least, self.rule.name)[0]),
        )

    def guarantee(
        self, significance: float, assessment: MergedAssessment | None = None
    ) -> Guarantee:
        """Return the guarantee for one group, or for all covered groups."""
        group, members = "a group", "the members"
        if assessment is not None:
            group, members = "this group", f"{len(assessment.member_ranks)} members"
        whose = "every member" if self.rule.of == "everyone" else "some member"
        return Guarantee(
            kind="item",
            level=level_of(significance),
            claim=(
                f"An item new to every member that {whose} of {group} will consume is left out "
                f"with probability at most {significance:.4g} ({self.rule.words} of the p-values "
                f"of {members})"
            ),
            horizon="items new to every member",
            n_calibration=None if assessment is None else assessment.n_calibration,
            covers=group,
            assumptions=(
                "Assumes that each member's calibration items and next items are exchangeable.",
                "It holds less well the more the members' tastes drift.",
            ),
        )

    def beyond(self, significance: float, assessment: MergedAssessment) -> str:
        """Return the reason why every item qualifies at this confidence."""
        return (
            f"with {assessment.n_calibration} calibration items of the member with the shortest "
            f"history, {self.rule.words} supports a confidence of at most "
            f"{assessment.highest_confidence:.4g}, not {1 - significance:.4g}, so every item "
            "qualifies"
        )


def offers_group_guarantee(model: ModelParts) -> tuple[str, ...]:
    """Return the names of the guarantees for groups; empty if there are none."""
    if model.groups is not None:
        allowed = not model.groups.tested and model.groups.allows(model.scorer)
        return tuple(GROUP_GUARANTEE_KINDS) if allowed else ()
    merges = isinstance(model.calibration.fitted, ItemCalibration)
    return tuple(MERGERS) if merges and model.scorer.leaves_users_out is True else ()


def _calibration_of(
    model: ModelParts, n_members: int, group_guarantee: str | None
) -> GroupCalibration | MergedPValues:
    """Return the calibration for groups of a size, with a guarantee by name."""
    if model.groups is not None:
        return model.groups.of(model, n_members, group_guarantee)
    calibration = model.calibration.fitted
    if not isinstance(calibration, ItemCalibration):
        reason = model.calibration.reasons.get("groups")
        raise NotSupportedError(reason or how_to_get("groups", model.kind))
    if model.scorer.leaves_users_out is not True:
        refuse_scorer(model.scorer)
    name = "mean" if group_guarantee is None else group_guarantee
    return MergedPValues(MERGERS[check_choice("group_guarantee", name, MERGERS)], calibration)


def guarantee_to_groups(
    model: ModelParts, groups: Any, options: RecommendOptions, group_guarantee: str | None = None
) -> Guarantee:
    """Return the guarantee of the rows of :meth:`recommend_groups` with ``covered``.

    Parameters
    ----------
    groups, group_guarantee
        As in :meth:`recommend_groups`. Each size of groups has its own guarantee.
    options : RecommendOptions
        Options from :meth:`options`.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal().fit(films).model_
    >>> found = model.guarantee_to_groups({"a": [7, 3]}, model.options(confidence=0.5))
    >>> found.kind, found.covers, found.holds
    ('item', 'a group', True)
    """
    sizes = sorted({len(members) for members in read_members(groups).values()})
    kept = (_calibration_of(model, size, group_guarantee) for size in sizes)
    first, *more = dict.fromkeys(guarantee_of(each, options.significance) for each in kept)
    if more:  # further sizes are stated as assumptions of the first
        covers = " and ".join(found.covers for found in (first, *more))
        first = replace(first, covers=covers, n_calibration=None).assuming(*map(str, more))
    return first.assuming(model.calibration.unadapted).shortened(options.left_out())


def _assess(
    model: ModelParts,
    group: Group,
    group_guarantee: str | None,
    allowed: NDArray[np.int64] | None = None,
) -> tuple[GroupCalibration | MergedPValues, GroupAssessment | MergedAssessment]:
    """Return the calibration of a group, and the assessment of its (allowed) candidates."""
    kept = _calibration_of(model, len(group), group_guarantee)
    candidates = model.scorer.candidates(model.statistics, group.known, group.users)
    if allowed is not None:
        candidates = np.intersect1d(candidates, allowed)
    found = kept.assess(model.scorer, model.statistics, group, candidates)
    if found.gap:
        return kept, found
    users = model.calibration.fitted  # live adaptation does not apply to groups
    gaps = (users.gap(model.scorer, each) for each in group.members)
    named = zip(group.words, gaps, strict=True)
    gap = next((f"{name}: {gap}" for name, gap in named if gap), "")
    return kept, replace(found, gap=gap)


def assess_group(
    model: ModelParts, group: Any, group_guarantee: str | None = None, *, at: Any = None
) -> tuple[GroupAssessment | MergedAssessment, Group, str]:
    """Return the assessment of a group's candidates, its members, and the guarantee's name."""
    found = read_group(model.statistics, group, at)
    kept, assessment = _assess(model, found, group_guarantee)
    return assessment, found, kept.group_guarantee


def group_set(
    model: ModelParts, group: Group, options: RecommendOptions, group_guarantee: str | None
) -> GroupSet:
    """Return the recommendation set of a group."""
    if options.min_probability is not None or options.item_list is not None or options.precision:
        raise NotSupportedError(
            "Groups have no probabilities, precision or item lists. Omit min_probability=, "
            "precision= and item_list=."
        )
    kept, assessment = _assess(model, group, group_guarantee, options.items)
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
        group_guarantee=kept.group_guarantee,
        formed=kept.covers,
        values=assessment.values(places),
        member_ranks=assessment.member_ranks[:, places],
        find_hits=partial(Hits, about=_NO_HITS),
    )


def explain_group(
    model: ModelParts, group: Any, *, item: Any, group_guarantee: str | None = None, at: Any = None
) -> GroupExplanation:
    """Return which items of each member's history support an item for the group.

    All members are left out of the counts.

    Parameters
    ----------
    group, group_guarantee, at
        As in :meth:`recommend`.
    item : id
        The item to explain.
    """
    found, members, _ = assess_group(model, group, group_guarantee, at=at)
    code = model.items.code(item)
    for name, query in zip(members.words, members.members, strict=True):
        if code in query.history:
            raise InputError(
                f"{name.capitalize()} has already consumed {model.items[code]!r}, so it is no "
                "candidate for the group. Choose an item that is new to all members."
            )
    place = int(np.searchsorted(found.candidates, code))
    out, reasons = model.scorer.leaves_users_out is True, []
    for member in range(len(members)):
        scored = model.calibration.scored(members.query(member, leaving_out=out))
        alone = Uncalibrated().assess(model.scorer, model.statistics, scored, np.array([code]))
        reasons.append(explain(model, scored, code, alone))
    return GroupExplanation(
        item=model.items[code],
        title=reasons[0].title,
        rank=int(np.flatnonzero(found.ordered(None) == place)[0]) + 1,
        n_candidates=len(found.candidates),
        entry_confidence=float(found.entry_confidences[place]),
        members=members.names,
        ranks=tuple(int(rank) for rank in found.member_ranks[:, place]),
        reasons=tuple(reasons),
        recommender=model.name,
    )


def recommend_groups(
    model: ModelParts,
    groups: Any,
    *,
    group_guarantee: str | None = None,
    at: Any = None,
    **options: Unpack[RequestOptions],
) -> pl.DataFrame:
    """Recommend items to many groups of users who choose together.

    Parameters
    ----------
    groups : mapping, frame or path
        Members by group: user ids, or lists of items; or a frame or a file with columns
        ``user_id`` and ``group``, one row for each member.
    group_guarantee, at, confidence, significance, k, exclude, items, unknown
        As in :meth:`recommend`.

    Returns
    -------
    polars.DataFrame
        ``group``; the columns of :meth:`RecommendationSet.to_frame`; ``covered``, whether the
        guarantee (``model_.guarantee_to_groups``) covers the group; and the group's
        ``least_served`` member with their ``satisfaction``.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> model = sr.PopulationConformal("CM12").fit(films)
    >>> found = model.recommend_groups({"a": [7, 3], "b": [12, 9]}, confidence=0.8, k=2)
    >>> found["group"].to_list()
    ['a', 'a', 'b', 'b']
    """
    return group_rows(model, groups, model.options(**options), group_guarantee, at)


def group_rows(
    model: ModelParts,
    groups: Any,
    options: RecommendOptions,
    group_guarantee: str | None = None,
    at: Any = None,
) -> pl.DataFrame:
    """Return the rows of :meth:`recommend_groups`."""
    names, found = [], []
    for name, members in read_members(groups).items():
        try:
            group = read_group(model.statistics, members, at)
            found.append(group_set(model, group, options, group_guarantee))
        except InputError as error:
            raise InputError(f"Group {name!r}: {error}") from error
        names.append(str(name))
    if not found:
        raise InputError("groups is empty. Pass at least one group.")
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
