"""What an audit looks like in a terminal: the verdict first, then the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from surerec.audit import (
    HEADLINE,
    at_headline,
    falls_short,
    percent,
    with_interval,
)
from surerec.cli._output import plain, table
from surerec.reports import FLOOR_NOTE, size_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_KINDS = {"item-time": "Item-level", "recall-score": "User-level", "recall-rank": "User-level"}
_LEVEL = percent(1 - HEADLINE)


def show_audit(console: Console, audit: Audit) -> None:
    """Print an audit."""
    console.print(f"\n[bold]{plain(audit.subject)} on {plain(audit.data)}[/bold]")
    console.print(plain(audit.overall) + "\n")
    findings = [f"[red]Finding:[/red] {plain(sentence)}\n" for sentence in audit.findings]
    for line in findings:
        console.print(line)
    console.print(coverage(audit))
    console.print()
    for row in audit.drift.to_dicts():
        console.print(plain(f"{row['order'].capitalize()}, {row['test']}: {row['meaning']}."))
    for each in _tables(audit):
        console.print()
        console.print(each)
    for sentence in audit.notes:
        console.print(plain(sentence))
    for sentence in audit.skipped:
        console.print(f"[yellow]Not audited:[/yellow] {plain(sentence)}")


def coverage(audit: Audit) -> Table:
    """Build the table of observed levels at each nominal level, with verdicts."""
    rows: list[Any] = []
    nominal: list[float] = []
    for verdict in audit.verdicts:
        found = audit.coverage.filter(pl.col("kind") == verdict.kind)
        nominal = nominal or found["nominal"].to_list()
        cells = [
            _colored(percent(row["observed"], 1), is_red=row["verdict"] == "does not hold")
            for row in found.to_dicts()
        ]
        headline = at_headline(found).row(0, named=True)
        word = f"[{_STYLES[verdict.verdict]}]{verdict.verdict}[/]"
        size = size_cell(headline["size"], headline["floor"])
        popular = headline["popularity"]
        rows.append((verdict.name, *cells, size, f"{popular:,.0f}" if popular else "", word))
    headings = ("Observed, at nominal", *map(percent, nominal), f"Set size at {_LEVEL}")
    shown = table((*headings, "Popularity's", "Verdict"), rows, slice(1, -1))
    if at_headline(audit.coverage)["size"].has_nulls():
        shown.caption, shown.caption_justify = FLOOR_NOTE, "left"
    return shown


def _colored(text: str, *, is_red: bool) -> str:
    return f"[red]{text}[/]" if is_red else text


def _cell(row: dict[str, Any]) -> str:
    return _colored(plain(with_interval(row)), is_red=falls_short(row))


def _tables(audit: Audit) -> Iterator[Table]:
    """Yield the observed level of segments and groups at the headline level."""
    if len(audit.segments):
        at = at_headline(audit.segments)
        kinds = [kind for kind in _KINDS if kind in set(at["kind"])][:2]
        rows = [
            (
                _KINDS[row["kind"]],
                plain(row["by"]),
                plain(row["segment"]),
                _cell(row),
                size_cell(row["size"], row["floor"]),
                f"{row['n_users']:,}",
            )
            for row in at.filter(pl.col("kind").is_in(kinds)).to_dicts()
        ]
        headings = (f"At {_LEVEL} nominal", "By", "Segment", "Observed", "Set size", "Users")
        yield table(headings, rows, slice(4, None))
    if audit.group_guarantees is not None:
        at = at_headline(audit.group_guarantees).sort("guarantee", "members", maintain_order=True)
        groups = [
            (
                row["guarantee"],
                str(row["members"]),
                _cell(row),
                size_cell(row["size"], row["floor"]),
            )
            for row in at.to_dicts()
        ]
        of_groups = (f"Groups at {_LEVEL} nominal", "Members", "Observed", "Set size")
        yield table(of_groups, groups, slice(1, None))
