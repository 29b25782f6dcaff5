"""Aggregates over the rows of a profile: pure functions on arrays that release the GIL.

Which of three ways is taken is known before the kernel, by the statistic and by where the rows lie.
It is a type, so that a caller is compiled with its own way alone: all three take ten times as
long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numba import njit
from numba.extending import overload

from surerec.measures._counts import aggregate_counts
from surerec.measures._tiles import COUNT, NARROW, RATIO, TOTAL
from surerec.measures._values import aggregate_values, total_ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.measures._tiles import Aggregates, LeftOut
    from surerec.precedence import Source


class OfCounts(NamedTuple):
    """Aggregates of counts."""

    statistic: int


class OfTotals(NamedTuple):
    """Totals of ratios over rows of 16-bit matrices, where they lie: CM12's way."""

    statistic: int


class OfValues(NamedTuple):
    """Aggregates of shares, ratios and absences, wherever the rows are."""

    statistic: int


Way = OfCounts | OfTotals | OfValues


def way_of(statistic: int, wanted: int, source: Source, reverse: Source) -> Way:
    """Give the way to aggregate a statistic of these rows.

    `wanted` is the sum of LOW, MIDDLE, TOTAL and HIGH. A source without places is asked for rows of
    its matrix alone.
    """
    if statistic == COUNT:
        return OfCounts(statistic)
    if statistic == RATIO and wanted == TOTAL and _in_matrix(source) and _in_matrix(reverse):
        return OfTotals(statistic)
    return OfValues(statistic)


def _in_matrix(source: Source) -> bool:
    inside = len(source.places) == 0 or source.places.max() < len(source.matrix)
    return bool(inside) and source.matrix.itemsize == NARROW


@njit(nogil=True, cache=True)
def _of_counts(
    first: int,
    last: int,
    way: Way,  # noqa: ARG001  # all ways are asked alike
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    reverse: Source,  # noqa: ARG001
    out: LeftOut,
    result: Aggregates,
) -> None:
    aggregate_counts(first, last, wanted, following, source, out, result)


@njit(nogil=True, cache=True)
def _of_totals(
    first: int,
    last: int,
    way: Way,  # noqa: ARG001
    wanted: int,  # noqa: ARG001
    following: bool,  # noqa: ARG001, FBT001
    source: Source,
    reverse: Source,
    out: LeftOut,
    result: Aggregates,
) -> None:
    total_ratios(first, last, source, reverse, out, result.total)


@njit(nogil=True, cache=True)
def _of_values(
    first: int,
    last: int,
    way: Way,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    reverse: Source,
    out: LeftOut,
    result: Aggregates,
) -> None:
    aggregate_values(first, last, way.statistic, wanted, following, source, reverse, out, result)


_KERNELS: dict[type[Way], Callable[..., None]] = {
    OfCounts: _of_counts,
    OfTotals: _of_totals,
    OfValues: _of_values,
}


def aggregate_columns(
    first: int,
    last: int,
    way: Way,
    wanted: int,
    following: bool,  # noqa: FBT001  # a kernel takes positional arguments only
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
    _KERNELS[type(way)](first, last, way, wanted, following, source, reverse, out, result)


@overload(aggregate_columns, jit_options={"nogil": True})
def _choose(
    first: Any,  # noqa: ARG001  # by their types, of which one matters
    last: Any,  # noqa: ARG001
    way: Any,
    wanted: Any,  # noqa: ARG001
    following: Any,  # noqa: ARG001
    source: Any,  # noqa: ARG001
    reverse: Any,  # noqa: ARG001
    out: Any,  # noqa: ARG001
    result: Any,  # noqa: ARG001
) -> Callable[..., None]:
    """Give other kernels the one of their way."""
    kernel = _KERNELS[way.instance_class]

    def aggregate(
        first: Any,
        last: Any,
        way: Any,
        wanted: Any,
        following: Any,
        source: Any,
        reverse: Any,
        out: Any,
        result: Any,
    ) -> None:
        kernel(first, last, way, wanted, following, source, reverse, out, result)

    return aggregate
