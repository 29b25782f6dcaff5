"""The best items of many users at once: blocks of scores, and no ranking beyond what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._ordering import best_first
from surerec.calibration._ranking import share_terms, shares_of
from surerec.calibration.kernels import keep_best

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

_FEW: Final = 64  # items of a list that is kept in order as it is found; longer ones are sorted
_LOWEST: Final = float(np.finfo(np.float64).min)  # below every score, but not the known items' −∞


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
