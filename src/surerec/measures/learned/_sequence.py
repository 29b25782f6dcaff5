"""A ridge regression of the next items on the recent past, with exact leave-out of users.

Every position of every history is a row. Its input is the past, weighted by recency; its output is
the next few items, with decreasing weights. This is a sequence model in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._grouping import group_rows
from surerec._memory import available_memory
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.measures.learned._ridge import BaseRidge, invert, sum_tables, whole_classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures.learned._ridge import RidgeQuery, Table


MOST_ITEMS: Final = 5_000
"""Maximum number of items, the most popular; the others score 0. A decay has 200 MB of them."""
_MOST_ROWS: Final = 200
"""Rows of each user, the latest ones. They bound the cost of leaving a user out."""
_ITEMS_AT_ONCE: Final = 64
_SMALLEST: Final = 1e-9  # pivot or step, where rounding leaves less


class Decay(NamedTuple):
    """Decreasing weights of past and next items; all distances are numbers of items."""

    past: float
    n_past: int
    ahead: float
    n_ahead: int

    @property
    def kept(self) -> float:
        """Weight of a past item, relative to the weight of the item after it."""
        return float(np.exp(-1 / self.past))

    def of_past(self, age: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of past items; the latest has age 0."""
        return np.where((age >= 0) & (age < self.n_past), np.exp(-np.abs(age) / self.past), 0.0)

    def of_next(self, ahead: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of next items; the nearest is 0 items ahead."""
        inside = (ahead >= 0) & (ahead < self.n_ahead)
        return np.where(inside, np.exp(-np.abs(ahead) / self.ahead), 0.0)

    def past_products(self) -> NDArray[np.float64]:
        """Return ``[d, n]``: the product of the weights of ages a and a + d, summed over a < n."""
        age = np.arange(self.n_past)
        both = self.of_past(age) * self.of_past(age[:, None] + age)
        return np.pad(np.cumsum(both, axis=1), ((0, 0), (1, 0)))

    def next_products(self) -> NDArray[np.float64]:
        """Return ``[d, n]``: the same of ages a and of items d − 1 − a ahead, from a = n on."""
        age = np.arange(self.n_past + self.n_ahead)
        both = self.of_past(age) * self.of_next(age[:, None] - 1 - age)
        return np.ascontiguousarray(np.cumsum(both[:, ::-1], axis=1)[:, ::-1])


SHORT: Final = Decay(4.0, 20, 2.0, 3)
LONG: Final = Decay(15.0, 60, 4.0, 10)
STRENGTHS: Final = {SHORT: 0.08, LONG: 0.3}
"""λ per user of the regressions that are features, chosen on second-last items of MovieLens 1M."""


@dataclass(frozen=True, repr=False)
class SequentialRidge(BaseRidge):
    """Regression of next items, Y, on the recent past, X, over the positions of all histories.

    With ``P = (XᵀX + λI)⁻¹`` the weights are ``B = P Xᵀ Y``. Without users whose rows are V and W,
    the prediction for h is exactly ``hB − a (W − VB)`` with ``a = h P Vᵀ (I − V P Vᵀ)⁻¹``. Both
    matrices have 32 bits.
    """

    weights: NDArray[np.float32]
    outputs: NDArray[np.int64]
    """Number of rows of which each item is the next."""
    decay: Decay = SHORT

    @classmethod
    @progress("Fitting a ridge regression of the next items", None)
    def fit(
        cls,
        interactions: Interactions,
        strength: float | None = None,
        most_items: int = MOST_ITEMS,
        decay: Decay = SHORT,
    ) -> SequentialRidge:
        """Fit over the most popular items.

        Parameters
        ----------
        interactions : Interactions
            The profiles.
        strength : float, optional
            λ per user; by default that of `STRENGTHS`.
        most_items : int, default=5,000
            Maximum number of items; fewer if memory is short.
        decay : Decay, optional
            Weights of past and next items.
        """
        most_fitting = int((available_memory() // 24) ** 0.5)  # four matrices, and a reserve
        n_items = whole_classes(interactions, min(most_items, most_fitting))
        gram, cross, outputs = _products(interactions, decay, n_items)
        penalty = STRENGTHS[decay] if strength is None else strength
        gram.flat[:: n_items + 1] += penalty * interactions.n_users
        inverse = invert(gram)
        return cls(inverse, inverse @ cross, outputs, decay)

    def _expected(
        self, queries: Sequence[RidgeQuery], columns: NDArray[np.int64] | None
    ) -> Iterator[NDArray[np.float64]]:
        inside = [query.history < self.n_items for query in queries]
        tables = [
            (query.history[known], query.weights[:, known])
            for query, known in zip(queries, inside, strict=True)
        ]
        own = [self._rows_of(query.own) if query.own else None for query in queries]
        moved = [
            None
            if rows is None
            else _leave_out(self.inverse, rows.items, rows.inputs, self.decay.kept, *table)
            for table, rows in zip(tables, own, strict=True)
        ]
        added = [
            table if rows is None or by is None else _joined(table, (rows.items, by @ rows.inputs))
            for table, rows, by in zip(tables, own, moved, strict=True)
        ]
        all_sums = sum_tables(self.weights, added, columns)
        for rows, by, sums in zip(own, moved, all_sums, strict=True):
            if rows is not None and by is not None:
                sums -= [np.bincount(rows.items, each, self.n_items) for each in by @ rows.outputs]
                is_next = rows.outputs.any(axis=0)
                counts = np.bincount(rows.items[is_next], minlength=self.n_items)
                sums[:, (counts > 0) & (counts == self.outputs)] = 0.0  # else a rounding error
            yield sums

    @cached_property
    def _bands(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of each position (column) as input and as output of each row."""
        place = np.arange(self.decay.n_past + _MOST_ROWS)
        age = place[:, None] - 1 - place
        return self.decay.of_past(age), self.decay.of_next(-1 - age)

    def _rows_of(self, own: Sequence[NDArray[np.int64]]) -> _OwnRows:
        """Return the rows of users to leave out."""
        from scipy import linalg  # noqa: PLC0415  # slow to import, and not needed by other measures

        parts = []
        for profile in own:
            first = max(len(profile) - _MOST_ROWS, 1)
            begin = max(first - self.decay.n_past, 0)
            items = profile[begin:]
            rows, known = slice(first - begin, len(items)), np.flatnonzero(items < self.n_items)
            bands = [band[rows, : len(items)] for band in self._bands]
            if len(known) < len(items):  # slow
                bands = [band.take(known, axis=1) for band in bands]
            parts.append(_OwnRows(items[known], *map(np.ascontiguousarray, bands)))
        if len(parts) == 1:
            return parts[0]
        every, inputs, outputs = zip(*parts, strict=True)
        return _OwnRows(
            np.concatenate(every), linalg.block_diag(*inputs), linalg.block_diag(*outputs)
        )


class _OwnRows(NamedTuple):
    """Rows of users to leave out, over the positions of their profiles."""

    items: NDArray[np.int64]
    """The item of each position."""
    inputs: NDArray[np.float64]
    outputs: NDArray[np.float64]


_fast = njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})


@_fast
def _dot(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    total = 0.0
    for k in range(np.uint64(len(first))):
        total += first[k] * second[k]
    return total


@_fast
def _add(weight: float, row: NDArray[np.floating], sums: NDArray[np.float64]) -> None:
    for k in range(np.uint64(len(sums))):
        sums[k] += weight * row[k]


@_fast
def _systems(
    inverse: NDArray[np.floating],
    own: NDArray[np.int64],
    inputs: NDArray[np.float64],
    kept: float,
    items: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``I − V P Vᵀ``, its lower half, and ``h P Vᵀ`` for each weighting.

    A row of inputs V is `kept` times the row before it, and few steps: an item enters, one leaves.
    """
    n, among = len(inputs), np.empty((len(own), len(own)))
    for j in range(len(own)):
        among[j] = inverse[own[j]][own]
    toward = np.zeros((len(weights), len(own)))
    for k in range(len(items)):
        picked = inverse[items[k]][own]  # the matrix is symmetric
        for w in range(len(weights)):
            _add(weights[w, k], picked, toward[w])
    steps = inputs.copy()
    steps[1:] -= kept * inputs[:-1]
    rows, places = np.nonzero(np.abs(steps) > _SMALLEST)
    starts = np.searchsorted(rows, np.arange(n + 1))
    products = np.zeros((n + 1, len(own)))  # V P, below a row of zeros
    left, found = np.eye(n), np.zeros((len(weights), n + 1))
    for t in range(n):
        _add(kept, products[t], products[t + 1])
        for k in range(starts[t], starts[t + 1]):
            _add(steps[t, places[k]], among[places[k]], products[t + 1])
        product = 0.0
        for other in range(t + 1):
            product *= kept
            for k in range(starts[other], starts[other + 1]):
                product += steps[other, places[k]] * products[t + 1, places[k]]
            left[t, other] -= product
        for w in range(len(weights)):
            found[w, t] = kept * found[w, t - 1]  # before the first row, the last column: 0
            for k in range(starts[t], starts[t + 1]):
                found[w, t] += steps[t, places[k]] * toward[w, places[k]]
    return left, found[:, :n]


@_fast
def _leave_out(
    inverse: NDArray[np.floating],
    own: NDArray[np.int64],
    inputs: NDArray[np.float64],
    kept: float,
    items: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the coefficients ``a`` of the left-out rows, for each weighting, by Cholesky.

    Calls of BLAS would be slower: its threads wait for each other in systems as small as these.
    """
    left, found = _systems(inverse, own, inputs, kept, items, weights)
    for t in range(len(left)):
        for k in range(t):
            left[t, k] = (left[t, k] - _dot(left[t, :k], left[k, :k])) / left[k, k]
        left[t, t] = np.sqrt(max(left[t, t] - _dot(left[t, :t], left[t, :t]), _SMALLEST))
    for each in found:
        for t in range(len(left)):
            each[t] = (each[t] - _dot(left[t, :t], each[:t])) / left[t, t]
        for t in range(len(left) - 1, -1, -1):
            each[t] /= left[t, t]
            _add(-each[t], left[t], each[:t])
    return found


def _joined(first: Table, second: Table) -> Table:
    return np.concatenate((first[0], second[0])), np.hstack((first[1], second[1]))


def _products(
    interactions: Interactions, decay: Decay, n_items: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Return ``XᵀX``, ``XᵀY``, and the number of rows of which each item is the next."""
    offsets, items = interactions.offsets, interactions.item_codes
    lengths = np.diff(offsets)
    begins, ends = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    firsts = np.maximum(begins + 1, ends - _MOST_ROWS)
    occurrences = group_rows(items, interactions.n_items)
    products = decay.past_products(), decay.next_products()
    gram, cross = np.empty((2, n_items, n_items), np.float32)

    def fill(first: int) -> None:
        rows = slice(first, min(first + _ITEMS_AT_ONCE, n_items))
        sums = np.zeros((2, rows.stop - first, interactions.n_items))
        arrays: Any = *occurrences, begins, firsts, ends, items, *products
        _add_products(first, sums[0], sums[1], *arrays)
        gram[rows], cross[rows] = sums[:, :, :n_items]

    list(run_blocks(fill, range(0, n_items, _ITEMS_AT_ONCE)))
    is_next = np.arange(len(items)) >= firsts
    return gram, cross, np.bincount(items[is_next], minlength=n_items)[:n_items]


@njit(nogil=True, cache=True)
def _add_products(
    first_item: int,
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    offsets: NDArray[np.int64],
    places: NDArray[np.int64],
    begins: NDArray[np.int64],
    firsts: NDArray[np.int64],
    ends: NDArray[np.int64],
    items: NDArray[np.uint32],
    of_pasts: NDArray[np.float64],
    of_nexts: NDArray[np.float64],
) -> None:
    """Add the products of some items, from `first_item` on, with the items around them.

    Row t of a profile has the places before t as inputs and those from t on as outputs. Rows begin
    at the profile's `firsts`.
    """
    n_past, reach = len(of_pasts), len(of_nexts)
    for k in range(len(gram)):
        for occurrence in range(offsets[first_item + k], offsets[first_item + k + 1]):
            place = places[occurrence]
            begin, first, end = begins[place], firsts[place], ends[place]
            for other in range(max(begin, place - n_past + 1), min(end - 1, place + n_past)):
                apart, later = abs(other - place), max(other, place)
                n_rows = min(n_past, end - 1 - later)
                skipped = max(first - 1 - later, 0)
                if skipped < n_rows:
                    product = of_pasts[apart, n_rows] - of_pasts[apart, skipped]
                    gram[k, items[other]] += product
            for other in range(max(place + 1, first), min(end, place + reach)):
                cross[k, items[other]] += of_nexts[other - place, max(first - 1 - place, 0)]
