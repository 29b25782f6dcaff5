"""Set sizes at equal recall, precision and cost of the learned measure.

``python -m benchmarks.learned [ml-100k ml-1m …] [--users N]`` prints a table for each data set.
The first 60% of a history are known, and the rest is held out (paper.md 8), users have 10 items or
more, and each user is left out of the training data of their scores.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec import count_precedence, load_dataset
from surerec._threads import run_blocks
from surerec.conformal import p_value_counts
from surerec.evaluation import choose_users, split_user
from surerec.measures import MEASURES, MeasureScorer
from surerec.measures.learned import LearnedModel, LearnedScorer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from surerec.evaluation import Split
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

MISS_RATES = (0.1, 0.3, 0.5)
_BEST_OF = 10
_USERS_AT_ONCE = 8


class RankCurve(NamedTuple):
    """Mean miss rate of the first K items for every K, and precision@10."""

    missed: NDArray[np.float64]
    precision: float

    def size_at(self, rate: float) -> float:
        """Return the smallest K whose mean miss rate is at most `rate`."""
        return float(np.argmax(self.missed <= rate))


class Line(NamedTuple):
    """One row of the table."""

    name: str
    sizes: list[float]
    precision: float


def by_rank(scorer: Scorer, splits: list[Split]) -> RankCurve:
    """Rank the candidates of each user on the whole known history, with one threshold for all."""

    def some(block: list[Split]) -> list[tuple[NDArray[np.float64], float]]:
        return [_hits(scorer, split) for split in block]

    n_items = scorer.statistics.n_items  # type: ignore[attr-defined]
    missed, precision = np.zeros(n_items + 1), 0.0
    for found in run_blocks(some, _blocks(splits)):
        for share, hits in found:
            missed[: len(share)] += 1 - share
            precision += hits
    return RankCurve(missed / len(splits), precision / len(splits))


def _hits(scorer: Scorer, split: Split) -> tuple[NDArray[np.float64], float]:
    """Return recall@K for every K, and precision@10."""
    scores = scorer.score(split.known, without_user=split.user)
    scores[split.known] = -np.inf
    relevant = np.zeros(len(scores), dtype=bool)
    relevant[split.test] = True
    hits = np.cumsum(relevant[np.argsort(-scores, kind="stable")])
    return np.concatenate(([0], hits)) / len(split.test), hits[_BEST_OF - 1] / _BEST_OF


def by_p_value(scorer: Scorer, splits: list[Split]) -> Line:
    """Return item-level sets at the ε of equal mean recall."""
    grid = np.linspace(0, 1, 1001)

    def some(block: list[Split]) -> list[tuple[NDArray[np.float64], NDArray[np.float64], float]]:
        return [_of_p_values(scorer, split, grid) for split in block]

    found = [each for part in run_blocks(some, _blocks(splits)) for each in part]
    missed = np.mean([each[0] for each in found], axis=0)
    sizes = np.mean([each[1] for each in found], axis=0)
    at = [float(np.interp(rate, missed, sizes)) for rate in MISS_RATES]
    return Line("per-user p-values", at, float(np.mean([each[2] for each in found])))


def _of_p_values(
    scorer: Scorer, split: Split, grid: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    scores = scorer.score(split.training, without_user=split.user)
    outside = np.ones(len(scores), dtype=bool)
    outside[split.known] = False
    candidates = np.flatnonzero(outside)
    counts = p_value_counts(scores[split.calibration], scores[candidates])
    relevant = np.isin(candidates, split.test)
    p = counts / (len(split.calibration) + 1)
    left_out = np.searchsorted(np.sort(p[relevant]), grid + 1e-9, side="right")
    outside_set = np.searchsorted(np.sort(p), grid + 1e-9, side="right")
    best = np.lexsort((candidates, -scores[candidates], -counts))[:_BEST_OF]
    size = (len(p) - outside_set).astype(np.float64)
    return left_out / relevant.sum(), size, float(relevant[best].mean())


def _blocks(splits: list[Split]) -> list[list[Split]]:
    return [splits[k : k + _USERS_AT_ONCE] for k in range(0, len(splits), _USERS_AT_ONCE)]


def timed(score: Callable[[Split], object], splits: Iterable[Split]) -> NDArray[np.float64]:
    """Return the milliseconds for each user."""
    found = []
    for split in splits:
        start = time.perf_counter()
        score(split)
        found.append(1e3 * (time.perf_counter() - start))
    return np.array(found)


def compare(
    statistics: PrecedenceStatistics, scorer: LearnedScorer, splits: list[Split], *, everyone: bool
) -> list[Line]:
    """Return the lines of the table, the learned measure last."""
    cm12 = MeasureScorer(statistics, "CM12")
    lines = [by_p_value(cm12, splits)._replace(name="ICRS12, per-user p-values")]
    measures = list(MEASURES) if everyone else ["CM12"]
    scorers: list[tuple[str, Scorer]] = [(m, MeasureScorer(statistics, m)) for m in measures]
    for label, each in [*scorers, ("learned", scorer)]:
        curve = by_rank(each, splits)
        sizes = [curve.size_at(rate) for rate in MISS_RATES]
        lines.append(Line(f"{label}, cut by rank", sizes, curve.precision))
    return lines


def show(lines: list[Line]) -> None:
    best = max(line.precision for line in lines[:-1])
    print(f"{'':28}{'0.1':>8}{'0.3':>8}{'0.5':>8}{'P@10':>8}   × ICRS12, × best P@10")
    for line in lines:
        ratios = " ".join(f"{a / b:.2f}" for a, b in zip(line.sizes, lines[0].sizes, strict=True))
        sizes = "".join(f"{size:8.0f}" for size in line.sizes)
        gain = line.precision / best
        print(f"{line.name:28}{sizes}{line.precision:8.3f}   {ratios}, {gain:.2f}")


def run(name: str, n_users: int, *, everyone: bool) -> None:
    data = load_dataset(name)
    statistics = count_precedence(data)
    splits = [split_user(data, int(user)) for user in choose_users(data, n_users, random_state=7)]
    start = time.perf_counter()
    learned = LearnedModel.train(statistics)
    trained = time.perf_counter()
    scorer = LearnedScorer(statistics, learned)
    opened = time.perf_counter()
    print(f"\n{name}: {len(splits):,} users, {data.n_items:,} items")
    show(compare(statistics, scorer, splits, everyone=everyone))
    spent = timed(lambda split: scorer.score(split.known, without_user=split.user), splits[:300])
    p50, p99 = np.percentile(spent, (50, 99))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"training {trained - start:.0f} s, opening {opened - trained:.1f} s, "
        f"scoring p50 {p50:.1f} ms, p99 {p99:.1f} ms, peak memory {peak:.1f} GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["ml-100k", "ml-1m"])
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--all-measures", action="store_true", help="rank by all 17 measures too")
    options = parser.parse_args()
    for name in options.datasets:
        run(name, options.users, everyone=options.all_measures)


if __name__ == "__main__":
    main()
