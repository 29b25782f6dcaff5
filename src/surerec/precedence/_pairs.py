"""The pairs of items whose order says most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from surerec._arguments import check_kind
from surerec._checks import check_whole
from surerec.precedence._statistics import PrecedenceStatistics

_UNROUNDED: Final = 1 - 1e-9
"""What rounding may add to a square at the most."""


@dataclass(frozen=True)
class PrecedencePair:
    """Two items, by code, and how many users took them in either order."""

    first: int
    second: int
    support: int
    """Users who took the first."""
    forward: int
    """Users who took the second after the first."""
    backward: int
    """Users who took the second before the first."""


def strongest_pairs(statistics: PrecedenceStatistics, n_pairs: int = 10) -> list[PrecedencePair]:
    """Give the pairs of items of strongest order: the furthest from a coin's toss.

    Of the users who took both, ``PC(i, h)`` took i first and ``PC(h, i)`` took h first. Pairs are
    ranked by the sign test's ``z = (PC(i, h) − PC(h, i)) / √(PC(i, h) + PC(h, i))``: a description
    of the data, not a test, for the strongest of millions of pairs were picked. Pairs that are
    equally strong come by code.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts.
    n_pairs : int, default=10
        How many pairs to give at the most.

    Examples
    --------
    >>> from surerec import Interactions, count_precedence
    >>> statistics = count_precedence(Interactions.from_profiles([0, 2, 4, 6], [0, 1, 0, 1, 1, 0]))
    >>> strongest_pairs(statistics)
    [PrecedencePair(first=0, second=1, support=3, forward=2, backward=1)]
    """
    check_kind(
        "statistics", statistics, PrecedenceStatistics, "counts (see surerec.count_precedence)"
    )
    check_whole("n_pairs", n_pairs)
    best: list[tuple[float, PrecedencePair]] = []
    for item in range(statistics.n_items):
        support = int(statistics.support[item])
        # As z² ≤ PC(i, h) ≤ Sup(i), items of few takers have no pair as strong; most are of those.
        if len(best) == n_pairs and support < best[-1][0] ** 2 * _UNROUNDED:
            continue
        forward = statistics.followers(item).astype(np.int64)
        backward = statistics.predecessors(item).astype(np.int64)
        z = (forward - backward) / np.sqrt(np.maximum(forward + backward, 1))
        top = np.argsort(-z, kind="stable")[:n_pairs]
        best += [
            (
                float(z[other]),
                PrecedencePair(
                    item, int(other), support, int(forward[other]), int(backward[other])
                ),
            )
            for other in top
            if z[other] > 0
        ]
        best = sorted(best, key=lambda scored: -scored[0])[:n_pairs]
    return [pair for _, pair in best]
