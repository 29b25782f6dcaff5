"""What an audit looks like in a terminal: the verdict first, then the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from surerec.audit import HEADLINE, at_headline, percent, segment_cells
from surerec.cli._output import plain, table
from surerec.reports import FLOOR_NOTE, size_cell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surerec.audit import Audit


_STYLES = {
    "holds": "green",
    "conservative": "green",
    "holds in part": "yellow",
    "cannot tell": "yellow",
    "does not hold": "red",
}
_LEVEL = percent(1 - HEADLINE)


def show_audit(console: Console, audit: Audit) -> None:
    """Print an audit."""
    console.print(f"\n[bold]{plain(audit.subject)} on {plain(audit.data)}[/bold]")
    console.print(plain(audit.overall) + "\n")
    findings = [f"[red]Finding:[/red] {plain(sentence)}\n" for sentence in audit.findings]
    for line in (*findings, *map(plain, audit.known), ""):
        console.print(line)
    if audit.verdicts:
        console.print(coverage(audit))
        console.print()
        for row in audit.drift.to_dicts():
            console.print(plain(f"{row['order'].capitalize()}, {row['test']}: {row['meaning']}."))
        if audit.segments is not None:
            console.print()
            console.print(_segments(at_headline(audit.segments)))
        for sentence in audit.notes:
            console.print(plain(sentence))
    label = "Not audited" if audit.verdicts else "Not tested"
    for sentence in audit.skipped:
        console.print(f"[yellow]{label}:[/yellow] {plain(sentence)}")


def coverage(audit: Audit) -> Table:
    """Build the table of what was delivered at each nominal level, with verdicts."""
    rows: list[Any] = []
    promised: list[float] = []
    for verdict in audit.verdicts:
        found = audit.coverage.filter(pl.col("kind") == verdict.kind)
        promised = promised or found["promised"].to_list()
        cells = [
            _colored(percent(row["delivered"], 1), is_red=row["verdict"] == "does not hold")
            for row in found.to_dicts()
        ]
        headline = at_headline(found).row(0, named=True)
        word = f"[{_STYLES[verdict.verdict]}]{verdict.verdict}[/]"
        size = size_cell(headline["size"], headline["floor"])
        rows.append((verdict.name, *cells, size, word))
    headings = ("Delivered where promised", *map(percent, promised))
    shown = table((*headings, f"Set size at {_LEVEL}", "Verdict"), rows, slice(1, -1))
    if at_headline(audit.coverage)["size"].has_nulls():
        shown.caption, shown.caption_justify = FLOOR_NOTE, "left"
    return shown


def _colored(text: str, *, is_red: bool) -> str:
    return f"[red]{text}[/]" if is_red else text


def _segments(found: pl.DataFrame) -> Table:
    at = found.filter(pl.col("kind") == found["kind"][0])
    column, rows = plain(at["column"][0]), []
    for row in at.to_dicts():
        cells = [plain(cell) for cell in segment_cells(row)]
        rows.append([*cells[:2], _colored(cells[2], is_red=row["below"]), *cells[3:]])
    headings = (column, "Nominal", "Observed", "Mean set size", "Median", "Users")
    shown = table(headings, rows, slice(1, None))
    within = f"in each {column}"
    kept = within if at["guaranteed"].any() else f"over all users, not {within}"
    shown.caption_justify = "left"
    shown.caption = (
        f"Guaranteed {kept}. Intervals hold together over segments and levels with 95%; red lies "
        "below nominal."
    )
    return shown
