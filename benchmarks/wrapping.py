"""The cost of wrapping: implicit's ALS, wrapped, against its own ``recommend(N=n_items)``.

``python -m benchmarks.wrapping [ml-1m] [--confidence 0.9]`` prints both times and their ratio,
measured in turns in one run, with one thread of BLAS.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

import surerec as sr

if TYPE_CHECKING:
    from collections.abc import Callable

BAR = 2.0
"""Multiple of implicit's time."""


def _seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def compare(data: str, confidence: float, rounds: int = 3) -> tuple[float, float]:
    """Return the best times of implicit and of the wrapped model for all users."""
    films = sr.load_dataset(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AlternatingLeastSquares(64, random_state=0)
    sure = sr.wrap(model, covers="fit").fit(films)
    served = sure.statistics_.interactions
    ones = np.ones(served.n_rows, dtype=np.float32)
    consumed = csr_matrix(
        (ones, served.item_codes.astype(np.int32), served.offsets.astype(np.int32)),
        shape=(served.n_users, served.n_items),
    )
    rows = np.arange(served.n_users)
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(_seconds(lambda: sure.wrapped_.recommend(rows, consumed, N=served.n_items)))
        ours.append(_seconds(lambda: sure.recommend_many(confidence=confidence)))
    return min(theirs), min(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="ml-1m")
    parser.add_argument("--confidence", type=float, default=0.9)
    given = parser.parse_args()
    with threadpool_limits(1, "blas"):
        theirs, ours = compare(given.data, given.confidence)
    verdict = "met" if ours <= BAR * theirs else "NOT MET"
    print(
        f"{given.data}: implicit {theirs:.2f} s, wrapped {ours:.2f} s, "
        f"ratio {ours / theirs:.2f}, bar {BAR:g}: {verdict}"
    )


if __name__ == "__main__":
    main()
