"""What an audit found: sentences, tables, a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.audit._verdicts import Verdict

__all__ = ["Audit"]


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    data, subject : str
        What was audited.
    overall : str
        Which guarantee to use, in one or two sentences.
    verdicts : list of Verdict
        One for each kind, with its sentence.
    coverage : polars.DataFrame
        For each kind and ε what was promised and delivered, with intervals, and set sizes.
    drift : polars.DataFrame
        Tests whether later items conform as earlier ones did.
    groups : polars.DataFrame
        What was delivered by known items, popularity of the item and when people began.
    mondrian : polars.DataFrame
        A common threshold beside one for each group by known items.
    calendar : polars.DataFrame or None
        Window by window, models of several ages.
    skipped : list of str
        What could not be audited, and why.
    settings : dict
        Of this audit.
    """

    data: str
    subject: str
    overall: str
    verdicts: list[Verdict]
    coverage: pl.DataFrame
    drift: pl.DataFrame
    groups: pl.DataFrame
    mondrian: pl.DataFrame
    calendar: pl.DataFrame | None
    skipped: list[str]
    settings: dict[str, Any]

    def tables(self) -> dict[str, pl.DataFrame]:
        """Give all tables by name."""
        verdicts = pl.DataFrame(
            [(v.kind, v.name, v.verdict, v.sentence) for v in self.verdicts],
            schema=["kind", "name", "verdict", "sentence"],
            orient="row",
        )
        names = ("coverage", "drift", "groups", "mondrian", "calendar")
        found = {"verdicts": verdicts} | {name: getattr(self, name) for name in names}
        return {name: table for name, table in found.items() if table is not None and len(table)}

    def to_html(self) -> str:
        """Give the report as one page that needs no other file; this needs surerec[plots]."""
        from surerec.audit._report import to_html  # noqa: PLC0415  # an extra

        return to_html(self)

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write report, figure and tables into a folder, which appears when it is complete.

        Parameters
        ----------
        folder : path-like
            A new folder.
        overwrite : bool, default=False
            Replace an earlier audit.
        """
        from surerec.audit._report import write  # noqa: PLC0415  # an extra

        write(self, folder, overwrite=overwrite)
