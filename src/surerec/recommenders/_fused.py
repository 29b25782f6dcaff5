"""A person's scores and p-values in one call of a kernel, where every row lies in a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from surerec.conformal._kernels import judge
from surerec.measures import _kernels as kernels
from surerec.measures._aggregates import STATISTIC_CODES, WANTED, is_worth_threads
from surerec.measures._folding import room_for
from surerec.measures._tiles import LeftOut, leave_out
from surerec.precedence import Source, source
from surerec.precedence._rows import DenseRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures import MeasureScorer
    from surerec.measures._folding import Aggregates

__all__ = ["Plan", "judge_profile", "pays", "plan", "rows_of", "score_profile"]

aggregate_columns = kernels.aggregate_columns
_PLACES = np.zeros(1 + kernels.HIGH, dtype=np.int64)  # of the aggregates, by which is wanted
_PLACES[[kernels.LOW, kernels.MIDDLE, kernels.TOTAL, kernels.HIGH]] = range(4)
_NONE = np.empty(0, dtype=np.int64)


class Plan(NamedTuple):
    """What a measure needs of the counts, as the kernels take it."""

    statistic: int
    wanted: int
    sign: float
    """−1 for a nonconformity."""
    following: bool
    forward: Source
    reverse: Source
    support: NDArray[np.uint32]
    strict: bool


def plan(scorer: MeasureScorer) -> Plan | None:
    """Give the plan of a measure, or None where it takes more than one aggregate of rows held."""
    measure, rows = scorer.measure, scorer.statistics.rows
    if not isinstance(rows, DenseRows) or (measure.statistic == "score" and scorer.top > 1):
        return None
    forward, reverse = source(rows, "followers", _NONE), source(rows, "predecessors", _NONE)
    following = not (scorer.literal and measure.statistic == "share")
    return Plan(
        STATISTIC_CODES[measure.statistic],
        WANTED[measure.aggregate],
        -1.0 if measure.is_nonconformity else 1.0,
        following,
        *((forward, reverse) if following else (reverse, forward)),
        scorer.statistics.support,
        scorer.statistics.ties == "strict",
    )


def pays(wish: Plan, n_training: int) -> bool:
    """Tell whether one thread is as fast as several for so long a history."""
    return not is_worth_threads(wish.statistic, wish.wanted, n_training, len(wish.support))


@njit(nogil=True, cache=True)
def _with_places(rows: Source, places: NDArray[np.int64]) -> Source:
    return Source(rows.matrix, rows.counted, rows.offsets, rows.items, rows.counts, places)


@njit(nogil=True, cache=True)
def rows_of(
    wish: Plan, training: NDArray[np.int64], own: NDArray[np.uint32], times: NDArray[np.int64]
) -> tuple[Source, Source, LeftOut]:
    """Give the rows of a history in both directions, and what the user who took `own` did."""
    instants, of_rows, support = leave_out(training, wish.support, own, times, wish.strict)
    out = LeftOut(own, instants, of_rows, support)
    return _with_places(wish.forward, training), _with_places(wish.reverse, training), out


@njit(nogil=True, cache=True)
def score_profile(
    wish: Plan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    room: Aggregates,
) -> NDArray[np.float64]:
    """Score every item, without the user who took `own`; the result is a part of `room`."""
    source, reverse, out = rows_of(wish, training, own, times)
    aggregate_columns(
        0,
        len(wish.support),
        wish.statistic,
        wish.wanted,
        wish.following,
        source,
        reverse,
        out,
        room,
    )
    found: NDArray[np.float64] = room[_PLACES[wish.wanted]]
    if wish.sign < 0.0:
        for item in range(len(found)):
            found[item] = -found[item]
    return found


@njit(nogil=True, cache=True)
def judge_profile(
    wish: Plan,
    history: NDArray[np.int64],
    n_training: int,
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Give the candidates' scores, and their p-values as counts."""
    new, counts = np.empty(len(candidates)), np.empty(len(candidates), np.int64)
    room = room_for(len(wish.support))
    scores = score_profile(wish, history[:n_training], own, times, room)
    judge(scores, history[n_training:], candidates, new, counts)
    return new, counts
