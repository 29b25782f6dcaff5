"""Trees over features, many columns at a time in vector registers: kernels that release the GIL.

A column's leaf is found without walking: each node whose test fails strikes out the leaves to its
left, and the leftmost leaf that is left is the one (QuickScorer). So the work is the same for all
columns, which are lanes of a vector that holds what is left of their leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from surerec.measures._vectors import Lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray


STRIP = 64  # columns: their leaves fill few registers, their features half of the nearest cache
_STRIPS = 16  # in a tile, for which nodes that tell nobody apart are left out
_AT_ONCE = 8  # trees whose values are added together to what is read and written once


@intrinsic
def _find_leaves(
    _context: Any,
    strip: Any,
    offsets: Any,
    thresholds: Any,
    keeps: Any,
    first: Any,
    last: Any,
    common: Any,  # noqa: ARG001  # of the kind of `keeps`
    leaves: Any,
    row: Any,
) -> Any:
    """Write each column's leaf to a row of `leaves`, by the nodes ``first:last``.

    A node's feature begins so many bytes into `strip`. `common` is left of the leaves of all.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, lanes = signature.args, Lanes(context, builder, STRIP)
        values, nodes, bounds, masks = (
            lanes.data(kind, array)[0] for kind, array in zip(kinds[:4], arguments[:4], strict=True)
        )
        width = kinds[3].dtype.bitwidth
        number = ir.IntType(width)
        intp = ir.IntType(64)
        begin, end, line = (
            context.cast(builder, arguments[k], kinds[k], types.intp) for k in (4, 5, 8)
        )

        def entry(start: Any, node: Any, kind: Any, n_bytes: int) -> Any:
            place = lanes.at(start, builder.mul(node, ir.Constant(intp, n_bytes)))
            return lanes.load(place, kind, n_bytes)

        def strike(kept: Any, node: Any) -> Any:
            feature = lanes.at(values, entry(nodes, node, intp, 8))
            column = lanes.load(feature, lanes.floats(), STRIP)
            bound = lanes.spread(entry(bounds, node, ir.FloatType(), 4))
            keep = lanes.spread(entry(masks, node, number, width // 8))
            passed = builder.fcmp_ordered("<=", column, bound)
            return (builder.select(passed, kept[0], builder.and_(kept[0], keep)),)

        left = lanes.fold(begin, end, [lanes.spread(arguments[6])], strike)[0]
        defined = ir.Constant(ir.IntType(1), 1)  # one leaf is always left
        name = f"llvm.cttz.v{STRIP}i{width}"
        found = lanes.call(name, left.type, left, defined)
        start, (stride, _) = lanes.data(kinds[7], arguments[7])
        place = lanes.at(start, builder.mul(line, stride))
        lanes.store(builder.trunc(found, lanes.ints(8)), place, 1)
        return context.get_dummy_value()

    return types.void(
        strip, offsets, thresholds, keeps, first, last, keeps.dtype, leaves, row
    ), generate


find_leaves: Any = _find_leaves


@njit(nogil=True, cache=True)
def _pick_nodes(
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    tree_starts: NDArray[np.int64],
    node_features: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    keeps: NDArray[np.unsignedinteger],
    rights: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    bounds: NDArray[np.float32],
    masks: NDArray[np.unsignedinteger],
    common: NDArray[np.unsignedinteger],
) -> None:
    """Leave out the nodes that all columns of a tile pass, or that none of them comes to.

    Note what those that all fail leave. Neighbours in popularity are alike in most of their
    features, and what is known of a node tells that nobody comes to half of what is below it.
    """
    n, nothing = np.uint64(0), np.uint64(0)
    whole = ~nothing >> np.uint64(64 - 8 * keeps.itemsize)
    for tree in range(len(tree_starts) - 1):
        starts[tree] = n
        struck, dead = nothing, nothing
        for node in range(np.uint64(tree_starts[tree]), np.uint64(tree_starts[tree + 1])):
            f, threshold, keep = np.uint64(node_features[node]), thresholds[node], keeps[node]
            left, right = ~np.uint64(keep) & whole, np.uint64(rights[node])
            offsets[n] = f * np.uint64(4 * STRIP)
            bounds[n] = threshold
            masks[n] = keep
            # No branch, which would be mispredicted half of the time.
            failed = nothing - np.uint64(low[f] > threshold)
            passed = nothing - np.uint64(high[f] <= threshold)
            reached = np.uint64((left & ~dead) != nothing) & np.uint64((right & ~dead) != nothing)
            n += reached & ~(failed | passed)
            struck |= left & failed
            dead |= (left & failed) | (right & passed)
        common[tree] = ~struck
    starts[-1] = n


@intrinsic
def _range_of(_context: Any, features: Any, row: Any, left: Any, n_strips: Any, found: Any) -> Any:
    """Write the lowest and the highest of a row's values in some strips."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, lanes, intp = signature.args, Lanes(context, builder, STRIP), ir.IntType(64)
        line, first, last = (
            context.cast(builder, arguments[k], kinds[k], types.intp) for k in (1, 2, 3)
        )
        start, (stride, _) = lanes.data(kinds[0], arguments[0])
        begin = builder.add(builder.mul(line, stride), builder.mul(first, ir.Constant(intp, 4)))
        start = lanes.at(start, begin)

        def widen(kept: Any, strip: Any) -> Any:
            place = lanes.at(start, builder.mul(strip, ir.Constant(intp, 4 * STRIP)))
            values = lanes.load(place, lanes.floats(), 4)
            below, above = (
                builder.fcmp_ordered(sign, values, kept[k]) for k, sign in enumerate("<>")
            )
            return builder.select(below, values, kept[0]), builder.select(above, values, kept[1])

        one = lanes.load(start, lanes.floats(), 4)
        both = lanes.fold(ir.Constant(intp, 0), last, [one, one], widen)
        out, _ = lanes.data(kinds[4], arguments[4])
        for name, values, n_bytes in zip(("fmin", "fmax"), both, (0, 4), strict=True):
            value = lanes.call(f"llvm.vector.reduce.{name}.v{STRIP}f32", ir.FloatType(), values)
            lanes.store(value, lanes.at(out, ir.Constant(intp, n_bytes)), 4)
        return context.get_dummy_value()

    return types.void(features, row, left, n_strips, found), generate


range_of: Any = _range_of


@njit(nogil=True, cache=True)
def _ranges(
    features: NDArray[np.float32],
    left: int,
    right: int,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
) -> None:
    """Write the lowest and the highest value of each feature in some columns."""
    n_strips, found = (right - left) // STRIP, np.empty(2, np.float32)
    for f in range(len(low)):
        found[0] = found[1] = features[f, left]
        if n_strips > 0:
            range_of(features, f, left, n_strips, found)
        for j in range(left + n_strips * STRIP, right):
            found[0] = min(found[0], features[f, j])
            found[1] = max(found[1], features[f, j])
        low[f], high[f] = found[0], found[1]


@njit(nogil=True, cache=True)
def _add_leaves(
    leaf_values: NDArray[np.float64],
    leaves: NDArray[np.uint8],
    first: int,
    last: int,
    total: NDArray[np.float64],
) -> None:
    """Add the values of a few trees' leaves, one tree after the other."""
    if last - first == _AT_ONCE:
        for j in range(len(total)):
            value = total[j]
            for k in range(_AT_ONCE):
                value += leaf_values[first + k, leaves[k, j]]
            total[j] = value
        return
    for k in range(last - first):
        for j in range(len(total)):
            total[j] += leaf_values[first + k, leaves[k, j]]


@njit(nogil=True, cache=True)
def add_trees(
    features: NDArray[np.float32],
    first: int,
    last: int,
    tree_starts: NDArray[np.int64],
    node_features: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    keeps: NDArray[np.unsignedinteger],
    rights: NDArray[np.unsignedinteger],
    leaf_values: NDArray[np.float64],
    strip: NDArray[np.float32],
    scores: NDArray[np.float64],
) -> None:
    """Add the value of every tree to the scores of some columns, one tree after the other.

    Masks are of as many bits as a tree may have leaves, 32 or 64. `strip` is room for each feature
    of a strip, and begins with a cache line.
    """
    n_features, n_trees = len(features), len(tree_starts) - 1
    low, high = np.empty(n_features, np.float32), np.empty(n_features, np.float32)
    starts = np.empty(n_trees + 1, np.int64)
    n_nodes = len(keeps) + 1  # one is written behind the last
    offsets, bounds = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.float32)
    masks, common = np.empty(n_nodes, keeps.dtype), np.empty(n_trees, keeps.dtype)
    leaves = np.empty((_AT_ONCE, STRIP), np.uint8)
    for left in range(first, last, STRIP * _STRIPS):
        right = min(left + STRIP * _STRIPS, last)
        _ranges(features, left, right, low, high)
        _pick_nodes(
            low,
            high,
            tree_starts,
            node_features,
            thresholds,
            keeps,
            rights,
            starts,
            offsets,
            bounds,
            masks,
            common,
        )
        for begin in range(left, right, STRIP):
            end = min(begin + STRIP, right)
            for f in range(n_features):
                values, room = features[f, begin:end], strip[f]
                for j in range(np.uint64(end - begin)):
                    room[j] = values[j]
            for tree in range(0, n_trees, _AT_ONCE):
                stop = min(tree + _AT_ONCE, n_trees)
                for k in range(tree, stop):
                    find_leaves(
                        strip,
                        offsets,
                        bounds,
                        masks,
                        starts[k],
                        starts[k + 1],
                        common[k],
                        leaves,
                        k - tree,
                    )
                _add_leaves(leaf_values, leaves, tree, stop, scores[begin:end])
