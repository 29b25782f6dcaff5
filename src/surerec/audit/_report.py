"""The result of an audit: verdicts and tables, as a page and as a folder."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec._files import folder_aside, holds_output
from surerec._inputs import as_input_error
from surerec._notebook import html_card
from surerec._words import counted
from surerec.audit._verdicts import (
    HEADLINE,
    GuaranteeVerdict,
    at_headline,
    falls_short,
    percent,
    with_interval,
)
from surerec.errors import InputError
from surerec.reports import (
    FLOOR_NOTE,
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
    to_html,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from surerec.reports import Block

_MARK: Final = "report.html"
_HIDDEN: Final = {"kind", "epsilon", "nominal", "place", "below", "verdict", "loss"}
"""Columns that are only in the CSV files, like interval ends and floors."""
_ENDS: Final = ("low", "high", "floor", "_se")


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes
    ----------
    data, subject : str
        Names of the data and of the audited measure or recommender.
    overall : str
        A summary that recommends a guarantee.
    verdicts : list of GuaranteeVerdict
        One verdict for each kind of guarantee.
    coverage : polars.DataFrame
        Nominal and observed level for each kind and ε, with intervals and set sizes. Kinds that
        begin with "new-" come from the new-user test, which decides.
    drift : polars.DataFrame
        Tests whether later items conform as well as earlier ones.
    segments : polars.DataFrame
        Nominal and observed level by segment (``by`` names the column), by history length and for
        the users of a finding. The intervals of segments hold jointly with 95%.
    windows : polars.DataFrame or None
        The temporal split, window by window, for models of several ages.
    skipped : list of str
        What could not be audited, and why.
    settings : dict
        The settings of the audit.
    probabilities : polars.DataFrame or None
        Predicted probabilities of items, and the observed shares that were consumed; see
        :func:`surerec.evaluation.new_user_reliability`.
    group_guarantees : polars.DataFrame or None
        Nominal and observed level of random groups of two, four and eight users, for each group
        guarantee and ε.
    support : polars.DataFrame or None
        Share of items missed (1 − recall) at ε = 0.1 by the number of other users who consumed the
        item, for calibration users and new users; see
        :func:`surerec.evaluation.miss_by_support`.
    notes : list of str
        Notes on the data that scores used, on repeats and ties, and on pooled segments.
    findings : list of str
        Violations of the assumptions: a false declaration of the scorer, near-duplicate users,
        bots. Empty if there are none.
    """

    data: str
    subject: str
    overall: str
    verdicts: list[GuaranteeVerdict] = field(default_factory=list)
    coverage: pl.DataFrame = field(default_factory=pl.DataFrame)
    drift: pl.DataFrame = field(default_factory=pl.DataFrame)
    segments: pl.DataFrame = field(default_factory=pl.DataFrame)
    windows: pl.DataFrame | None = None
    skipped: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    probabilities: pl.DataFrame | None = None
    group_guarantees: pl.DataFrame | None = None
    support: pl.DataFrame | None = None
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Replace NaN by null in every table, as polars sorts NaN above every number."""
        for name, table in list(vars(self).items()):
            if isinstance(table, pl.DataFrame):
                object.__setattr__(self, name, table.fill_nan(None))

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return all tables by name."""
        columns = "kind", "name", "verdict", "sentence"
        verdicts = [[getattr(each, name) for name in columns] for each in self.verdicts]
        found = {
            "verdicts": pl.DataFrame(verdicts, schema=columns, orient="row"),
            "findings": pl.DataFrame({"finding": self.findings}, schema={"finding": pl.String}),
        } | {name: each for name, each in vars(self).items() if isinstance(each, pl.DataFrame)}
        return {name: table for name, table in found.items() if len(table)}

    def plot(self) -> Any:
        """Return a figure of observed against nominal levels; this needs surerec[plots]."""
        require_plots()
        from surerec.audit._figure import overview  # noqa: PLC0415  # an extra
        from surerec.reports.figures import styled  # noqa: PLC0415

        with styled():
            return overview(self.data, self.subject, self.coverage, self.windows)

    def _repr_html_(self) -> str:
        """Return the summary and the 90% level as HTML, for notebooks."""
        title = f"{self.subject} on {self.data}"
        names = {verdict.kind: verdict.name for verdict in self.verdicts}
        columns = ("guarantee", "nominal", "observed", "low", "high", "verdict")
        named = pl.col("kind").replace(names).alias(columns[0])
        frame = at_headline(self.coverage).with_columns(named).select(columns)
        return html_card(title, frame, self.overall, bar="observed", n_shown=len(frame))

    def to_html(self) -> str:
        """Return the report as one self-contained HTML page; this needs surerec[plots]."""
        require_plots()
        return _page(self, _figure(self))

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write report, figure and tables to a folder, which appears once it is complete.

        Parameters
        ----------
        folder : path-like
            A new folder.
        overwrite : bool, default=False
            Replace an earlier audit.
        """
        require_plots()
        target = Path(folder)
        check_target(target, overwrite=overwrite)
        figure = _figure(self)
        page = _page(self, figure)
        with as_input_error(target, "cannot be written", "Use another folder."):
            target.parent.mkdir(parents=True, exist_ok=True)
            with folder_aside(target) as aside:
                (aside / _MARK).write_text(page, encoding="utf-8")
                for ending, content in figure.items():
                    (aside / f"audit.{ending}").write_bytes(content)
                for name, table in self.tables().items():
                    table.write_csv(aside / f"{name}.csv")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Check that `target` is free, or holds an audit that `overwrite` replaces."""
    if holds_output(target, {_MARK, "verdicts.csv"}, "an audit") and not overwrite:
        raise InputError(f"{target}: contains an audit. Use another folder, or overwrite it.")


def _figure(audit: Audit) -> dict[str, bytes]:
    """Draw the figure in every format."""
    from surerec.reports.figures import render, styled  # noqa: PLC0415  # an extra

    with styled():
        return render(audit.plot())


def _page(audit: Audit, figure: Mapping[str, bytes]) -> str:
    title = f"Does the guarantee hold? {audit.subject} on {audit.data}"
    return to_html(title, _blocks(audit), {"audit": figure["svg"]})


def _cell(row: Mapping[str, Any], name: str) -> str:
    """Return a table cell; bold if it is significantly below nominal."""
    if name == "observed" and "nominal" in row:
        short = row["below"] if "below" in row else falls_short(row)
        if "verdict" in row:
            short = row["verdict"] == "does not hold"
        return Strong(with_interval(row)) if short else with_interval(row)
    if name == "size":
        return size_cell(row[name], row["floor"])
    value = row[name]
    if isinstance(value, bool):
        return Strong("yes") if value else ""
    if isinstance(value, float):
        return f"{value:,.3f}"
    return "–" if value is None else str(value)


def _blocks(audit: Audit) -> Iterator[Block]:
    """Yield the blocks of the page."""
    yield Paragraph(audit.overall)
    yield from _bullets("Findings", audit.findings)
    yield from _results(audit)
    yield from _bullets("Not audited", audit.skipped)


def _bullets(heading: str, sentences: list[str]) -> Iterator[Block]:
    if sentences:
        yield Heading(heading)
        yield Bullets(tuple(sentences))


def _results(audit: Audit) -> Iterator[Block]:
    settings = audit.settings
    days, horizon = settings["window"], settings["horizon"]
    held_out = f"{horizon:.0%} of a history" if isinstance(horizon, float) else f"{horizon} items"
    yield Paragraph(
        f"{settings['n_users']:,} random users. User-level guarantees are tested on random halves: "
        f"each half is tested with the threshold of the other. The horizon is the last {held_out}"
        f"{f'; windows have {days:g} days' if days else ''}; random_state="
        f"{settings['random_state']}."
    )
    texts = load_texts("surerec.audit", "report.json")
    yield Picture("audit", texts["picture"], texts["alt"])
    yield Heading("Verdicts")
    yield Verdicts(tuple((v.name, v.verdict, v.text, ()) for v in audit.verdicts))
    yield Heading("Nominal and observed levels")
    yield Paragraph(texts["levels"])
    by_name = defaultdict(list)
    for row in audit.coverage.to_dicts():
        by_name[row["name"]].append(row)
    levels = tuple(percent(row["nominal"]) for row in next(iter(by_name.values())))
    yield Table(
        "Observed level, by nominal level; bold values are significantly below nominal",
        ("nominal", *levels, "sample"),
        tuple(
            (
                name,
                *(_cell(row, "observed") for row in rows),
                counted(rows[0]["n"], rows[0]["unit"]),
            )
            for name, rows in by_name.items()
        ),
    )
    sizes = tuple((name, *(_cell(row, "size") for row in rows)) for name, rows in by_name.items())
    popular = tuple(
        (f"{name}: popularity", *(size_cell(row["popularity"], row["floor"]) for row in rows))
        for name, rows in by_name.items()
        if rows[0]["popularity"] is not None
    )
    yield Table("Mean set size, by nominal level", ("nominal", *levels), sizes + popular)
    if audit.coverage["size"].has_nulls():
        yield Paragraph(FLOOR_NOTE)
    if audit.notes:
        yield Bullets(tuple(audit.notes))
    for table, (heading, text) in texts["sections"].items():
        yield from _section(audit, table, heading, text.format(level=percent(1 - HEADLINE)))


def _section(audit: Audit, name: str, heading: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a section, if the audit has its table."""
    table: pl.DataFrame | None = getattr(audit, name)
    if table is None or not len(table):
        return
    yield Heading(heading)
    yield Paragraph(text)
    if "epsilon" in table.columns:
        table = at_headline(table)
    shown = [each for each in table.columns if each not in _HIDDEN and not each.endswith(_ENDS)]
    header = tuple(each.replace("_", " ") for each in shown)
    words = frozenset(at for at, each in enumerate(shown) if table[each].dtype == pl.String)
    parts = {heading: table}
    if "kind" in table.columns:
        names = dict(audit.coverage.select("kind", "name").iter_rows())
        kinds = table["kind"].unique(maintain_order=True)
        parts = {names[kind]: table.filter(kind=kind) for kind in kinds}
    for caption, part in parts.items():
        rows = tuple(tuple(_cell(row, each) for each in shown) for row in part.to_dicts())
        yield Table(caption, header, rows, words, folded=name == "windows")
