"""Sets of many people at once, cut by rank: blocks of scores, and no ranking beyond the cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.calibration._calibration import BestOfMany
from surerec.conformal import TOLERANCE, CalibratedProbability
from surerec.futures import shares_of_best

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from surerec.calibration._thresholds import Thresholds
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics


def best_by_rank(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    thresholds: Thresholds,
    chances: Callable[[Query, NDArray[np.float64]], CalibratedProbability],
    queries: Queries,
    significance: float,
    k: int | None,
) -> BestOfMany | None:
    """Give the sets of people, or the k best of them; None where one by one is as fast.

    Items must be numbered by popularity: who ties is told apart by it. `chances` gives the
    probabilities of a person's best items by their shares.
    """
    in_order = np.array_equal(statistics.popularity, np.arange(statistics.n_items))
    if scorer.at_once == 1 or scorer.is_partial or not in_order:
        return None
    parts: list[tuple[NDArray[Any], ...]] = []
    for query, scores in _scored(scorer, queries):
        n_known = len(query.history)
        levels = thresholds.of(query).levels_by_rank(statistics.n_items - n_known)
        n_in = int(np.count_nonzero(levels > significance + TOLERANCE))
        n_best = n_in if k is None else min(n_in, k)
        items = best_items(scores, query.history, n_best)
        values = scorer.value(scores, n_known, statistics.n_users)
        found = chances(query, shares_of_best(values, items, query.history))
        parts.append((items, values[items], 1 - levels[:n_best], *found))
    lengths = [len(part[0]) for part in parts]
    items, shown, entries, *likely = (np.concatenate(each) for each in zip(*parts, strict=True))
    return BestOfMany(
        owners=np.repeat(np.arange(len(queries)), lengths),
        items=items,
        ranks=np.concatenate([np.arange(1, length + 1) for length in lengths]),
        scores=shown,
        p_values=np.full(len(items), np.nan),
        entry_confidences=entries,
        chances=CalibratedProbability(*likely),
    )


def _scored(scorer: Scorer, queries: Queries) -> Iterator[tuple[Query, NDArray[np.float64]]]:
    for start in range(0, len(queries), scorer.at_once):
        block = queries.part(start, start + scorer.at_once)
        some = [block[place] for place in range(len(block))]
        yield from zip(some, scorer.score_many(some), strict=True)


def best_items(
    scores: NDArray[np.float64], known: NDArray[np.int64], n_best: int
) -> NDArray[np.int64]:
    """Give the items with the highest scores outside of what is known, equal ones by code.

    Examples
    --------
    >>> best_items(np.array([1.0, 3, 2, 3, 2]), np.array([1]), 3)
    array([3, 2, 4])
    """
    inside = np.ones(len(scores), dtype=bool)
    inside[known] = False
    candidates = np.flatnonzero(inside)
    found = scores[candidates]
    if 2 * n_best < len(found):  # of more, sorting them all is as fast
        lowest = np.partition(found, len(found) - n_best)[len(found) - n_best] if n_best else np.inf
        chosen = found > lowest
        chosen[np.flatnonzero(found == lowest)[: n_best - np.count_nonzero(chosen)]] = True
        candidates, found = candidates[chosen], found[chosen]
    return candidates[falling(found)[:n_best]]


def falling(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Give the places of values from the highest to the lowest, equal ones in their order.

    Values that single precision can say, as most models give them, are sorted as one whole number
    each, with the place behind the value: several times as fast as sorting places by values.

    Examples
    --------
    >>> falling(np.array([0.5, 2.0, -1.0, 2.0, 0.1])).tolist()
    [1, 3, 0, 4, 2]
    """
    narrow = (0.0 - values).astype(np.float32) + np.float32(0)  # which makes one zero of two
    if not np.array_equal(narrow, -values):
        return np.argsort(-values, kind="stable")
    bits = narrow.view(np.int32)
    keys = np.where(bits < 0, bits ^ np.int32(2**31 - 1), bits).astype(np.int64)
    packed = (keys << 32) | np.arange(len(values))
    packed.sort()
    return packed & (2**32 - 1)
