"""The paper's 20 algorithms over a user's counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.calibration import compare_with_items, p_counts_in_halves, ranks_by_later_item
from surerec.evaluation import Judgement
from surerec.measures import MEASURES, ProfileRows, aggregate, log_score

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.evaluation import Split
    from surerec.precedence import PrecedenceStatistics


EXTRA: Final = "Precedence Mining, top 1"
"""The variant outside the paper's ranks (paper.md 3)."""

ALGORITHMS: Final = (
    "Precedence Mining",
    "CRS-Med",
    "CRS-Max",
    *(f"ICRS{number}" for number in range(1, 18)),
)
"""The paper's 20, in the order of its table."""


def judge(
    statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
) -> Iterator[tuple[str, Judgement]]:
    """Let every algorithm judge the candidates, with the user's own profile left out of all counts.

    The rows of the training items are found once for the 17 measures, those of the calibration
    items once for both CRS.
    """
    known = ProfileRows(statistics, split.known, split.user)
    yield ALGORITHMS[0], Judgement(log_score(known, None)[candidates])
    # The product of the one largest factor ranks as the largest count does.
    yield EXTRA, Judgement(aggregate(known, "count", "maximum")[candidates])
    del known

    later = ProfileRows(statistics, split.calibration, split.user)
    ranks = ranks_by_later_item(later, split.training, candidates)
    for name, how in (("CRS-Med", "median"), ("CRS-Max", "max")):
        counts = p_counts_in_halves(ranks, len(split.training), how)  # type: ignore[arg-type]
        yield name, Judgement(counts.astype(np.float64), counts, 2 * (len(split.training) + 1))
    del later, ranks

    rows = ProfileRows(statistics, split.training, split.user)
    for name, scores in _measures(rows):
        yield name, Judgement.of(compare_with_items(scores, split.calibration, candidates))


def _measures(rows: ProfileRows) -> Iterator[tuple[str, NDArray[np.float64]]]:
    for measure in MEASURES.values():
        found = aggregate(rows, measure.statistic, measure.aggregate)
        yield f"ICRS{measure.number}", -found if measure.is_nonconformity else found
