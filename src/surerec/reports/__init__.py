"""Building blocks of reports, and their HTML page.

The style of figures is in :mod:`surerec.reports.figures`, which needs matplotlib (an extra).
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
    load_texts,
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
    "load_texts",
    "require_plots",
    "size_cell",
    "to_html",
]
