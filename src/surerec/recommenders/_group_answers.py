"""Answers to groups of users who choose together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec.calibration import Uncalibrated, guarantee_of
from surerec.errors import InputError, NotOffered
from surerec.interactions import read_members
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._group_sets import GroupExplanation, GroupSet
from surerec.recommenders._options import how_to_get
from surerec.recommenders._sets import Hits, result_columns, result_frame, stacked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Guarantee
    from surerec.measures import Query
    from surerec.recommenders._options import RecommendOptions
    from surerec.recommenders._parts import ModelParts
    from surerec.recommenders._party import Party
    from surerec.together import GroupAssessment, KeptPromise, MergedAssessment, MergedPValues

_NO_HITS: Final = "Groups have no calibrated probability of a hit: ask for one of the members."


def assess_group(
    model: ModelParts, party: Party, together: str | None
) -> tuple[GroupAssessment | MergedAssessment, Party, str]:
    """Return the assessment of all candidates of a group, its members, the guarantee's name."""
    kept = _calibration(model, len(party), together)
    return _assess(model, party, _candidates(model, party), kept), party, kept.together


def guarantee_to_groups(
    model: ModelParts, groups: Any, options: RecommendOptions, together: str | None
) -> Guarantee:
    """Return what the rows of many groups guarantee to covered ones; of each size, if they differ.

    The guarantees of further sizes are sentences of the first one.
    """
    sizes = sorted({len(members) for members in read_members(groups).values()})
    each = (
        guarantee_of(_calibration(model, size, together), options.significance) for size in sizes
    )
    first, *more = dict.fromkeys(each)
    if more:
        covers = " and ".join(found.covers for found in (first, *more))
        first = replace(first, covers=covers, n_calibration=None).assuming(*map(str, more))
    return first.assuming(model.calibration.unadapted).shortened(options.left_out())


def _calibration(
    model: ModelParts, n_members: int, together: str | None
) -> KeptPromise | MergedPValues:
    if model.groups is None:
        reason = model.calibration.reasons.get("groups")
        raise NotOffered(reason or how_to_get("groups", model.kind))
    return model.groups.of(model, n_members, together)


def _assess(
    model: ModelParts,
    party: Party,
    candidates: NDArray[np.int64],
    kept: KeptPromise | MergedPValues,
) -> GroupAssessment | MergedAssessment:
    found = kept.assess(model.scorer, model.statistics, party.company, candidates, party.words)
    if found.gap:
        return found
    users = model.calibration.fitted  # groups are calibrated as fitted, whatever is adapted
    gaps = (users.gap(model.scorer, each) for each in party.company.members)
    named = zip(party.words, gaps, strict=True)
    return replace(found, gap=next((f"of {name}: {gap}" for name, gap in named if gap), ""))


def _candidates(
    model: ModelParts, party: Party, allowed: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    company = party.company
    outside = model.scorer.candidates(model.statistics, company.known, company.users)
    return outside if allowed is None else np.intersect1d(outside, allowed)


def group_set(
    model: ModelParts, party: Party, options: RecommendOptions, together: str | None
) -> GroupSet:
    """Return the recommendation set of a group."""
    if options.min_probability is not None or options.item_list is not None or options.precision:
        raise NotOffered(
            "A group's set has no probabilities, precision or named lists: ask for it without "
            "min_probability=, precision= and item_list=."
        )
    kept = _calibration(model, len(party), together)
    candidates = _candidates(model, party, options.items)
    assessment = _assess(model, party, candidates, kept)
    epsilon, shown = options.significance, options.shown(assessment)
    return GroupSet(
        columns=result_columns(assessment, shown.places),
        catalogue=model.items.ids,
        titles=model.titles,
        history=party.company.known,
        significance=options.level,
        guarantee=guarantee_of(kept, epsilon, assessment)
        .assuming(_also_assumed(model), model.assumption(kept, *party.company.members))
        .shortened(options.left_out(len(shown.places), shown.full_size)),
        full_size=shown.full_size,
        n_candidates=len(candidates),
        highest_confidence=assessment.highest_confidence,
        everything_qualifies=assessment.everything_qualifies(options.level),
        ignored=party.ignored,
        recommender=model.name,
        members=party.names,
        satisfaction=tuple(assessment.satisfaction(shown.places).tolist()),
        together=kept.together,
        formed=kept.people,
        values=assessment.values(shown.places),
        member_ranks=assessment.member_ranks[:, shown.places],
        find_hits=partial(Hits, about=_NO_HITS),
    )


def _also_assumed(model: ModelParts) -> str:
    """Return what is assumed of the model beside exchangeable groups, as a sentence or ""."""
    assumes = model.calibration.fitted.assumes
    return f"Also assumes that {assumes}." if assumes else ""


def explain_group(
    model: ModelParts, party: Party, item: Any, together: str | None
) -> GroupExplanation:
    """Return what speaks for an item, for each member of a group."""
    code, candidates = model.items.code(item), _candidates(model, party)
    for name, query in zip(party.words, party.company.members, strict=True):
        if code in query.history:
            raise InputError(
                f"{name.capitalize()} has taken {model.items[code]!r} already: it is no "
                "candidate for the group."
            )
    found = _assess(model, party, candidates, _calibration(model, len(party), together))
    place = int(np.searchsorted(candidates, code))
    order = found.ordered(None)
    out = model.scorer.leaves_users_out is True
    each = (party.company.asked(member, leaving_out=out) for member in range(len(party)))
    reasons = tuple(_reason(model, query, code) for query in each)
    return GroupExplanation(
        item=model.items[code],
        title=reasons[0].title,
        rank=int(np.flatnonzero(order == place)[0]) + 1,
        n_candidates=len(candidates),
        entry_confidence=float(found.entry_confidences[place]),
        members=party.names,
        ranks=tuple(int(rank) for rank in found.member_ranks[:, place]),
        reasons=reasons,
        recommender=model.name,
    )


def _reason(model: ModelParts, query: Query, code: int) -> Explanation:
    """Return what speaks for an item for one member, all members left out."""
    scored = model.calibration.scored(query)
    found = Uncalibrated().assess(model.scorer, model.statistics, scored, np.array([code]))
    said = explain(model.statistics, model.items, scored, code, found, model.scorer)
    return replace(said, recommender=model.name)


def group_rows(
    model: ModelParts, groups: Any, options: RecommendOptions, together: str | None, at: Any
) -> pl.DataFrame:
    """Return the sets of many groups as rows."""
    names, found = [], []
    for name, members in read_members(groups).items():
        try:
            found.append(group_set(model, model.party(members, at), options, together))
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
