"""What a report is made of, and how it is shown: as a page with figures.

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
from surerec.reports._pages import to_html

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
]
