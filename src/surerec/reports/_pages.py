"""The report as one self-contained HTML file."""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from surerec.reports._blocks import Bullets, Heading, Paragraph, Picture, Strong, Table, Verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from surerec.reports._blocks import Block


def to_html(title: str, blocks: Iterable[Block], pictures: Mapping[str, bytes]) -> str:
    """Return the report as one page.

    Parameters
    ----------
    title : str
        The title.
    blocks : iterable of Block
        The content.
    pictures : mapping of str to bytes
        The figures by name, as SVG.
    """
    content = list(blocks)
    template, style = (
        files("surerec.reports").joinpath(f"report.{ending}").read_text(encoding="utf-8")
        for ending in ("html", "css")
    )
    sections = [block.text for block in content if isinstance(block, Heading)]
    contents = [f'<li><a href="#{_anchor(text)}">{escape(text)}</a></li>' for text in sections]
    return template.format(
        title=escape(title),
        style=style,
        contents="\n".join(contents),
        body="\n".join(_block(block, pictures) for block in content),
    )


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _block(block: Block, pictures: Mapping[str, bytes]) -> str:
    match block:
        case Heading(text, level):
            return f'<h{level} id="{_anchor(text)}">{escape(text)}</h{level}>'
        case Paragraph(text):
            return f"<p>{_text(text)}</p>"
        case Bullets(items):
            return _bullets(items)
        case Verdicts(items):
            return "\n".join(_verdict(*item) for item in items)
        case Picture():
            return _picture(block, pictures[block.name])
        case Table():
            return _table(block)


def _verdict(claim: str, verdict: str, text: str, points: tuple[str, ...]) -> str:
    rest = _bullets(points) if points else ""
    return (
        f'<section class="claim {_anchor(verdict)}"><h3>{_text(claim)} '
        f'<span class="verdict">{_text(verdict)}</span></h3><p>{_text(text)}</p>{rest}</section>'
    )


def _bullets(items: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"


def _text(text: str) -> str:
    """Escape a text, and forbid line breaks in ``ε = 0.1``."""
    return escape(text).replace("ε = ", "ε\xa0=\xa0")


def _picture(picture: Picture, svg: bytes) -> str:
    source = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
    alt = escape(picture.alt or picture.caption)
    return (
        f'<figure id="{escape(picture.name)}"><div class="wide" tabindex="0">'
        f'<img{_size(svg)} src="{source}" alt="{alt}"></div>'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
    )


def _size(svg: bytes) -> str:
    """Return the size of a drawing in pixels, which fixes the layout before it is drawn."""
    points = re.search(rb'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
    if not points:
        return ""
    width, height = (round(float(number) * 96 / 72) for number in points.groups())
    return f' width="{width}" height="{height}"'


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_kind(table, column)}>{_text(text)}</th>'
        for column, text in enumerate(table.header)
    )
    body = "\n".join(_row(table, row) for row in table.rows)
    caption = "" if table.folded else f"<caption>{escape(table.caption)}</caption>"
    label = escape(table.caption)
    text = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}"><table>{caption}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )
    return f"<details><summary>{label}</summary>{text}</details>" if table.folded else text


def _row(table: Table, row: tuple[str, ...]) -> str:
    cells = [f'<th scope="row">{_cell(row[0])}</th>']
    cells += [
        f"<td{_kind(table, column)}>{_cell(text)}</td>"
        for column, text in enumerate(row[1:], start=1)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _kind(table: Table, column: int) -> str:
    return ' class="words"' if column in table.words else ""


def _cell(text: str) -> str:
    return f"<b>{_text(text)}</b>" if isinstance(text, Strong) else _text(text)
