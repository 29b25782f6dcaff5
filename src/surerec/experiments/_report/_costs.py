"""The sections on execution time, its growth, tuning, and how the run was made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from surerec.experiments._names import file_names
from surerec.experiments._settings import versions
from surerec.experiments._timing import PLAIN
from surerec.reports import Bullets, Heading, Paragraph, Picture, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.experiments._settings import Settings
    from surerec.reports import Block


_COMPLEXITY = {
    "Precedence Mining": "O(n_c·(m + l))",
    "CRS-Max": "not in the paper; sorted search, O(n_c·l·log m)",
    PLAIN: "O(n_c·l·m)",
}
_INDUCTIVE = "O((l + n_c)·t), here t = O(m)"


def times_section(times: pl.DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Give the time of one recommendation by each algorithm."""
    words = (
        "Milliseconds for all p-values of one user on one thread, each algorithm doing its own "
        "work: the median over users, and in brackets the 90th percentile. CRS-max is timed with "
        f"a sorted search, and as the paper's O(n_c·l·m) ({PLAIN!r})."
    )
    rows = []
    for (algorithm,), table in times.group_by("algorithm", maintain_order=True):
        found = {row["dataset"]: row for row in table.to_dicts()}
        cells = [
            f"{found[name]['median_ms']:.3f} ({found[name]['p90_ms']:.3f})"
            if name in found
            else "–"
            for name in titles
        ]
        rows.append((str(algorithm), *cells))
    header = ("algorithm", *titles.values())
    caption = "Execution time of each algorithm, on a logarithmic scale."
    return [
        Heading("Execution time"),
        Paragraph(words),
        Picture("times", caption),
        Table("Milliseconds per recommendation", header, tuple(rows), folded=True),
    ]


def growth_section(growth: pl.DataFrame) -> list[Block]:
    """Set the measured growth of time beside the paper's complexity."""
    words = (
        "One variable grows while the others stay, on made-up data. The exponent is the slope of "
        "log time against the logarithm of the variable over its larger half: 1 is linear, 0 does "
        "not grow. At these sizes fixed costs still count, so exponents are rough."
    )
    rows = []
    for (algorithm,), table in growth.group_by("algorithm", maintain_order=True):
        slopes = dict(table.select("variable", "slope").unique().iter_rows())
        found = [slopes.get(variable) for variable in ("m", "l", "n_c")]
        cells = ["–" if slope is None else f"{slope:z.2f}".replace("-", "−") for slope in found]
        rows.append((str(algorithm), _COMPLEXITY.get(str(algorithm), _INDUCTIVE), *cells))
    header = ("algorithm", "complexity in the paper", "exponent in m", "in l", "in n_c")
    caption = "Time against training items, calibration items and candidates."
    return [
        Heading("Growth of execution time"),
        Paragraph(words),
        Picture("growth", caption),
        Table("Measured exponents", header, tuple(rows), frozenset({0, 1})),
    ]


def tuning_section(tuning: pl.DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Give AP over I, and AP and AUC over the split shares."""
    words = (
        "I is the number of factors in the score of Precedence Mining and ICRS1. Of the shares, "
        "what is neither training nor calibration is test: more of both leaves fewer test items, "
        "and AP falls with their number whatever the method, so AP may be compared along equal "
        "sums only; AUC does not depend on that number."
    )
    blocks: list[Block] = [Heading("Tuning"), Paragraph(words)]
    for dataset, file in file_names(titles).items():
        found = tuning.filter(pl.col("dataset") == dataset)
        if found.is_empty():
            continue
        title = titles[dataset]
        caption = f"{title}: AP against I, with one standard error."
        blocks += [Picture(f"tuning-top-{file}", caption), _tops(found, title)]
        caption = f"{title}: AP and AUC over the shares of training and calibration."
        blocks += [Picture(f"tuning-shares-{file}", caption), _shares(found, title)]
    return blocks


def _value(row: dict[str, float]) -> tuple[str, str]:
    return tuple(f"{row[m]:.3f} ± {row[f'{m}_error']:.3f}" for m in ("ap", "auc"))  # type: ignore[return-value]


def _tops(tuning: pl.DataFrame, title: str) -> Table:
    rows = [
        (row["algorithm"], "all" if row["top"] is None else str(row["top"]), *_value(row))
        for row in tuning.filter(pl.col("sweep") == "top").to_dicts()
    ]
    caption = f"{title}: number of factors I"
    return Table(caption, ("algorithm", "I", "AP", "AUC"), tuple(rows), folded=True)


def _shares(tuning: pl.DataFrame, title: str) -> Table:
    rows = [
        (
            row["algorithm"],
            f"{100 * row['training']:.0f} %",
            f"{100 * row['calibration']:.0f} %",
            *_value(row),
        )
        for row in tuning.filter(pl.col("sweep") == "shares").to_dicts()
    ]
    header = ("algorithm", "training", "calibration", "AP", "AUC")
    return Table(f"{title}: split shares", header, tuple(rows), folded=True)


def settings_section(settings: Settings, files: tuple[str, ...]) -> list[Block]:
    """Say how the numbers came about, and where they are."""
    sources = [
        source.name if source.path is None else f"{source.name} from {Path(source.path).name}"
        for source in settings.datasets
    ]
    rows = [
        ("data sets", ", ".join(sources)),
        ("users evaluated in each", str(settings.n_users)),
        ("seed", str(settings.seed)),
        ("k of precision, recall and F1", str(settings.k)),
        ("users timed", str(settings.timed_users)),
        ("users in tuning", str(settings.tuning_users)),
        *([("measures outside the paper", ", ".join(settings.extra))] if settings.extra else []),
        *versions().items(),
    ]
    caption = "Settings and versions"
    return [
        Heading("How it was made"),
        Table(caption, ("setting", "value"), tuple(rows), frozenset({0, 1})),
        Paragraph("Every number is in these files, as CSV and Parquet:"),
        Bullets(files),
    ]
