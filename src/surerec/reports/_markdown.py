"""The report as Markdown, with the figures beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.reports._blocks import (
    Bullets,
    Heading,
    Paragraph,
    Picture,
    Strong,
    Table,
    Verdicts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.reports._blocks import Block


def to_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Give the report as one Markdown text."""
    return "\n\n".join([f"# {title}", *map(_block, blocks)]) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return _plain(text)
        case Bullets(items):
            return "\n".join(f"- {_plain(item)}" for item in items)
        case Verdicts(items):
            return "\n".join(_verdict(*item) for item in items)
        case Picture(name, caption, alt):
            return f"![{_plain(alt or caption)}](figures/{name}.png)\n\n*{_plain(caption)}*"
        case Table():
            return _table(block)


def _verdict(claim: str, verdict: str, text: str, points: tuple[str, ...]) -> str:
    first = f"- **{_plain(claim)}: {verdict}.** {_plain(text)}"
    return "\n".join([first, *(f"  - {_plain(point)}" for point in points)])


def _table(table: Table) -> str:
    rule = [":--" if column in table.words else "--:" for column in range(len(table.header))]
    lines = [[_plain(text) for text in table.header], rule]
    lines += [[_cell(text) for text in row] for row in table.rows]
    return "\n".join([f"**{_plain(table.caption)}**", "", *(f"| {' | '.join(x)} |" for x in lines)])


def _cell(text: str) -> str:
    return f"**{_plain(text)}**" if isinstance(text, Strong) and text else _plain(text)


def _plain(text: str) -> str:
    """Escape what Markdown would read as its own."""
    for mark in "\\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
