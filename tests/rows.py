"""Rows for kernels, in all forms that a store may use."""

import numpy as np

from surerec.precedence import RowSource

MOST_IN_16_BITS = 2**16 - 1


def scattered(rows, random, n_kinds=3):
    """Return rows in a matrix, counted (two kinds) or compressed (three kinds).

    Rows with counts above 16 bits are compressed.
    """
    kinds = random.integers(0, n_kinds, len(rows))
    kinds[rows.max(axis=1, initial=0) > MOST_IN_16_BITS] = 2
    order = [np.flatnonzero(kinds == kind) for kind in range(3)]
    order = [random.permutation(some) for some in order]
    places = np.empty(len(rows), np.int64)
    places[np.concatenate(order)] = np.arange(len(rows))
    compressed = rows[order[2]]
    owners, items = np.nonzero(compressed)
    offsets = np.searchsorted(owners, np.arange(len(compressed) + 1))
    return RowSource(
        rows[order[0]].astype(np.uint16),
        rows[order[1]].astype(np.uint16),
        offsets,
        items.astype(np.uint32),
        compressed[owners, items].astype(np.uint32),
        places,
    )
