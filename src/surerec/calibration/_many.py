"""Sets of many people at once: blocks of scores, and no ranking beyond what is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._ordering import best_first
from surerec.calibration._calibration import BestOfMany
from surerec.calibration._likely import keep_best
from surerec.conformal import TOLERANCE, CalibratedProbability
from surerec.futures import share_terms, shares_by_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._promises import Cut
    from surerec.calibration._thresholds import Thresholds
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

_FEW: Final = 64  # items of a list that is kept in order as it is found; longer ones are sorted
_TOGETHER: Final = 16  # people whose values stay in the second-level cache
_LOWEST: Final = float(np.finfo(np.float64).min)  # below every score, but not the known items' −∞


class Best(NamedTuple):
    """The best items of some people, in rows: person by person, best first."""

    owners: NDArray[np.int64]
    """Which of the people each row is about."""
    items: NDArray[np.int64]
    ranks: NDArray[np.int64]
    """From 1."""
    values: NDArray[np.float64]
    shares: NDArray[np.float64]

    def only(self, chosen: NDArray[np.bool_]) -> Best:
        """Give some of the rows."""
        owners, items, ranks = self.owners[chosen], self.items[chosen], self.ranks[chosen]
        return Best(owners, items, ranks, self.values[chosen], self.shares[chosen])


def best_sets(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    cut: Cut,
    thresholds: Thresholds,
    chances: Callable[[Sequence[Query], Best], CalibratedProbability],
    covers: Callable[[Sequence[Query]], NDArray[np.bool_]],
    queries: Queries,
    significance: float,
    k: int | None,
) -> BestOfMany | None:
    """Give the sets of people, or the k best of them; None where one by one is as fast.

    Items must be numbered by popularity: who ties is told apart by it. `chances` gives the
    probabilities of people's best items, `covers` whom the guarantee covers.
    """
    in_order = np.array_equal(statistics.popularity, np.arange(statistics.n_items))
    if scorer.is_partial or not in_order or scorer.at_once == 1:
        return None
    parts: list[tuple[NDArray[Any], ...]] = []
    covered: list[NDArray[np.bool_]] = []
    n_before = 0
    for people, hidden, scores in _scored(scorer, statistics, queries):
        lengths = [statistics.n_items - len(items) for items in hidden]
        if cut == "rank":
            lengths = [
                int(np.count_nonzero(levels > significance + TOLERANCE))
                for levels in thresholds.by_rank(people, lengths)
            ]
        limits = np.array(lengths if k is None else np.minimum(lengths, k))
        best = _best_of(scorer, statistics, people, hidden, scores, limits)
        levels = thresholds.levels(
            people, best.owners, best.ranks.astype(np.float64) if cut == "rank" else -best.shares
        )
        inside = levels > significance + TOLERANCE
        best, levels = best.only(inside), levels[inside]
        likely = chances(people, best)
        covered.append(covers(people))
        parts.append((best.owners + n_before, *best[1:4], 1 - levels, *likely))
        n_before += len(people)
    owners, items, ranks, values, entries, *probabilities = map(
        np.concatenate, zip(*parts, strict=True)
    )
    return BestOfMany(
        owners=owners,
        items=items,
        ranks=ranks,
        scores=values,
        p_values=None,
        entry_confidences=entries,
        covered=np.concatenate(covered),
        chances=CalibratedProbability(*probabilities),
    )


def _scored(
    scorer: Scorer, statistics: PrecedenceStatistics, queries: Queries
) -> Iterator[tuple[list[Query], list[NDArray[np.int64]], NDArray[np.float64]]]:
    """Yield some queries at a time, the items that are no candidates of each, and all scores."""
    for start in range(0, len(queries), scorer.at_once):
        block = queries.part(start, start + scorer.at_once)
        people, hidden = [], []
        for place in range(len(block)):
            query = block[place]
            unknown = statistics.unknown_without(query.users)
            people.append(query.known_to(statistics) if len(unknown) else query)
            hidden.append(np.union1d(query.history, unknown) if len(unknown) else query.history)
        yield people, hidden, scorer.score_candidates(people)


def _best_of(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    people: Sequence[Query],
    hidden: Sequence[NDArray[np.int64]],
    scores: NDArray[np.float64],
    limits: NDArray[np.int64],
) -> Best:
    """Give so many of the best items of each person; what is no candidate gets a score of −∞."""
    n_known = np.array([len(query.history) for query in people])
    n_hidden = np.array([len(items) for items in hidden])
    n_outside = statistics.n_items - n_hidden
    outside = np.ones(scores.shape, dtype=bool)
    _leave_known(scores, outside, np.concatenate(hidden), n_hidden)
    terms = np.array(
        list(_terms_of(scorer, scores, outside, n_known, n_outside, statistics.n_users))
    )
    found = _best_codes(scores, outside, limits)
    owners = np.repeat(np.arange(len(people)), limits)
    ranks = np.arange(1, len(owners) + 1) - np.repeat(np.cumsum(limits) - limits, limits)
    shown = scorer.value(scores[owners, found], n_known[owners], statistics.n_users)
    shares = shares_by_terms(shown, terms[owners].T, ranks, n_outside[owners])
    return Best(owners, found, ranks, shown, shares)


@njit(nogil=True, cache=True)
def _leave_known(
    scores: NDArray[np.float64],
    outside: NDArray[np.bool_],
    known: NDArray[np.int64],
    n_known: NDArray[np.int64],
) -> None:
    """Mark what is known of each person, one after the other, and give it a score of −∞."""
    done = 0
    for person in range(len(n_known)):
        for item in known[done : done + n_known[person]]:
            scores[person, item], outside[person, item] = -np.inf, False
        done += n_known[person]


def _terms_of(
    scorer: Scorer,
    scores: NDArray[np.float64],
    outside: NDArray[np.bool_],
    n_known: NDArray[np.int64],
    n_outside: NDArray[np.int64],
    n_users: int,
) -> Iterator[tuple[float, float, float]]:
    """Give what makes shares of each person's values, of what is outside of what they know.

    Values of a few people at once, as calls for one take longer than the values.
    """
    for start in range(0, len(scores), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        known = np.repeat(n_known[some], n_outside[some])
        values = scorer.value(_chosen(scores[some], outside[some], len(known)), known, n_users)
        ends = np.cumsum(n_outside[some])
        for begin, end in zip(ends - n_outside[some], ends, strict=True):
            yield share_terms(values[begin:end])


@njit(nogil=True, cache=True)
def _chosen(
    scores: NDArray[np.float64], outside: NDArray[np.bool_], n_chosen: int
) -> NDArray[np.float64]:
    """Do what ``scores[outside]`` does, several times as fast: most are, and there is no branch."""
    found, n = np.empty(n_chosen + 1), np.uint64(0)  # what is not chosen is written over
    for row in range(len(scores)):
        for column in range(np.uint64(scores.shape[1])):
            found[n] = scores[row, column]
            n += np.uint64(outside[row, column])
    return found[:-1]


def _best_codes(
    scores: NDArray[np.float64], outside: NDArray[np.bool_], limits: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Give the items of the highest scores of each row, equal ones by code, one after the other."""
    most = int(limits.max(initial=0))
    if most > _FEW:
        rows = zip(scores, outside, limits, strict=True)
        return np.concatenate([best_items(row, there, n) for row, there, n in rows])
    items = np.empty((len(scores), most), dtype=np.int64)
    _keep_few(scores, items)
    return items[np.arange(most) < limits[:, None]]


@njit(nogil=True, cache=True)
def _keep_few(scores: NDArray[np.float64], items: NDArray[np.int64]) -> None:
    by_code, best = np.empty(0, np.int64), np.empty(items.shape[1])
    for row in range(len(scores)):
        keep_best(scores[row], by_code, _LOWEST, items[row], best)


def best_items(
    scores: NDArray[np.float64], outside: NDArray[np.bool_], n_best: int
) -> NDArray[np.int64]:
    """Give the items with the highest scores outside of what is known, equal ones by code.

    Examples
    --------
    >>> best_items(np.array([1.0, 3, 2, 3, 2]), np.array([True, False, True, True, True]), 3)
    array([3, 2, 4])
    """
    candidates = np.flatnonzero(outside)
    found = scores[candidates]
    if 2 * n_best < len(found):  # of more, sorting them all is as fast
        lowest = np.partition(found, len(found) - n_best)[len(found) - n_best] if n_best else np.inf
        chosen = found > lowest
        chosen[np.flatnonzero(found == lowest)[: n_best - np.count_nonzero(chosen)]] = True
        candidates, found = candidates[chosen], found[chosen]
    return candidates[best_first(found)[:n_best]]
