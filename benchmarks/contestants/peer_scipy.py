"""scipy: co-occurrence as ``A.T @ A``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.inputs import users_by_items
from benchmarks.measuring import best, checksums, peak_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import scipy.sparse as sp

    from benchmarks.measuring import Figures, Triples


def _triples(counts: sp.csr_matrix) -> Iterator[Triples]:
    for item in range(counts.shape[0]):
        row = slice(counts.indptr[item], counts.indptr[item + 1])
        others = counts.indices[row]
        yield np.full(len(others), item), others, counts.data[row]


def count_pairs(folder: str, repeats: int) -> Figures:
    """Count co-occurrences: the sum of both directions."""
    consumed = users_by_items(folder, np.int32)
    seconds, counts = best(lambda: consumed.T @ consumed, repeats)
    peak = peak_memory()
    sums = checksums(_triples(counts.tocsr()))
    # Its own counts are both directions already: to be compared with the other's "both_ways".
    return {"seconds": seconds, "peak": peak, "n_pairs_twice": sums["n_pairs"],
            "both_ways": sums["ordered"]}  # fmt: skip
