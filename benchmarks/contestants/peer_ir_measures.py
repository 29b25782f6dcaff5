"""ir-measures: metrics of full rankings, by trec_eval's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ir_measures
from ir_measures import AP, RR, nDCG

from benchmarks.inputs import rankings
from benchmarks.measuring import best

if TYPE_CHECKING:
    from benchmarks.measuring import Figures


def metrics(n_users: int, n_items: int, repeats: int) -> Figures:
    """Measure full rankings: AP, NDCG and RR; building its dictionaries is not timed."""
    scores, relevant = rankings(n_users, n_items)
    names = [str(item) for item in range(n_items)]
    run = {str(user): dict(zip(names, row.tolist(), strict=True))
           for user, row in enumerate(scores)}  # fmt: skip
    judged = {str(user): {names[item]: 1 for item in row.nonzero()[0]}
              for user, row in enumerate(relevant)}  # fmt: skip
    metrics = [AP, nDCG, RR]
    seconds, means = best(lambda: ir_measures.calc_aggregate(metrics, judged, run), repeats)
    return {"seconds": seconds, "means": [float(means[metric]) for metric in metrics]}
