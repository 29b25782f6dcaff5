"""Whether promises hold around lists of the 100 best: ``python -m benchmarks.lists [ml-100k …]``.

ALS is fitted on the first 60 % of everybody's profile and writes lists; they are calibrated on a
random half of the users' futures and tested on the other half's, with and without a fallback.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import polars as pl
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

import surerec as sr
from surerec.calibration import profile_cases
from surerec.evaluation import CHECKED_EPSILONS


def top_lists(past: sr.Interactions, length: int) -> pl.DataFrame:
    """Give the best items of each user by implicit's own ``recommend``, as people write them."""
    owners = np.repeat(np.arange(past.n_users), np.diff(past.offsets))
    ones = np.ones(past.n_rows, dtype=np.float32)
    taken = csr_matrix((ones, (owners, past.items_taken)), (past.n_users, past.n_items))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of BLAS
        model = AlternatingLeastSquares(16, regularization=1.0, random_state=0)
    model.fit(taken, show_progress=False)
    users = np.arange(past.n_users)
    items, scores = model.recommend(users, taken, N=length)
    return pl.DataFrame(
        {
            "user_id": past.users.ids.gather(np.repeat(users, items.shape[1])),
            "item_id": past.items.ids.gather(np.maximum(items, 0).ravel()),
            "score": scores.ravel(),
        }
    ).filter((items.ravel() >= 0) & (scores.ravel() > np.finfo(np.float32).min))


def measured(sure: sr.WrappedRecommender, n_splits: int) -> list[tuple[float, float, float]]:
    """Give the mean share missed by the other half, the rank cut, and how often ε is promised."""
    users, rows = sure.calibration_, []
    curve = users.curve("miss-rate")
    for epsilon in CHECKED_EPSILONS:
        lost, cuts = [], []
        for split in range(n_splits):
            half = np.random.default_rng(split).permutation(len(users)) % 2 == 0
            cut, tested = curve.of_owners(half).cut(epsilon), curve.of_owners(~half)
            if np.isfinite(cut):
                lost.append(tested.losses[tested.entries > cut].sum() / tested.n_users)
                cuts.append(cut)
        missed, cut = (float(np.mean(some)) if some else float("nan") for some in (lost, cuts))
        rows.append((missed, cut, len(lost) / n_splits))
    return rows


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=["ml-100k"])
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--splits", type=int, default=20)
    settings = parser.parse_args()
    warnings.simplefilter("ignore", sr.LeftOutWarning)
    for name in settings.data:
        films = sr.load_dataset(name)
        later = profile_cases(films, 0.4).future_rows()
        past, future = films.keeping(~later), films.keeping(later)
        lists = top_lists(past, settings.length)
        levels = " | ".join(f"ε = {epsilon:g}" for epsilon in CHECKED_EPSILONS)
        print(f"\n{films!r}: lists of {settings.length}, share missed / items, by rank\n")
        print(f"| fallback | smallest ε | {levels} |\n|{'---|' * (2 + len(CHECKED_EPSILONS))}")
        for fallback in (None, "popularity", "CM12"):
            sure = sr.wrap(lists, fallback=fallback, n_calibration=1_000_000)
            sure.calibrate(past, future)
            cells = " | ".join(
                f"{lost:.3f} / {cut:,.0f}" if often else "not promised"
                for lost, cut, often in measured(sure, settings.splits)
            )
            print(f"| {fallback or 'none'} | {sure.floor_:.3f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
