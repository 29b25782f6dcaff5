"""Aggregates over the rows of a profile: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from surerec.measures._counts import aggregate_counts
from surerec.measures._folding import COUNT
from surerec.measures._values import aggregate_values

if TYPE_CHECKING:
    from surerec.measures._folding import Aggregates
    from surerec.measures._tiles import LeftOut
    from surerec.precedence import Source


@njit(nogil=True, cache=True)
def aggregate_columns(
    first: int,
    last: int,
    statistic: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    reverse: Source,
    out: LeftOut,
    result: Aggregates,
) -> None:
    """Aggregate a statistic of items `first` … `last` − 1 (columns) over a profile (rows).

    `wanted` is the sum of LOW, MIDDLE, TOTAL and HIGH: only those are defined after. The rows of
    `source` are of those that follow the rows' items, or precede if not `following`; `reverse` has
    the other direction, and is read for RATIO alone. A user's own part is left `out`.
    """
    if statistic == COUNT:
        aggregate_counts(first, last, wanted, following, source, out, result)
    else:
        aggregate_values(first, last, statistic, wanted, following, source, reverse, out, result)
