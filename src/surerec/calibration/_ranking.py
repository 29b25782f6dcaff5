"""Rankings, and the outcomes of held-out cases: where a scorer ranked what users consumed."""

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
    from surerec.conformal import RiskCurve
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

LIST_MOST: Final = 100
"""Longest list with calibrated hit probabilities."""

_FAR_BELOW: Final = 2.0**-100
_LARGEST: Final = float(np.finfo(np.float32).max)  # values are stored in single precision
_CASES_AT_ONCE: Final = 8
_FEW: Final = 64  # longer lists are sorted instead of kept in order
_LOWEST: Final = float(np.finfo(np.float64).min)  # above the −∞ of known items
N_BINS: Final = 200
"""Largest number of bins."""
_FEWEST: Final = 0.05  # items per user above the highest edge
_TIE: Final = 1e-9  # breaks ties of shares by rank, far below any other difference


def share_terms(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the factor, shift and total that turn a user's values into shares.

    Each share is ``(factor · value − shift) / total``, so that values compare between users. If
    values were probabilities, a share would be an item's part of the user's expected consumption,
    and a threshold on it would lose least for its set size. Negative values are shifted up first.
    Equal values have equal shares.

    Examples
    --------
    >>> share_terms(np.array([3.0, 1.0])), share_terms(np.array([0.0, 0.0]))
    ((1.0, 0.0, 4.0), (0.0, -1.0, 2.0))
    """
    factor, lowest = 1.0, float(np.minimum.reduce(values, initial=0.0))
    total = _total(values, lowest)
    if not math.isfinite(total):  # overflow
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
    """Return the shares of some items, with ties broken by rank.

    Parameters
    ----------
    values : array of float
        The value of each item.
    terms : tuple of float, or array of float, 3 × n
        What :func:`share_terms` returns for their user, or for the user of each.
    ranks, n_candidates : array of int
        Rank of each item, from 1, and number of candidates.

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
    """The candidates of one user, best first.

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
    """Their values, in a unit that compares between users."""
    shares: NDArray[np.float64]
    """The share of each in all values; strictly falling, as ties are broken by rank."""

    @classmethod
    def of(
        cls,
        candidates: NDArray[np.int64],
        scores: NDArray[np.float64],
        values: NDArray[np.float64],
        popularity: NDArray[np.int64],
    ) -> Ranking:
        """Rank candidates by score, then by popularity."""
        order = best_first(scores[candidates], popularity[candidates])
        found = values[candidates]
        ranks, n = np.arange(1, len(order) + 1), max(len(order), 1)
        shares = shares_of(found[order], share_terms(found), ranks, n)
        return cls(candidates[order], found[order], shares)

    def part(self, start: int, stop: int) -> Ranking:
        """Return a part of the items, such as those of one user."""
        here = slice(start, stop)
        return Ranking(self.items[here], self.values[here], self.shares[here])

    def places(self, candidates: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
        """Return the places of some items in the ranking; −1 for unranked items."""
        places = np.full(n_items, -1)
        places[self.items] = np.arange(len(self.items))
        return places[candidates]

    def entries(self, threshold: Literal["rank", "score"]) -> NDArray[np.float64]:
        """Return the threshold at which each enters, best first; the last is for unranked items."""
        if threshold == "rank":
            return np.append(np.arange(1.0, len(self.items) + 1), np.inf)
        return -np.append(self.shares, 0.0)

    def of_the_best(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean value and the sum of shares of the k best items, for k up to 100."""
        k = np.minimum(np.arange(1, LIST_MOST + 1), max(len(self.items), 1))
        sums = [np.cumsum(some[:LIST_MOST]) for some in (self.values, self.shares)]
        best, mass = (some[k - 1] if len(some) else np.zeros(LIST_MOST) for some in sums)
        return np.clip(best / k, -_LARGEST, _LARGEST), mass


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of candidates by a number from share, rank and history length.

    The number is ``w₀ · log share − w₁ · log rank + w₂ · log known``. Scores do not tell how much a
    user will consume, but the history length does. Weights are not negative, so a user's candidates
    keep their order.

    Attributes
    ----------
    weights : array of float
        The three weights.
    edges : array of float
        Ascending edges; bin b holds values from ``edges[b − 1]`` to below ``edges[b]``.

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
        """Number of bins."""
        return len(self.edges) + 1

    def of(
        self,
        shares: NDArray[np.float64],
        n_known: NDArray[np.int64] | int,
        ranks: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Return the bins of a user's candidates, given their shares, best first.

        For candidates of several users, pass the ranks and the number of known items of each.
        """
        found = scale(self.weights, shares, n_known, ranks)
        return np.searchsorted(self.edges, found, side="right").astype(np.int64)


def scale(
    weights: NDArray[np.float64],
    shares: NDArray[np.float64],
    n_known: NDArray[np.int64] | int,
    ranks: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the number that is binned, for shares that fall along the last axis."""
    if ranks is None:
        ranks = np.arange(1, shares.shape[-1] + 1)
    known = np.log(np.maximum(n_known, 1))
    return np.asarray(weights[0] * np.log(shares) - weights[1] * np.log(ranks) + weights[2] * known)


def edges_of(values: NDArray[np.float64], n_users: int) -> NDArray[np.float64]:
    """Return bin edges for the values of all candidates of these users.

    One item per 20 users lies above the highest edge, and nearly all items above the lowest. From
    edge to edge, lists grow by a constant factor.

    Examples
    --------
    >>> len(edges_of(np.arange(1000.0), 10)) <= N_BINS
    True
    """
    ordered = np.sort(values)[::-1]
    most = len(ordered) / n_users
    lengths = np.geomspace(min(_FEWEST, most), most, N_BINS)[:-1]
    places = np.unique(np.maximum((lengths * n_users).astype(np.int64), 1)) - 1
    return np.unique(ordered[places])


@dataclass(frozen=True)
class Outcomes:
    """The rank and share of each case's held-out items.

    Attributes
    ----------
    cases : Cases
        The evaluated cases: users that the scorer can score, with a known item.
    owners : array of int
        The case of each held-out item.
    items : array of int
        Its code; −1 for an item unknown to the statistics.
    ranks : array of float
        Its rank among the candidates, by score and then by popularity; infinite if unknown.
    shares : array of float
        Its share of all candidates' scores (see :class:`Ranking`); 0 if unknown.
    n_known : array of int
        For each case, the number of known items that other users consumed.
    n_candidates : array of int
        For each case, the number of candidates.
    values, masses : array of float32, n_cases × 100
        For each case, the mean value of the k best items and the sum of their shares, for k from 1
        to 100.
    candidate_shares : array of float, n_cases × n_items, or None
        The candidates' shares, largest first and padded with −1, if requested.
    counts, hits : array of int32, n_cases × n_bins, or None
        For each case, the candidates in each bin, and how many were consumed, if bins were given.
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

    @classmethod
    def blank(
        cls,
        cases: Cases,
        n_future: NDArray[np.int64],
        *,
        n_kept: int = 0,
        bins: Bins | None = None,
    ) -> Outcomes:
        """Return outcomes to :meth:`record` in.

        Parameters
        ----------
        cases : Cases
            The cases.
        n_future : array of int
            Number of held-out items of each.
        n_kept : int, default=0
            Number of candidates whose shares are kept.
        bins : Bins, optional
            Bins by which each case's candidates are counted.
        """
        n, n_items = len(cases), int(n_future.sum())
        return cls(
            cases=cases,
            owners=np.repeat(np.arange(n), n_future),
            items=np.empty(n_items, dtype=np.int64),
            ranks=np.empty(n_items),
            shares=np.empty(n_items),
            n_known=np.empty(n, dtype=np.int64),
            n_candidates=np.empty(n, dtype=np.int64),
            values=np.empty((n, LIST_MOST), dtype=np.float32),
            masses=np.empty((n, LIST_MOST), dtype=np.float32),
            candidate_shares=np.full((n, n_kept), -1.0) if n_kept else None,
            counts=None if bins is None else np.zeros((n, bins.n), dtype=np.int32),
            hits=None if bins is None else np.zeros((n, bins.n), dtype=np.int32),
        )

    def record(
        self,
        case: int,
        ranking: Ranking,
        future: NDArray[np.int64],
        n_known: int,
        n_items: int,
        bins: Bins | None = None,
    ) -> None:
        """Record a case: where the ranking has its held-out items, by code or −1."""
        at = np.where(future >= 0, ranking.places(future, n_items), -1)
        start = int(np.searchsorted(self.owners, case))
        seen, here = at >= 0, slice(start, start + len(future))
        self.items[here] = np.where(seen, future, -1)
        self.ranks[here] = ranking.entries("rank")[at]
        self.shares[here] = np.append(ranking.shares, 0.0)[at]
        self.n_known[case] = n_known
        self.n_candidates[case] = len(ranking.items)
        self.values[case], self.masses[case] = ranking.of_the_best()
        if self.candidate_shares is not None:
            self.candidate_shares[case, : len(ranking.items)] = ranking.shares
        if bins is not None and self.counts is not None and self.hits is not None:
            places = bins.of(ranking.shares, n_known)
            self.counts[case] = np.bincount(places, minlength=bins.n)
            self.hits[case] = np.bincount(places[at[seen]], minlength=bins.n)

    def entries(self, threshold: Literal["rank", "score"]) -> NDArray[np.float64]:
        """Return the threshold at which each held-out item enters: its rank, or minus its share.

        Infinite for unknown items.
        """
        if threshold == "rank":
            return self.ranks
        return np.where(np.isinf(self.ranks), np.inf, -self.shares)

    def sizes(
        self, cases: NDArray[np.intp], threshold: Literal["rank", "score"], at: float
    ) -> NDArray[np.float64]:
        """Return the set sizes of some cases at a finite threshold.

        A score threshold requires the candidates' shares.
        """
        if threshold == "rank":
            return np.minimum(self.n_candidates[cases].astype(np.float64), at)
        shares, bound = self.candidate_shares, max(-at, 0.0)
        assert shares is not None  # noqa: S101  # kept for score thresholds
        # Bisection, as shares fall; this copies no rows of a large catalogue.
        low, high = np.zeros(len(cases), dtype=np.int64), np.full(len(cases), shares.shape[1])
        while (open_ := low < high).any():
            middle = (low + high) // 2
            inside = open_ & (shares[cases, np.minimum(middle, shares.shape[1] - 1)] >= bound)
            low = np.where(inside, middle + 1, low)
            high = np.where(open_ & ~inside, middle, high)
        return low.astype(np.float64)

    def mean_sizes(
        self, curve: RiskCurve, threshold: Literal["rank", "score"], significances: Sequence[float]
    ) -> list[float | None]:
        """Return the mean set size of all cases at each ε; None where `curve` supports no set."""
        every, found = np.arange(len(self)), map(curve.threshold, significances)
        return [
            float(self.sizes(every, threshold, at).mean()) if at < np.inf else None for at in found
        ]


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
    """Score each case with the user left out, and return the ranks of the held-out items.

    Parameters
    ----------
    scorer : Scorer or anything with `score`
        Scores the items, leaving each case's user out.
    statistics : PrecedenceStatistics
        Statistics of the model; they may be older than the cases.
    cases : Cases
        Histories and held-out interactions, possibly of other data than the statistics.
    keep_candidates : bool, default=False
        Whether to keep all candidates' shares, which needs 8 bytes per case and item.
    bins : Bins, optional
        Bins by which each case's candidates are counted.
    allowed : array of int, optional
        The only candidates, by code. Other held-out items are ignored, and cases without any of
        these are left out.
    doing : str
        Text of the progress bar.
    """
    users, items = codes_in(statistics, cases.interactions)
    wrapped = as_scorer(scorer, statistics.n_items)
    cases = cases[_any_known(cases, items) & wrapped.reaches(users[cases.users])]
    futures = [items[cases.future(case)] for case in range(len(cases))]
    if allowed is not None:
        futures = [future[np.isin(future, allowed)] for future in futures]
        cases = cases[np.array([len(future) > 0 for future in futures], dtype=bool)]
        futures = [future for future in futures if len(future)]
    n_cases = len(cases)
    n_future = np.array([len(future) for future in futures], dtype=np.int64)
    n_kept = statistics.n_items if keep_candidates else 0
    found = Outcomes.blank(cases, n_future, n_kept=n_kept, bins=bins)
    at_once = max(_CASES_AT_ONCE, wrapped.at_once)

    def one(case: int, query: Query, scores: NDArray[np.float64]) -> None:
        ranking, _ = rank_items(wrapped, statistics, query, scores, allowed)
        n_known = len(query.history)
        found.record(case, ranking, futures[case], n_known, statistics.n_items, bins)

    def block(start: int) -> int:
        stop = min(start + at_once, n_cases)
        queries = [
            cases.query(case, users, items).known_to(statistics) for case in range(start, stop)
        ]
        if wrapped.at_once > 1:
            scored: Iterable[NDArray[np.float64]] = wrapped.score_candidates(queries)
        else:  # one at a time, to hold one row in memory
            scored = map(wrapped.score_query, queries)
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
    """Return the ranking of a user's candidates, and the value of every item.

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
    """The best items of some users, one row per item: user by user, best first."""

    owners: NDArray[np.int64]
    """The user of each row, as an index."""
    items: NDArray[np.int64]
    ranks: NDArray[np.int64]
    """From 1."""
    values: NDArray[np.float64]
    shares: NDArray[np.float64]

    def only(self, chosen: NDArray[np.bool_]) -> Best:
        """Return the chosen rows."""
        return self._replace(**{name: part[chosen] for name, part in self._asdict().items()})


def ranks_together(scorer: Scorer, statistics: PrecedenceStatistics) -> bool:
    """Return whether :func:`best_by_block` gives the same as one by one, and is faster.

    Item codes must be in order of popularity, which breaks ties.
    """
    in_order = np.array_equal(statistics.popularity, np.arange(statistics.n_items))
    return in_order and scorer.at_once > 1 and not scorer.is_partial


def best_by_block(
    scorer: Scorer, statistics: PrecedenceStatistics, queries: Queries, k: int | None
) -> Iterator[tuple[list[Query], Best]]:
    """Yield blocks of queries with the k best items of each, or all items in order."""
    n_users = statistics.n_users
    for start in range(0, len(queries), scorer.at_once):
        block = queries.part(start, start + scorer.at_once)
        known, hidden = [], []
        for place in range(len(block)):
            query = block[place]
            unknown = statistics.unknown_without(query.users)
            known.append(query.known_to(statistics) if len(unknown) else query)
            hidden.append(np.union1d(query.history, unknown) if len(unknown) else query.history)
        scores = scorer.score_candidates(known)
        n_known = np.array([len(query.history) for query in known])
        n_outside = scores.shape[1] - np.array([len(items) for items in hidden])
        terms, outside = np.empty((len(known), 3)), np.ones(scores.shape[1], dtype=bool)
        for row, (items, length) in enumerate(zip(hidden, n_known.tolist(), strict=True)):
            outside[items] = False
            terms[row] = share_terms(scorer.value(scores[row][outside], length, n_users))
            outside[items] = True
            scores[row, items] = -np.inf  # no candidates
        limits = n_outside if k is None else np.minimum(n_outside, k)
        found = _best_codes(scores, limits)
        owners = np.repeat(np.arange(len(known)), limits)
        ranks = np.arange(1, len(owners) + 1) - np.repeat(np.cumsum(limits) - limits, limits)
        values = scorer.value(scores[owners, found], n_known[owners], n_users)
        shares = shares_of(values, terms[owners].T, ranks, n_outside[owners])
        yield known, Best(owners, found, ranks, values, shares)


def _best_codes(scores: NDArray[np.float64], limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the items with the highest scores of each row, ties by code, row after row."""
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
