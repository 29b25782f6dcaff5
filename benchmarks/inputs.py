"""The inputs in the form of each contestant, without importing surerec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARRAYS = ("offsets", "item_codes", "times")


def arrays(folder: str) -> dict[str, NDArray[Any]]:
    """Read the arrays: offsets, item_codes, times."""
    return {name: np.load(Path(folder) / f"{name}.npy") for name in ARRAYS}


def users_by_items(folder: str, kind: type[Any]) -> sp.csr_matrix:
    """Read the input as a sparse matrix of ones."""
    read = arrays(folder)
    items, offsets = read["item_codes"].astype(np.int32), read["offsets"]
    shape = (len(offsets) - 1, int(items.max()) + 1)
    matrix = sp.csr_matrix((np.ones(len(items), dtype=kind), items, offsets), shape=shape)
    matrix.sort_indices()
    return matrix


def rows(folder: str) -> pl.DataFrame:
    """Read the input as a table: user, item, position in the history."""
    read = arrays(folder)
    offsets = read["offsets"]
    lengths = np.diff(offsets)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return pl.DataFrame(
        {
            "user": np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths),
            "item": read["item_codes"],
            "place": place.astype(np.uint32),
        }
    )


def calibration_and_candidates(
    n_calibration: int, n_candidates: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return random scores, candidates' scores (some of them tied), and uniforms in (0, 1]."""
    random = np.random.default_rng(1)
    scores = random.normal(size=n_calibration)
    new = random.normal(size=n_candidates)
    tied = random.random(n_candidates) < 0.1
    new[tied] = random.choice(scores, int(tied.sum()))
    return scores, new, 1 - random.random(n_candidates)


def rankings(n_users: int, n_items: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return random scores without ties, and the relevant items: 1% of them, at least one."""
    random = np.random.default_rng(2)
    scores = random.permuted(np.tile(np.arange(n_items) / n_items, (n_users, 1)), axis=1)
    relevant = random.random((n_users, n_items)) < 0.01
    relevant[:, 0] = True
    return scores, relevant
