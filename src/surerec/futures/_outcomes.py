"""Where a scorer ranked what people took next."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.futures._ranking import LIST_MOST, Ranking
from surerec.measures import as_scorer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.futures._bins import Bins
    from surerec.futures._cases import Cases
    from surerec.interactions import Interactions
    from surerec.measures import Query, Scorer
    from surerec.precedence import PrecedenceStatistics

_CASES_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Outcomes:
    """What a scorer made of each case's future, item by item.

    Attributes
    ----------
    cases : Cases
        Those that could be judged: something known of the user is known to the statistics, and
        the scorer scores them.
    owners : array of int
        The case that each future item belongs to.
    items : array of int
        Its code; −1 for an item that the statistics do not know.
    ranks : array of float
        Its rank among the candidates, by score and then by popularity; infinite if unknown.
    shares : array of float
        Its share of all candidates' scores (see :class:`Ranking`); 0 if unknown.
    n_known : array of int
        For each case, the items of the history that somebody else consumed.
    n_candidates : array of int
        For each case, the items up for recommendation.
    values, masses : array of float32, n_cases × 100
        For each case, the mean value of the k best items and the sum of their shares, for k from 1
        to 100.
    candidate_shares : array of float, n_cases × n_items, or None
        The candidates' shares, largest first and padded with −1, if they were asked for.
    counts, hits : array of int32, n_cases × n_bins, or None
        For each case the candidates of each bin, and how many of them were taken, if bins were
        given.
    """

    cases: Cases
    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    ranks: NDArray[np.float64]
    shares: NDArray[np.float64]
    n_known: NDArray[np.int64]
    n_candidates: NDArray[np.int64]
    values: NDArray[np.float32]
    masses: NDArray[np.float32]
    candidate_shares: NDArray[np.float64] | None = None
    counts: NDArray[np.int32] | None = None
    hits: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, the cases' own data apart."""
        arrays = (getattr(self, each.name) for each in fields(self) if each.name != "cases")
        return sum(array.nbytes for array in arrays if array is not None)

    def entries(self, cut: Literal["rank", "score"]) -> NDArray[np.float64]:
        """Give the cut that lets each future item in: its rank, or its share with the sign turned.

        Infinite where no cut does, as the item is unknown.
        """
        if cut == "rank":
            return self.ranks
        return np.where(np.isinf(self.ranks), np.inf, -self.shares)


def observe(
    scorer: object,
    statistics: PrecedenceStatistics,
    cases: Cases,
    *,
    keep_candidates: bool = False,
    bins: Bins | None = None,
    allowed: NDArray[np.int64] | None = None,
    doing: str = "Scoring users",
) -> Outcomes:
    """Score every case with the user left out, and see where the future had been ranked.

    Parameters
    ----------
    scorer : Scorer or anything with `score`
        What scores; it is asked to leave each case's user out.
    statistics : PrecedenceStatistics
        What is known; older than the cases if they are later than the model.
    cases : Cases
        Pasts and futures. Their ids are looked up in the statistics' profiles where they come from
        other data.
    keep_candidates : bool, default=False
        Keep all candidates' shares too, which takes 8 bytes for each case and item.
    bins : Bins, optional
        Count each case's candidates by these.
    allowed : array of int, optional
        The only items that are candidates, by their code in the statistics. Cases in which none of
        them was taken are left out, and what else was taken does not count.
    doing : str
        What the progress bar says.
    """
    users, items = codes_in(statistics, cases.interactions)
    asked = as_scorer(scorer, statistics.n_items)
    cases = cases[_any_known(cases, items) & asked.reaches(users[cases.users])]
    is_allowed = _mask(allowed, statistics.n_items)
    cases, futures = _futures(cases, items, is_allowed)
    n_cases = len(cases)
    n_future = np.array([len(future) for future in futures], dtype=np.int64)
    ends = np.concatenate(([0], np.cumsum(n_future)))
    binned = None if bins is None else np.zeros((2, n_cases, bins.n), dtype=np.int32)
    found = Outcomes(
        cases=cases,
        owners=np.repeat(np.arange(n_cases), n_future),
        items=np.empty(ends[-1], dtype=np.int64),
        ranks=np.empty(ends[-1]),
        shares=np.empty(ends[-1]),
        n_known=np.empty(n_cases, dtype=np.int64),
        n_candidates=np.empty(n_cases, dtype=np.int64),
        values=np.empty((n_cases, LIST_MOST), dtype=np.float32),
        masses=np.empty((n_cases, LIST_MOST), dtype=np.float32),
        candidate_shares=_room(n_cases, statistics.n_items) if keep_candidates else None,
        counts=None if binned is None else binned[0],
        hits=None if binned is None else binned[1],
    )
    at_once = max(_CASES_AT_ONCE, asked.at_once)

    def one(case: int, query: Query, scores: NDArray[np.float64]) -> None:
        values = asked.value(scores, len(query.history), statistics.n_users)
        candidates = candidates_of(asked, statistics, query, scores)
        if is_allowed is not None:
            candidates = candidates[is_allowed[candidates]]
        popularity = statistics.popularity_without(query.users, query.history)
        ranking = Ranking.of(candidates, scores, values, popularity)
        ranks, shares = ranking.by_item(statistics.n_items)
        future = futures[case]
        seen = (future >= 0) & np.isfinite(ranks[future])
        here = slice(ends[case], ends[case + 1])
        found.items[here] = np.where(seen, future, -1)
        found.ranks[here] = np.where(seen, ranks[future], np.inf)
        found.shares[here] = np.where(seen, shares[future], 0.0)
        found.n_known[case] = len(query.history)
        found.n_candidates[case] = len(ranking.items)
        found.values[case], found.masses[case] = ranking.of_the_best()
        if found.candidate_shares is not None:
            found.candidate_shares[case, : len(ranking.items)] = ranking.shares
        if bins is not None and binned is not None:
            places = bins.of(ranking.shares, len(query.history))
            hit = ranks[future[seen]].astype(np.int64) - 1
            binned[0, case] = np.bincount(places, minlength=bins.n)
            binned[1, case] = np.bincount(places[hit], minlength=bins.n)

    def block(start: int) -> int:
        stop = min(start + at_once, n_cases)
        queries = [
            cases.query(case, users, items).known_to(statistics) for case in range(start, stop)
        ]
        if asked.at_once > 1:
            scored: Iterable[NDArray[np.float64]] = asked.score_candidates(queries)
        else:  # one after the other, so that no more than one row is held
            scored = map(asked.score_query, queries)
        for case, query, scores in zip(range(start, stop), queries, scored, strict=True):
            one(case, query, scores)
        return stop - start

    with progress(doing, total=n_cases, unit="users") as advance:
        for done in run_blocks(block, range(0, n_cases, at_once)):
            advance(done)
    return found


def candidates_of(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    query: Query,
    scores: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return the items that are ranked: what the scorer knows without the user, and scores."""
    outside = scorer.candidates(statistics, query.history, query.users)
    return outside[scores[outside] > -np.inf] if scorer.is_partial else outside


def _mask(codes: NDArray[np.int64] | None, n_items: int) -> NDArray[np.bool_] | None:
    if codes is None:
        return None
    mask = np.zeros(n_items, dtype=bool)
    mask[codes] = True
    return mask


def _futures(
    cases: Cases, items: NDArray[np.int64], is_allowed: NDArray[np.bool_] | None
) -> tuple[Cases, list[NDArray[np.int64]]]:
    """Give what followed in each case, and only the cases in which something did that may count."""
    futures = [items[cases.future(case)] for case in range(len(cases))]
    if is_allowed is None:
        return cases, futures
    futures = [future[(future >= 0) & is_allowed[future]] for future in futures]
    kept = np.array([len(future) > 0 for future in futures], dtype=bool)
    return cases[kept], [future for future in futures if len(future)]


def _any_known(cases: Cases, items: NDArray[np.int64]) -> NDArray[np.bool_]:
    known = np.concatenate(([0], np.cumsum(items[cases.interactions.items_taken] >= 0)))
    begins = cases.interactions.offsets[cases.users]
    return np.asarray(known[cases.known_stops] > known[begins])


def _room(n_cases: int, n_items: int) -> NDArray[np.float64]:
    return np.full((n_cases, n_items), -1.0)


def codes_in(
    statistics: PrecedenceStatistics, others: Interactions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give each user's and each item's code in the statistics, −1 where they do not know it."""
    profiles = statistics.require_profiles("nobody's future can be looked at")
    if profiles.users is others.users and profiles.items is others.items:
        return np.arange(len(profiles.users)), np.arange(len(profiles.items))
    return profiles.users.codes(others.users.ids), profiles.items.codes(others.items.ids)
