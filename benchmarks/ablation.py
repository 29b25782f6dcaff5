"""Ablation of the components of the learned measure, over random halves of users.

``python -m benchmarks.ablation [ml-100k ml-1m FILE …]`` trains it with the usual features alone,
with each component, with all, and with the choice of each fold. It prints set sizes at equal mean
recall with a score threshold, and precision@10, for the users of `benchmarks.guarantees`. The
difference to the first has its mean and standard deviation over 20 random halves.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.sets import size_at_miss
from surerec import count_precedence, load_dataset, read_interactions
from surerec.calibration import observe, profile_cases
from surerec.measures.learned import COMPONENTS, LearnedModel, LearnedScorer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.calibration import Outcomes

MISS_RATES = (0.1, 0.3, 0.5)
_N_HALVES = 20
_BEST_OF = 10


def variants() -> Iterator[tuple[str, list[str] | None]]:
    """Yield the variants, the usual features first."""
    yield "usual features", []
    for name in COMPONENTS:
        yield f"and {name}", [name]
    yield "and all of them", list(COMPONENTS)
    yield "as chosen in each fold", None


def figures(outcomes: Outcomes, chosen: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """Return the sizes at each miss rate, and precision@10."""
    sizes = [size_at_miss(outcomes, "score", miss, chosen) for miss in MISS_RATES]
    hit = np.bincount(outcomes.owners, outcomes.ranks <= _BEST_OF, len(outcomes)) / _BEST_OF
    return np.array([*sizes, hit.mean() if chosen is None else hit[chosen].mean()])


def over_halves(outcomes: Outcomes) -> NDArray[np.float64]:
    """Return the figures on random halves of the users, which are the same for all variants."""
    rng, n = np.random.default_rng(0), len(outcomes)
    halves = [rng.permutation(n) < n // 2 for _ in range(_N_HALVES)]
    return np.array([figures(outcomes, half) for half in halves])


def difference(before: NDArray[np.float64], after: NDArray[np.float64]) -> str:
    """Format the differences of sizes, in percent, and precision, with their spread."""
    found = np.column_stack((100 * (after / before - 1)[:, :-1], (after - before)[:, -1]))
    cells = [
        f"{mean:+.{digits}f} ± {spread:.{digits}f}"
        for mean, spread, digits in zip(
            found.mean(axis=0), found.std(axis=0), (1, 1, 1, 3), strict=True
        )
    ]
    return ", ".join(cells)


def run(name: str, n_users: int) -> None:
    data = read_interactions(name) if Path(name).exists() else load_dataset(name)
    statistics = count_precedence(data)
    cases = profile_cases(data, 0.4).sample(n_users, 0)
    print(f"\n{data.name or name}: {len(cases):,} users, {data.n_items:,} items", flush=True)
    first = None
    for label, components in variants():
        start = time.process_time()
        learned = LearnedModel.train(statistics, components=components)
        scorer = LearnedScorer(statistics, learned)
        outcomes = observe(scorer, statistics, cases, keep_candidates=True, doing=label)
        halves = over_halves(outcomes)
        *sizes, precision = figures(outcomes)
        cells = f"{' / '.join(f'{size:,.0f}' for size in sizes)}, {precision:.3f}"
        if first is not None:
            cells += f" | {difference(first, halves)}"
        first = halves if first is None else first
        print(f"{label:28}{cells}  ({time.process_time() - start:.0f} s of CPU)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["ml-100k", "ml-1m"])
    parser.add_argument("--users", type=int, default=2000)
    options = parser.parse_args()
    for name in options.datasets:
        run(name, options.users)


if __name__ == "__main__":
    main()
