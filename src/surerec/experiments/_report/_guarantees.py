"""The sections on validity, efficiency, and precision and recall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec.experiments._names import file_names
from surerec.experiments._report._validity_claims import LEVELS, at_levels
from surerec.reports import Heading, Paragraph, Picture, Strong, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from surerec.reports import Block


_SPLITS = {"time": "in time order", "random": "random split"}


def truth_section(titles: Mapping[str, str]) -> list[Block]:
    """Show what is promised and what is kept, one picture for each data set."""
    blocks: list[Block] = [
        Heading("The truth about validity"),
        Paragraph(
            "A set at significance level ε promises to miss at most a share ε of what the user "
            "will consume. Above the dotted line the promise is broken."
        ),
    ]
    for dataset, file in file_names(titles).items():
        caption = (
            f"{titles[dataset]}: a mean measure in time order and under the random split, and a "
            "minimum measure in time order; bands are two standard errors to either side."
        )
        blocks.append(Picture(f"truth-{file}", caption))
    return blocks


def validity_section(validity: pl.DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Give the error against ε of all algorithms that have sets, in both splits."""
    words = (
        "The error at ε is the share of a user's test items that the set misses, averaged over "
        "users. Bold: it exceeds ε by more than two standard errors."
    )
    caption = "{}: error against ε of the measures that the paper shows."
    return [
        Heading("Validity"),
        Paragraph(words),
        *_for_each(validity, titles, ("validity", caption, "error ± standard error"), _error),
    ]


def efficiency_section(validity: pl.DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Give the share of irrelevant items let in, and set sizes, in both splits."""
    words = (
        "The efficiency error at ε is the share of the irrelevant items that the set lets in; "
        "the mean number of items in the set stands behind it in brackets."
    )
    caption = "{}: share of irrelevant items let in, of the measures that the paper shows."
    kind = ("efficiency", caption, "share let in (items in the set)")
    return [Heading("Efficiency"), Paragraph(words), *_for_each(validity, titles, kind, _let_in)]


def _for_each(
    validity: pl.DataFrame,
    titles: Mapping[str, str],
    kind: tuple[str, str, str],
    cell: Callable[[dict[str, float]], str],
) -> list[Block]:
    name, caption, what = kind
    blocks: list[Block] = []
    for dataset, file in file_names(titles).items():
        title = titles[dataset]
        blocks.append(Picture(f"{name}-{file}", caption.format(title)))
        for split, words in _SPLITS.items():
            chosen = (pl.col("dataset") == dataset) & (pl.col("split") == split)
            table = at_levels(validity.filter(chosen))
            blocks.append(_levels(table, f"{title}, {words}: {what}", cell))
    return blocks


def _levels(table: pl.DataFrame, caption: str, cell: Callable[[dict[str, float]], str]) -> Table:
    rows = []
    for (algorithm,), found in table.group_by("algorithm", maintain_order=True):
        cells = [cell(row) for row in found.sort("epsilon").to_dicts()]
        rows.append((str(algorithm), *cells))
    header = ("algorithm", *(f"ε = {level:g}" for level in LEVELS))
    return Table(caption, header, tuple(rows), folded=True)


def _error(row: dict[str, float]) -> str:
    error = row["standard_error"] or 0.0
    text = f"{row['validity_error']:.3f} ± {error:.3f}"
    return Strong(text) if row["validity_error"] - row["epsilon"] > 2 * error else text


def _let_in(row: dict[str, float]) -> str:
    return f"{row['efficiency_error']:.3f} ({row['set_size']:,.0f})"


def top_k_section(metrics: pl.DataFrame, titles: Mapping[str, str], k: int) -> list[Block]:
    """Give precision, recall and F1 at k, and precision and recall over k."""
    caption = f"Precision, recall and F1 at {k} in time order, with one standard error."
    blocks: list[Block] = [Heading("Precision, recall and F1"), Picture("top-k", caption)]
    table = metrics.filter(pl.col("split") == "time")
    for metric in ("precision", "recall", "f1"):
        found = table.filter(pl.col("metric") == metric)
        label = "F1" if metric == "f1" else metric.capitalize()
        blocks.append(_top_k(found, titles, f"{label}@{k}"))
    for dataset, file in file_names(titles).items():
        caption = f"{titles[dataset]}: precision and recall over the length of the list."
        blocks.append(Picture(f"curves-{file}", caption))
    return blocks


def _top_k(found: pl.DataFrame, titles: Mapping[str, str], caption: str) -> Table:
    best = found.group_by("dataset").agg(pl.col("mean").round(12).max())
    highest: dict[str, float] = dict(best.iter_rows())
    rows = []
    for (algorithm,), table in found.group_by("algorithm", maintain_order=True):
        means = {row["dataset"]: row for row in table.to_dicts()}
        cells = []
        for dataset in titles:
            row = means[dataset]
            text = f"{row['mean']:.3f} ± {row['standard_error'] or 0.0:.3f}"
            cells.append(Strong(text) if round(row["mean"], 12) == highest[dataset] else text)
        rows.append((str(algorithm), *cells))
    return Table(caption, ("algorithm", *titles.values()), tuple(rows), folded=True)
