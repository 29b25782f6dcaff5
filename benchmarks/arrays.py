"""Set sizes of other people's models by rank and by learned threshold, at equal recall.

``python -m benchmarks.arrays [ml-100k ml-1m …] [--splits 20] [--users 1000]`` fits each model on
the first 60% of each history. In each split a random half of the users calibrates, and the other
half is tested: recall of the held-out items, and mean set size.
"""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

import surerec as sr
from surerec.calibration import profile_cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.calibration import ThresholdChoice

_LEVELS = (0.9, 0.8, 0.7, 0.5)
_UNITS: tuple[ThresholdChoice, ...] = ("rank", "learned")
_BAR = 0.01


def _factors(model: Any, consumed: csr_matrix) -> NDArray[np.float32]:
    model.fit(consumed, show_progress=False)
    found: NDArray[np.float32] = model.user_factors @ model.item_factors.T
    return found


def _als(consumed: csr_matrix) -> NDArray[np.float32]:
    return _factors(AlternatingLeastSquares(64, random_state=0), consumed)


def _bpr(consumed: csr_matrix) -> NDArray[np.float32]:
    return _factors(BayesianPersonalizedRanking(64, random_state=0), consumed)


def _popularity(consumed: csr_matrix) -> NDArray[np.float32]:
    counts = np.asarray(consumed.sum(axis=0), dtype=np.float32)
    return np.repeat(counts, consumed.shape[0], axis=0)


def _ease(consumed: csr_matrix) -> NDArray[np.float32]:
    gram = np.asarray((consumed.T @ consumed).todense(), dtype=np.float64)
    inverse = np.linalg.inv(gram + 200 * np.eye(len(gram)))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(consumed @ weights, dtype=np.float32)


def _svd(consumed: csr_matrix) -> NDArray[np.float32]:
    parts: tuple[Any, Any, Any] = svds(consumed.astype(np.float64), 32, random_state=0)
    left, values, right = parts
    return np.asarray((left * values) @ right, dtype=np.float32)


MODELS: dict[str, Callable[[csr_matrix], NDArray[np.float32]]] = {
    "implicit ALS, 64 factors": _als,
    "implicit BPR, 64 factors": _bpr,
    "popularity": _popularity,
    "EASE": _ease,
    "SVD, 32 factors": _svd,
}


def compare(
    scores: NDArray[np.float32],
    relevant: list[NDArray[np.int64]],
    seen: list[NDArray[np.int64]],
    n_splits: int,
) -> NDArray[np.float64]:
    """Return recall and size by unit, split and level: 2 × splits × levels × 2."""
    found = np.empty((len(_UNITS), n_splits, len(_LEVELS), 2))
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(scores))
        calibrating, tested = order[: len(order) // 2], order[len(order) // 2 :]
        for row, unit in enumerate(_UNITS):
            sure = sr.RankingCalibrator("recall", threshold=unit, random_state=split)
            sure.calibrate(
                scores[calibrating],
                [relevant[user] for user in calibrating],
                [seen[user] for user in calibrating],
            )
            known = [seen[user] for user in tested]
            for column, level in enumerate(_LEVELS):
                sets = sure.predict_set(scores[tested], known, level)
                recalls = [
                    np.isin(relevant[user], sets[place]).mean() for place, user in enumerate(tested)
                ]
                found[row, split, column] = np.mean(recalls), sets.sizes.mean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["ml-100k"])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--users", type=int, default=1000, help="users who calibrate or test")
    given = parser.parse_args()
    for data in given.data:
        films = sr.load_dataset(data)
        cases = profile_cases(films, 0.4)
        known = films.keeping(~cases.future_rows())
        owners = np.repeat(np.arange(known.n_users), np.diff(known.offsets))
        shape = known.n_users, known.n_items
        ones = np.ones(known.n_rows, dtype=np.float32)
        consumed = csr_matrix((ones, (owners, known.item_codes.astype(np.int64))), shape)
        some = cases.sample(given.users, 0)
        relevant, seen = zip(
            *((some.future(n), some.known(n)) for n in range(len(some))), strict=True
        )
        heads = " | ".join(f"{level:g}" for level in _LEVELS)
        print(f"\n{films!r}, {len(some):,} users, {given.splits} splits: recall / items in a set\n")
        print(f"| model | threshold | {heads} | within {_BAR} |")
        print("|" + "---|" * (len(_LEVELS) + 3), flush=True)
        for name, model in MODELS.items():
            scores = model(consumed)[some.users]
            means = compare(scores, list(relevant), list(seen), given.splits).mean(axis=1)
            for unit, rows in zip(_UNITS, means, strict=True):
                cells = " | ".join(f"{recall:.3f} / {size:,.0f}" for recall, size in rows)
                off = float(np.abs(rows[:, 0] - _LEVELS).max())
                kept = "yes" if off <= _BAR else f"NO: {off:.3f}"
                print(f"| {name} | {unit} | {cells} | {kept} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1, "blas"):
        main()
