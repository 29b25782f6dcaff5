"""The findings of an audit, before they are a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from surerec.audit._verdicts import Verdict


@dataclass(frozen=True)
class Findings:
    """What the page and the figure are made of; :class:`surerec.audit.Audit` says what is what."""

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
    probabilities: pl.DataFrame | None = None
    reliability: pl.DataFrame | None = None
    together: pl.DataFrame | None = None
    segments: pl.DataFrame | None = None
    support: pl.DataFrame | None = None
    ranking: pl.DataFrame | None = None
    known: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make missing numbers null in every table: polars orders NaN above every number."""
        for name, table in list(vars(self).items()):
            if isinstance(table, pl.DataFrame):
                object.__setattr__(self, name, table.fill_nan(None))

    def tables(self) -> dict[str, pl.DataFrame]:
        """Give all tables by name."""
        verdicts = pl.DataFrame(
            [(v.kind, v.name, v.verdict, v.sentence) for v in self.verdicts],
            schema=["kind", "name", "verdict", "sentence"],
            orient="row",
        )
        names = (
            "coverage",
            "support",
            "ranking",
            "drift",
            "groups",
            "mondrian",
            "calendar",
            "probabilities",
            "reliability",
            "together",
            "segments",
        )
        known = pl.DataFrame({"known": self.known}, schema={"known": pl.String})
        findings = pl.DataFrame({"finding": self.findings}, schema={"finding": pl.String})
        found = {"verdicts": verdicts, "findings": findings, "known": known} | {
            name: getattr(self, name) for name in names
        }
        return {name: table for name, table in found.items() if table is not None and len(table)}
