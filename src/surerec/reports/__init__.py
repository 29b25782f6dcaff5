"""What a report is made of, and how it is shown: as a page, as Markdown, with figures.

The looks of figures are in :mod:`surerec.reports.figures`, which needs matplotlib, an extra.
"""

from surerec.reports._blocks import (
    FLOOR_NOTE,
    Block,
    Bullets,
    Heading,
    Paragraph,
    Picture,
    Strong,
    Table,
    Verdicts,
    require_plots,
    size_cell,
)
from surerec.reports._pages import to_html, to_markdown

__all__ = [
    "FLOOR_NOTE",
    "Block",
    "Bullets",
    "Heading",
    "Paragraph",
    "Picture",
    "Strong",
    "Table",
    "Verdicts",
    "require_plots",
    "size_cell",
    "to_html",
    "to_markdown",
]
