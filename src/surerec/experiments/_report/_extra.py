"""The section on measures outside the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from surerec.experiments._comparison import RANKED
from surerec.experiments._report._validity_claims import LEVELS, at_levels
from surerec.reports import Heading, Paragraph, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.experiments._tables import Results
    from surerec.reports import Block

_BESIDE: Final = "ICRS12"


def extra_section(results: Results, titles: Mapping[str, str]) -> list[Block]:
    """Set measures outside the paper beside its best, if any were asked for."""
    if results.extra is None or results.extra_validity is None:
        return []
    metrics = pl.concat([_only(results.metrics, _BESIDE), results.extra])
    validity = pl.concat([_only(results.validity, _BESIDE), results.extra_validity])
    blocks: list[Block] = [
        Heading("Outside the paper"),
        Paragraph(
            "The paper's method on measures that it does not have, on the same users and "
            f"candidates, in time order, beside {_BESIDE}: metrics, and the share of test items "
            "that sets miss at each ε. They have no part in ranks and tests. Nobody is scored by "
            "what was learned from them."
        ),
    ]
    for dataset, title in titles.items():
        chosen = (pl.col("dataset") == dataset) & (pl.col("split") == "time")
        blocks.append(_table(metrics.filter(chosen), at_levels(validity.filter(chosen)), title))
    return blocks


def _only(table: pl.DataFrame, algorithm: str) -> pl.DataFrame:
    return table.filter(pl.col("algorithm") == algorithm)


def _table(metrics: pl.DataFrame, validity: pl.DataFrame, title: str) -> Table:
    rows = []
    for algorithm in metrics["algorithm"].unique(maintain_order=True):
        means = {row["metric"]: row["mean"] for row in _only(metrics, algorithm).to_dicts()}
        missed = _only(validity, algorithm).sort("epsilon")["validity_error"]
        cells = [*(means[metric] for metric in RANKED), *missed]
        rows.append((str(algorithm), *("–" if cell is None else f"{cell:.3f}" for cell in cells)))
    names = (metric.upper() for metric in RANKED)
    header = ("algorithm", *names, *(f"missed at ε = {level:g}" for level in LEVELS))
    return Table(f"{title}: measures outside the paper", header, tuple(rows))
