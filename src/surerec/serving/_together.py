"""Answers to groups of people who choose together, as JSON bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._columns import Columns
from surerec.recommenders import GroupSet
from surerec.serving._answers import (
    about_set,
    curve_of,
    genres_of,
    level_of,
    p_values_of,
    recommender_of,
    set_level,
    titles_of,
)
from surerec.serving._asked import MAX_ROWS
from surerec.serving._problems import Problem
from surerec.serving._written import finite, numbers, rows_of, write

if TYPE_CHECKING:
    from surerec.recommenders import FittedModel
    from surerec.serving import _asked as ask
    from surerec.serving._models import ServedModel

_ALMOST_NEVER = 1e-9  # a significance at which every item is in the set


def group_recommendations(model: ServedModel, asked: ask.AskGroupRecommendations) -> bytes:
    """Give a group's set, with what it promises and how well it serves each member."""
    k = MAX_ROWS if asked.k is None else asked.k
    picks = _set_of(model, asked, k=k, exclude=asked.exclude)
    ranks = picks.member_ranks.T.astype(int).tolist()
    values = picks.values.T.tolist()
    items = [
        {**row, "member_ranks": mine, "member_values": worth}
        for row, mine, worth in zip(rows_of(picks), ranks, values, strict=True)
    ]
    return write({**_about(picks), "items": items})


def group_guarantee(model: ServedModel, asked: ask.AskGroupGuarantee) -> bytes:
    """Give what a group's set promises, and how well it serves each member."""
    return write(_about(_set_of(model, asked)))


def group_entry_confidences(model: ServedModel, asked: ask.AskGroupEntryConfidences) -> bytes:
    """Give one answer for every confidence: the best items, and the set's size as a curve."""
    name, recommender = _for_groups(model, asked)
    found, party, together = recommender.assess_group(_members(asked), asked.together, at=asked.at)
    order = found.ordered(_ALMOST_NEVER)
    first = order[: asked.limit]
    codes, ids = found.candidates[first], recommender.items.ids
    known = party.company.known
    own = [query.history for query in party.company.members if not query.users]
    named = np.unique(np.concatenate([known[:0], *own]))
    answer = {
        "recommender": name,
        "gives_confidence": True,
        "promises_precision": False,
        "about_probability": "",
        "together": together,
        "members": list(party.names),
        "n_candidates": len(found.candidates),
        "highest_confidence": found.highest_confidence,
        "curve": curve_of(found.entry_confidences[order]),
        "items": {
            Columns.Item: ids.gather(codes).to_list(),
            Columns.Title: titles_of(model, codes),
            Columns.Genres: genres_of(model, codes),
            Columns.Score: numbers(found.shown(first)),
            **p_values_of(found, first),
            Columns.EntryConfidence: numbers(found.entry_confidences[first]),
            Columns.Probability: [None] * len(first),
            "member_values": found.values(first).T.tolist(),
        },
        "titles": dict(
            zip(map(str, ids.gather(named).to_list()), titles_of(model, named), strict=True)
        ),
        "history_length": len(known),
        "ignored": list(party.ignored),
    }
    return write(answer)


def group_explanation(model: ServedModel, asked: ask.AskGroupExplanation) -> bytes:
    """Give, for each member, the earlier items that speak for an item."""
    name, recommender = _for_groups(model, asked)
    why = recommender.explain_group(
        _members(asked), item=asked.item, together=asked.together, at=asked.at
    )
    each = [
        {
            "member": member,
            "rank": rank,
            "sentences": reason.sentences(asked.limit),
            "because": reason.to_frame().head(asked.limit).to_dicts(),
        }
        for member, rank, reason in zip(why.members, why.ranks, why.reasons, strict=True)
    ]
    answer = {
        "recommender": name,
        "item_id": why.item,
        "title": why.title,
        "rank": why.rank,
        "n_candidates": why.n_candidates,
        "entry_confidence": finite(why.entry_confidence),
        "members": each,
    }
    return write(answer)


def _set_of(
    model: ServedModel,
    asked: ask.AskGroupGuarantee | ask.AskGroupRecommendations,
    **more: Any,
) -> GroupSet:
    _, recommender = _for_groups(model, asked)
    level = level_of(asked) if getattr(asked, "k", None) else set_level(recommender, asked)
    whom: dict[str, Any] = {"group": _members(asked), "together": asked.together, "at": asked.at}
    picks = recommender.recommend(**whom, **level, **more)
    assert isinstance(picks, GroupSet)  # noqa: S101  # as it was asked for a group
    return picks


def _for_groups(model: ServedModel, asked: ask._AboutGroup) -> tuple[str, FittedModel]:
    """Give which recommender is asked; none calibrates while somebody waits for an answer."""
    name, recommender = recommender_of(model, asked.recommender)
    offered = recommender.offers_together()
    if offered and asked.together is not None and asked.together not in offered:
        raise Problem(
            409, f"The recommender {name} does not promise {asked.together}: {', '.join(offered)}."
        )
    groups, n = recommender.groups, len(asked.members)
    if offered and groups is not None and groups.sizes is not None:
        sizes = groups.sizes
        if n not in sizes:
            known = f"is calibrated for groups of {', '.join(map(str, sizes))} only"
            raise Problem(
                409,
                f"This group has {n} members, and {name} "
                f"{known if sizes else 'is not calibrated for groups yet'}: run "
                f"`surerec calibrate-groups FOLDER --size {n}`, and load the model anew.",
            )
    return name, recommender


def _members(asked: ask._AboutGroup) -> dict[Any, Any]:
    """Give the members by what they are called; two of one name are told apart by their place."""
    named: dict[Any, Any] = {}
    for place, member in enumerate(asked.members, start=1):
        name = member.name if member.name is not None else member.user
        if name is None or name in named:
            name = f"member {place}" if name is None else f"{name} ({place})"
        named[name] = _known_of(member) if member.user is None else member.user
    return named


def _known_of(member: ask.Member) -> list[Any]:
    history = member.history or []
    return history if member.times is None else list(zip(history, member.times, strict=True))


def _about(picks: GroupSet) -> dict[str, Any]:
    return {
        **about_set(picks.recommender, picks),
        "together": picks.together,
        "formed": picks.formed,
        "members": [
            {"member": name, "satisfaction": finite(share)}
            for name, share in zip(picks.members, picks.satisfaction, strict=True)
        ],
        "least_served": picks.least_served,
    }
