"""What an audit looks like in a terminal: the verdict first, then the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from rich.markup import escape
from rich.table import Table

from surerec.audit import (
    HEADLINE,
    at_headline,
    falls_short,
    percent,
    segment_cells,
    with_interval,
)
from surerec.reports import FLOOR_NOTE, size_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from surerec.audit import Audit


_STYLES = {
    "holds": "green",
    "conservative": "green",
    "holds in part": "yellow",
    "cannot tell": "yellow",
    "does not hold": "red",
}
_PLAIN: dict[str, Any] = {"box": None, "header_style": "bold", "pad_edge": False}


def show_audit(console: Console, audit: Audit) -> None:
    """Print an audit."""
    console.print(
        f"\n[bold]{escape(audit.subject)} on {escape(audit.data)}[/bold]", highlight=False
    )
    console.print(escape(audit.overall) + "\n", highlight=False)
    findings = [f"[red]Finding:[/red] {escape(sentence)}\n" for sentence in audit.findings]
    for line in (*findings, *map(escape, audit.known)):
        console.print(line, highlight=False)
    console.print()
    if not audit.verdicts:
        for sentence in audit.skipped:
            console.print(f"[yellow]Not tested:[/yellow] {escape(sentence)}", highlight=False)
        return
    console.print(_coverage(audit))
    console.print()
    for row in audit.drift.to_dicts():
        said = f"{row['order'].capitalize()}, {row['test']}: {row['meaning']}."
        console.print(escape(said), highlight=False)
    for table in _tables(audit):
        console.print()
        console.print(table)
    for sentence in audit.notes:
        console.print(escape(sentence), highlight=False)
    for sentence in audit.skipped:
        console.print(f"[yellow]Not audited:[/yellow] {escape(sentence)}", highlight=False)


def _tables(audit: Audit) -> Iterator[Table]:
    if audit.segments is not None:
        yield _segments(audit.segments)
    if len(audit.groups):
        yield _groups(audit)
    if len(audit.mondrian):
        yield _mondrian(audit)
    if audit.together is not None:
        yield _together(audit.together)


def _coverage(audit: Audit) -> Table:
    first = audit.verdicts[0].kind
    promised = audit.coverage.filter(pl.col("kind") == first)["promised"].to_list()
    table = Table("Delivered where promised", *map(percent, promised), "Verdict", **_PLAIN)
    table.add_column(f"Set size at {percent(1 - HEADLINE)}")
    for column in (*table.columns[1:-2], table.columns[-1]):
        column.justify = "right"
    for verdict in audit.verdicts:
        found = audit.coverage.filter(pl.col("kind") == verdict.kind)
        cells = [
            f"[{_STYLES[row['verdict']]}]{percent(row['delivered'], 1)}[/]"
            if row["verdict"] == "does not hold"
            else percent(row["delivered"], 1)
            for row in found.to_dicts()
        ]
        (headline,) = at_headline(found).to_dicts()
        size = size_cell(headline["size"], headline["floor"])
        word = f"[{_STYLES[verdict.verdict]}]{verdict.verdict}[/]"
        table.add_row(verdict.name, *cells, word, size)
    if at_headline(audit.coverage)["size"].has_nulls():
        table.caption, table.caption_justify = FLOOR_NOTE, "left"
    return table


def _segments(found: pl.DataFrame) -> Table:
    at = at_headline(found)
    at = at.filter(pl.col("kind") == at["kind"][0])
    column = escape(at["column"][0])
    table = Table(column, "Nominal", "Observed", "Mean set size", "Median", "Users", **_PLAIN)
    for header in table.columns[1:]:
        header.justify = "right"
    for row in at.to_dicts():
        cells = [escape(cell) for cell in segment_cells(row)]
        if row["below"]:
            cells[2] = f"[red]{cells[2]}[/]"
        table.add_row(*cells)
    kept = (
        f"in each {column}" if at["guaranteed"].any() else f"over all users, not in each {column}"
    )
    table.caption = (
        f"Guaranteed {kept}. Intervals hold together over segments and levels with 95%; red lies "
        "below nominal."
    )
    table.caption_justify = "left"
    return table


def _groups(audit: Audit) -> Table:
    kinds = [kind for kind in ("item-time", "miss-score", "miss-rank") if kind in
             set(audit.groups["kind"])][:2]  # fmt: skip
    words = {"item-time": "Item-level", "miss-score": "User-level", "miss-rank": "User-level"}
    at = at_headline(audit.groups)
    title = f"Delivered of {percent(1 - HEADLINE)}, by"
    table = Table(title, "", *(words[kind] for kind in kinds), **_PLAIN)
    parts = [at.filter(pl.col("kind") == kind) for kind in kinds]
    # The two protocols leave slightly different parts known, so that groups are set side by side
    # in their order, each under the name that the first has for it.
    before = ""
    for row in parts[0].to_dicts():
        same = (pl.col("by") == row["by"]) & (pl.col("place") == row["place"])
        cells = [_cell(found) for part in parts for found in part.filter(same).to_dicts()]
        table.add_row("" if row["by"] == before else row["by"], row["group"], *cells)
        before = row["by"]
    return table


def _cell(row: dict[str, Any]) -> str:
    text = escape(with_interval(row))
    return f"[red]{text}[/]" if falls_short(row) else text


def _together(found: pl.DataFrame) -> Table:
    title = f"Groups at {percent(1 - HEADLINE)}: of what"
    table = Table(title, "Members", "Delivered", "Set size", "A member's own", "Least", **_PLAIN)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in at_headline(found).sort("promise", "size", maintain_order=True).to_dicts():
        own, least = percent(row["members"], 1), percent(row["least_served"], 1)
        items = size_cell(row["items"], row["floor"])
        table.add_row(row["promise"], str(row["size"]), _cell(row), items, own, least)
    return table


def _mondrian(audit: Audit) -> Table:
    at = at_headline(audit.mondrian)
    kind = "miss-score" if "miss-score" in set(at["kind"]) else "miss-rank"
    title = f"User-level at {percent(1 - HEADLINE)}, by known items"
    table = Table(title, "Users", "One threshold", "Set size", "One a group", "Set size", **_PLAIN)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in at.filter(pl.col("kind") == kind).to_dicts():
        cells = []
        for which in ("common", "own"):
            ends = {end: row[f"{which}_{end}"] for end in ("delivered", "low", "high")}
            size = size_cell(row[f"{which}_size"], row[f"{which}_floor"])
            cells += [escape(with_interval(ends)), size]
        table.add_row(row["group"], f"{row['n_users']:,}", *cells)
    return table
