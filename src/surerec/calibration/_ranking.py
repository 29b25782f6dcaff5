"""Where a scorer ranked what users consumed next: rankings, and the outcomes of held-out cases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from numba import njit

from surerec._kernels import best_first
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.calibration._held_out import codes_in
from surerec.calibration.kernels import keep_best
from surerec.measures import as_scorer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._held_out import Cases
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

LIST_MOST: Final = 100
"""The longest list whose hits can be calibrated."""

_FAR_BELOW: Final = 2.0**-100
_LARGEST: Final = float(np.finfo(np.float32).max)  # values of lists are kept so
_CASES_AT_ONCE: Final = 8
_FEW: Final = 64  # items of a list that is kept in order as it is found; longer ones are sorted
_LOWEST: Final = float(np.finfo(np.float64).min)  # above the −∞ of known items
N_BINS: Final = 200
"""How many bins there are at the most."""
_FEWEST: Final = 0.05  # items a user above the highest edge, on average
_TIE: Final = 1e-9  # tells equal shares apart by rank, and is far below any other difference


def share_terms(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return what makes shares of all of a user's values: factor, shift and total.

    Each share is ``(factor · value − shift) / total``, so that values compare between users. If
    they were the probabilities with which a user consumes the items, this would be each item's part
    of what that user is expected to consume: cutting there loses least for its size. Values below 0
    are shifted up first. Where all are alike, so are the shares.

    Examples
    --------
    >>> share_terms(np.array([3.0, 1.0])), share_terms(np.array([0.0, 0.0]))
    ((1.0, 0.0, 4.0), (0.0, -1.0, 2.0))
    """
    factor, lowest = 1.0, float(np.minimum.reduce(values, initial=0.0))
    total = _total(values, lowest)
    if not math.isfinite(total):  # numbers near the largest that there are
        factor, lowest = _FAR_BELOW, lowest * _FAR_BELOW
        total = _total(values * factor, lowest)
    return (factor, lowest, total) if total > 0 else (0.0, -1.0, float(max(len(values), 1)))


def _total(values: NDArray[np.float64], lowest: float) -> float:
    return float(np.add.reduce(values - lowest if lowest < 0 else values))


def shares_of(
    values: NDArray[np.float64],
    terms: tuple[float, float, float] | NDArray[np.float64],
    ranks: NDArray[np.int64],
    n_candidates: NDArray[np.int64] | int,
) -> NDArray[np.float64]:
    """Return the shares of some items, equal ones told apart by rank.

    Parameters
    ----------
    values : array of float
        The value of each item.
    terms : tuple of float, or array of float, 3 × n
        What :func:`share_terms` returns for their user; or for the user of each.
    ranks, n_candidates : array of int
        The rank of each, from 1, and among how many.

    Examples
    --------
    >>> values = np.array([4.0, 3.0, 1.0])
    >>> shares_of(values, share_terms(values), np.array([1, 2, 3]), 3).round(3)
    array([0.5  , 0.375, 0.125])
    """
    factor, shift, total = terms
    apart = _TIE * (1 - (ranks - 1) / n_candidates)
    return np.asarray((values * factor - shift) / total + apart)


@dataclass(frozen=True)
class Ranking:
    """The candidates of one person, best first.

    Examples
    --------
    >>> scores, popularity = np.array([5.0, 9, 5, 8]), np.array([2, 1, 0, 3])
    >>> found = Ranking.of(np.array([0, 2, 3]), scores, scores, popularity)
    >>> found.items.tolist(), found.shares.round(2).tolist()
    ([3, 2, 0], [0.44, 0.28, 0.28])
    """

    items: NDArray[np.int64]
    """Their codes."""
    values: NDArray[np.float64]
    """What the scorer says of them, in a unit that compares between people."""
    shares: NDArray[np.float64]
    """Each one's share of all, ties told apart by rank: strictly falling."""

    @classmethod
    def of(
        cls,
        candidates: NDArray[np.int64],
        scores: NDArray[np.float64],
        values: NDArray[np.float64],
        popularity: NDArray[np.int64],
    ) -> Ranking:
        """Rank candidates by every item's score, those of equal score by popularity."""
        order = best_first(scores[candidates], popularity[candidates])
        found = values[candidates]
        ranks, n = np.arange(1, len(order) + 1), max(len(order), 1)
        shares = shares_of(found[order], share_terms(found), ranks, n)
        return cls(candidates[order], found[order], shares)

    def places(self, candidates: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
        """Return where in the ranking some items are; −1 for those not ranked."""
        places = np.full(n_items, -1)
        places[self.items] = np.arange(len(self.items))
        return places[candidates]

    def entries(self, threshold: Literal["rank", "score"]) -> NDArray[np.float64]:
        """Return the cut that lets each in, best first; and at last that of what is not ranked."""
        if threshold == "rank":
            return np.append(np.arange(1.0, len(self.items) + 1), np.inf)
        return -np.append(self.shares, 0.0)

    def of_the_best(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean value of the k best and the sum of their shares, for k up to 100.

        Where there are fewer, what all of them give.
        """
        k = np.minimum(np.arange(1, LIST_MOST + 1), max(len(self.items), 1))
        sums = [np.cumsum(some[:LIST_MOST]) for some in (self.values, self.shares)]
        best, mass = (some[k - 1] if len(some) else np.zeros(LIST_MOST) for some in sums)
        return np.clip(best / k, -_LARGEST, _LARGEST), mass


@dataclass(frozen=True, eq=False)
class Bins:
    """One number for how likely a candidate is, from its share, its rank and the known items.

    ``w₀ · log share − w₁ · log rank + w₂ · log known``: no score can tell how much a person will
    take, but the length of what is known of them can. As the weights are not negative, a person's
    candidates keep their order.

    Attributes
    ----------
    weights : array of float
        The three weights.
    edges : array of float
        Ascending; bin b holds what is at ``edges[b − 1]`` or above, and below ``edges[b]``.

    Examples
    --------
    >>> bins = Bins(np.array([1.0, 0.0, 0.0]), np.log([0.1, 0.4]))
    >>> bins.of(np.array([0.5, 0.3, 0.15, 0.05]), 7).tolist()
    [2, 1, 1, 0]
    """

    weights: NDArray[np.float64]
    edges: NDArray[np.float64]

    @property
    def n(self) -> int:
        """How many bins there are."""
        return len(self.edges) + 1

    def of(
        self,
        shares: NDArray[np.float64],
        n_known: NDArray[np.int64] | int,
        ranks: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Return the bin of each of a person's candidates, given their shares, best first.

        Or those of several people, with their ranks and how many items are known for each.
        """
        found = scale(self.weights, shares, n_known, ranks)
        return np.searchsorted(self.edges, found, side="right").astype(np.int64)


def scale(
    weights: NDArray[np.float64],
    shares: NDArray[np.float64],
    n_known: NDArray[np.int64] | int,
    ranks: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the number that bins are cut from, for shares that fall along the last axis."""
    if ranks is None:
        ranks = np.arange(1, shares.shape[-1] + 1)
    known = np.log(np.maximum(n_known, 1))
    return np.asarray(weights[0] * np.log(shares) - weights[1] * np.log(ranks) + weights[2] * known)


def edges_of(values: NDArray[np.float64], n_people: int) -> NDArray[np.float64]:
    """Cut values of the candidates of so many people into bins.

    Above the highest edge lies one item for every 20 people, above the lowest nearly everything,
    and from edge to edge the lists grow by the same factor.

    Examples
    --------
    >>> len(edges_of(np.arange(1000.0), 10)) <= N_BINS
    True
    """
    ordered = np.sort(values)[::-1]
    most = len(ordered) / n_people
    lengths = np.geomspace(min(_FEWEST, most), most, N_BINS)[:-1]
    places = np.unique(np.maximum((lengths * n_people).astype(np.int64), 1)) - 1
    return np.unique(ordered[places])


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

    def entries(self, threshold: Literal["rank", "score"]) -> NDArray[np.float64]:
        """Return the cut that lets each future item in: its rank, or minus its share.

        Infinite where no cut does, as the item is unknown.
        """
        if threshold == "rank":
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
    futures = [items[cases.future(case)] for case in range(len(cases))]
    if allowed is not None:
        futures = [future[np.isin(future, allowed)] for future in futures]
        cases = cases[np.array([len(future) > 0 for future in futures], dtype=bool)]
        futures = [future for future in futures if len(future)]
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
        candidate_shares=np.full((n_cases, statistics.n_items), -1.0) if keep_candidates else None,
        counts=None if binned is None else binned[0],
        hits=None if binned is None else binned[1],
    )
    at_once = max(_CASES_AT_ONCE, asked.at_once)

    def one(case: int, query: Query, scores: NDArray[np.float64]) -> None:
        ranking, _ = rank_items(asked, statistics, query, scores, allowed)
        future = futures[case]
        at = np.where(future >= 0, ranking.places(future, statistics.n_items), -1)
        seen, here = at >= 0, slice(ends[case], ends[case + 1])
        found.items[here] = np.where(seen, future, -1)
        found.ranks[here] = ranking.entries("rank")[at]
        found.shares[here] = np.append(ranking.shares, 0.0)[at]
        found.n_known[case] = len(query.history)
        found.n_candidates[case] = len(ranking.items)
        found.values[case], found.masses[case] = ranking.of_the_best()
        if found.candidate_shares is not None:
            found.candidate_shares[case, : len(ranking.items)] = ranking.shares
        if bins is not None and binned is not None:
            places = bins.of(ranking.shares, len(query.history))
            binned[0, case] = np.bincount(places, minlength=bins.n)
            binned[1, case] = np.bincount(places[at[seen]], minlength=bins.n)

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


def rank_items(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    query: Query,
    scores: NDArray[np.float64],
    allowed: NDArray[np.int64] | None = None,
) -> tuple[Ranking, NDArray[np.float64]]:
    """Rank what the scorer knows without the user, and scores; return every item's value too.

    `allowed` are the only items that are ranked; by default all.
    """
    values = scorer.value(scores, len(query.history), statistics.n_users)
    found = scorer.candidates(statistics, query.history, query.users)
    if allowed is not None:
        found = np.intersect1d(found, allowed)
    if scorer.is_partial:
        found = found[scores[found] > -np.inf]
    popularity = statistics.popularity_without(query.users, query.history)
    return Ranking.of(found, scores, values, popularity), values


def _any_known(cases: Cases, items: NDArray[np.int64]) -> NDArray[np.bool_]:
    known = np.concatenate(([0], np.cumsum(items[cases.interactions.item_codes] >= 0)))
    begins = cases.interactions.offsets[cases.users]
    return np.asarray(known[cases.known_stops] > known[begins])


class Best(NamedTuple):
    """The best items of some users, in rows: user by user, best first."""

    owners: NDArray[np.int64]
    """Which of the users each row is about."""
    items: NDArray[np.int64]
    ranks: NDArray[np.int64]
    """From 1."""
    values: NDArray[np.float64]
    shares: NDArray[np.float64]

    def only(self, chosen: NDArray[np.bool_]) -> Best:
        """Return some of the rows."""
        return self._replace(**{name: part[chosen] for name, part in self._asdict().items()})


def ranks_together(scorer: Scorer, statistics: PrecedenceStatistics) -> bool:
    """Return whether :func:`best_by_block` is faster than one by one, and gives the same.

    Items must be numbered by popularity, which orders equal scores.
    """
    in_order = np.array_equal(statistics.popularity, np.arange(statistics.n_items))
    return in_order and scorer.at_once > 1 and not scorer.is_partial


def best_by_block(
    scorer: Scorer, statistics: PrecedenceStatistics, queries: Queries, k: int | None
) -> Iterator[tuple[list[Query], Best]]:
    """Yield some queries at a time, and the k best items of each, or all in order."""
    for start in range(0, len(queries), scorer.at_once):
        block = queries.part(start, start + scorer.at_once)
        people, hidden = [], []
        for place in range(len(block)):
            query = block[place]
            unknown = statistics.unknown_without(query.users)
            people.append(query.known_to(statistics) if len(unknown) else query)
            hidden.append(np.union1d(query.history, unknown) if len(unknown) else query.history)
        scores = scorer.score_candidates(people)
        yield people, _best_of(scorer, statistics.n_users, people, hidden, scores, k)


def _best_of(
    scorer: Scorer,
    n_users: int,
    people: Sequence[Query],
    hidden: Sequence[NDArray[np.int64]],
    scores: NDArray[np.float64],
    k: int | None,
) -> Best:
    """Return the best items of each user; what is no candidate gets a score of −∞."""
    n_known = np.array([len(query.history) for query in people])
    n_outside = scores.shape[1] - np.array([len(items) for items in hidden])
    terms, outside = np.empty((len(people), 3)), np.ones(scores.shape[1], dtype=bool)
    for row, (items, known) in enumerate(zip(hidden, n_known.tolist(), strict=True)):
        outside[items] = False
        terms[row] = share_terms(scorer.value(scores[row][outside], known, n_users))
        outside[items] = True
        scores[row, items] = -np.inf
    limits = n_outside if k is None else np.minimum(n_outside, k)
    found = _best_codes(scores, limits)
    owners = np.repeat(np.arange(len(people)), limits)
    ranks = np.arange(1, len(owners) + 1) - np.repeat(np.cumsum(limits) - limits, limits)
    values = scorer.value(scores[owners, found], n_known[owners], n_users)
    shares = shares_of(values, terms[owners].T, ranks, n_outside[owners])
    return Best(owners, found, ranks, values, shares)


def _best_codes(scores: NDArray[np.float64], limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the items of the highest scores of each row, equal ones by code, row after row."""
    most = int(limits.max(initial=0))
    if most > _FEW:
        rows = zip(scores, limits, strict=True)
        return np.concatenate([best_first(row)[:n] for row, n in rows])
    items = np.empty((len(scores), most), dtype=np.int64)
    _keep_few(scores, items)
    return items[np.arange(most) < limits[:, None]]


@njit(nogil=True, cache=True)
def _keep_few(scores: NDArray[np.float64], items: NDArray[np.int64]) -> None:
    by_code, best = np.empty(0, np.int64), np.empty(items.shape[1])
    for row in range(len(scores)):
        keep_best(scores[row], by_code, _LOWEST, items[row], best)
