"""Futures judged by what was known when each was asked: no counts of what others did later."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._arguments import check_kind
from surerec._calendar import day_of
from surerec._checks import check_whole
from surerec.calibration import Cases, Outcomes, observe
from surerec.errors import InputError, TooFewUsers
from surerec.evaluation._coverage import risk_curve
from surerec.measures import as_recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures import Recipe, RecipeLike
    from surerec.precedence import Ties

MOST_BLOCKS: Final = 12
"""Blocks of the calendar at the most: each costs a count and a fit."""


@dataclass(frozen=True)
class AsOf:
    """What a scorer made of futures, fitted anew for each block of the calendar.

    Attributes
    ----------
    outcomes : Outcomes
        Of the cases that could be judged, block after block.
    begins : tuple of int
        When each block began, in microseconds since 1970: what was counted for its cases lies
        before that.
    n_early : int
        Cases from before there was enough to count.
    """

    outcomes: Outcomes
    begins: tuple[int, ...]
    n_early: int

    @property
    def unknown(self) -> float:
        """Mean over users of the share of their held-out items that nobody had consumed yet."""
        return risk_curve(self.outcomes, "rank").unknown_loss

    def in_words(self) -> str:
        """Describe what was counted, and how much was new."""
        early = f"; {self.n_early:,} users came too early to be judged" if self.n_early else ""
        return (
            f"Counted up to the start of each of {len(self.begins)} blocks of the calendar, from "
            f"{day_of(self.begins[0])} to {day_of(self.begins[-1])}: on average over "
            f"{len(self.outcomes):,} users, {self.unknown:.1%} of what a user consumed next was "
            f"new to all{early}."
        )


def observe_as_of(
    recipe: RecipeLike,
    cases: Cases,
    *,
    n_blocks: int = MOST_BLOCKS,
    ties: Ties = "order",
    keep_candidates: bool = False,
) -> AsOf:
    """Judge each case by a scorer that was fitted on what had happened by then.

    The moments of the cases, when the last known item was taken, are cut into blocks of about as
    many cases each. What scores the cases of a block is counted and fitted on all rows before the
    block begins, and on nothing else: users and items that had not appeared yet are not there. The
    first cases come before there is anything to count, and are left out.

    Parameters
    ----------
    recipe : str, Recipe or callable
        What makes a scorer from statistics, as :func:`surerec.measures.as_recipe` takes it.
    cases : Cases
        Pasts and futures.
    n_blocks : int, default=12
        Into how many blocks the calendar is cut.
    ties : {"order", "strict"}
        Whether items of one instant precede each other.
    keep_candidates : bool, default=False
        Keep all candidates' shares too, which sets that are cut by score need.

    Raises
    ------
    InputError
        If the scorer comes fitted, or there are too few cases or too little before them.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.calibration import profile_cases
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
    >>> found = observe_as_of("CM12", profile_cases(films, 0.4), n_blocks=4)
    >>> len(found.begins), found.n_early > 0, len(found.outcomes) > 100
    (4, True, True)
    """
    check_kind("cases", cases, Cases, "Cases")
    made = as_recipe(recipe)
    if not made.refits:
        raise InputError(
            f"The scorer {made.name} comes fitted and cannot be fitted on the past of a block: "
            "give a function that makes it from statistics."
        )
    begins, block_of = _blocks(cases, check_whole("n_blocks", n_blocks))
    parts, used = [], []
    for block, begin in enumerate(begins.tolist()):
        try:
            part = _observed(made, cases[block_of == block], begin, ties, keep=keep_candidates)
        except TooFewUsers:
            continue  # there was nothing to learn from yet
        if part is not None and len(part):
            parts.append(part)
            used.append(begin)
    if not parts:
        raise InputError(
            f"{cases.interactions.name or 'The data'}: nothing was known before any of the "
            f"{len(cases):,} users were asked, so that nothing can be counted as of then."
        )
    joined = _joined(parts)
    return AsOf(joined, tuple(used), len(cases) - len(joined))


def _blocks(cases: Cases, n_blocks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give when each block begins, and the block of each case: −1 before the first."""
    moments = cases.interactions.times[cases.known_stops - 1]
    places = np.arange(1, n_blocks + 1) * len(moments) // (n_blocks + 1)
    begins = np.unique(np.sort(moments)[places])
    return begins, np.searchsorted(begins, moments, side="right") - 1


def _observed(
    recipe: Recipe, cases: Cases, begin: int, ties: Ties, *, keep: bool
) -> Outcomes | None:
    happened = cases.interactions.times < begin
    if not happened.any() or not len(cases):
        return None
    statistics = recipe.count(cases.interactions.only(happened), ties)
    return observe(
        recipe.fit(statistics),
        statistics,
        cases,
        keep_candidates=keep,
        doing=f"Futures from {day_of(begin)}",
    )


def _joined(parts: list[Outcomes]) -> Outcomes:
    """Put outcomes of cases of the same data end to end; each has its own items' codes."""
    first = parts[0].cases
    together = {
        name: np.concatenate([getattr(part.cases, name) for part in parts])
        for name in ("users", "known_stops", "stops")
    }
    starts = np.cumsum([0, *(len(part) for part in parts)])
    plain = {each.name for each in fields(Outcomes)} - {"cases", "owners", "items"}
    made = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in plain - {"candidate_shares", "counts", "hits"}
    }
    return Outcomes(
        cases=Cases(first.interactions, moment=first.moment, **together),
        owners=np.concatenate(
            [part.owners + start for part, start in zip(parts, starts, strict=False)]
        ),
        items=np.concatenate([np.where(part.items < 0, -1, _future_codes(part)) for part in parts]),
        candidate_shares=_padded(parts),
        **made,
    )


def _future_codes(part: Outcomes) -> NDArray[np.int64]:
    """Give the future items by the codes of the cases' own data."""
    return np.concatenate([part.cases.future(case) for case in range(len(part))])


def _padded(parts: list[Outcomes]) -> NDArray[np.float64] | None:
    shares = [part.candidate_shares for part in parts if part.candidate_shares is not None]
    if len(shares) < len(parts):
        return None
    room = np.full((sum(map(len, shares)), max(each.shape[1] for each in shares)), -1.0)
    begin = 0
    for each in shares:
        room[begin : begin + len(each), : each.shape[1]] = each
        begin += len(each)
    return room
