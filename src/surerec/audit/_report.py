"""The result of an audit: tables, sentences, a page and a folder."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from surerec._files import check_utf8, folder_aside
from surerec._inputs import damage_in_words
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
    require_plots,
    size_cell,
    to_html,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from surerec.reports import Block

_MARK: Final = "report.html"
_HIDDEN: Final = {"kind", "epsilon", "nominal", "place", "below", "verdict", "loss"}
"""Fields that the page's tables leave to the CSV files, as they do interval ends and floors."""
_ENDS: Final = ("low", "high", "floor", "_se")


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    data, subject : str
        What was audited.
    overall : str
        Which guarantee to use, in one or two sentences.
    verdicts : list of GuaranteeVerdict
        One for each kind, with its sentence.
    coverage : polars.DataFrame
        For each kind and ε what was promised and delivered, with intervals, and set sizes. Kinds
        that begin with "new-" are of the new-user test: they come first and decide.
    drift : polars.DataFrame
        Tests whether later items conform as earlier ones did.
    groups : polars.DataFrame
        What was delivered to each segment (``by`` names the column), to users with few and many
        known items, and to users of a finding. Intervals of segments hold together with 95%.
    calendar : polars.DataFrame or None
        Window by window, models of several ages.
    skipped : list of str
        What could not be audited, and why.
    settings : dict
        Of this audit.
    probabilities : polars.DataFrame or None
        Predicted and observed: how often items are consumed, and how often their probabilities say;
        see :func:`surerec.evaluation.new_user_reliability`.
    group_guarantee : polars.DataFrame or None
        What random groups of two, four and eight were delivered, for each guarantee to groups and
        ε.
    support : polars.DataFrame or None
        Miss at ε = 0.1 by the number of other users who consumed the item, calibration users beside
        new users; see :func:`surerec.evaluation.miss_by_support`.
    notes : list of str
        What was known to what scored users; repeats and ties of the data; pooled segments.
    findings : list of str
        What speaks against the guarantee's assumptions: a false declaration of the scorer,
        near-duplicate users, bots. Empty if nothing was found.
    """

    data: str
    subject: str
    overall: str
    verdicts: list[GuaranteeVerdict] = field(default_factory=list)
    coverage: pl.DataFrame = field(default_factory=pl.DataFrame)
    drift: pl.DataFrame = field(default_factory=pl.DataFrame)
    groups: pl.DataFrame = field(default_factory=pl.DataFrame)
    calendar: pl.DataFrame | None = None
    skipped: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    probabilities: pl.DataFrame | None = None
    group_guarantee: pl.DataFrame | None = None
    support: pl.DataFrame | None = None
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make missing numbers null in every table: polars orders NaN above every number."""
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
        """Return the report's figure, promised against delivered; this needs surerec[plots]."""
        require_plots()
        from surerec.audit._figure import overview  # noqa: PLC0415  # an extra
        from surerec.reports.figures import styled  # noqa: PLC0415

        with styled():
            return overview(self.data, self.subject, self.coverage, self.calendar)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, and what was delivered of 90%."""
        title = f"{self.subject} on {self.data}"
        names = {verdict.kind: verdict.name for verdict in self.verdicts}
        columns = ("what is promised", "nominal", "observed", "low", "high", "verdict")
        named = pl.col("kind").replace(names).alias(columns[0])
        frame = at_headline(self.coverage).with_columns(named).select(columns)
        return html_card(title, frame, self.overall, bar="observed", n_shown=len(frame))

    def to_html(self) -> str:
        """Return the report as one page that needs no other file; this needs surerec[plots]."""
        require_plots()
        return _page(self, _figure(self))

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write report, figure and tables into a folder, which appears when it is complete.

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
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with folder_aside(target) as aside:
                (aside / _MARK).write_text(_page(self, figure), encoding="utf-8")
                for ending, content in figure.items():
                    (aside / f"audit.{ending}").write_bytes(content)
                for name, table in self.tables().items():
                    table.write_csv(aside / f"{name}.csv")
        except OSError as error:
            raise InputError(f"{target}: cannot be written ({error.strerror}).") from error


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse to write over what is no audit, or an audit without `overwrite`."""
    check_utf8(target)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; name a folder.")
    with damage_in_words(target, "cannot be looked into"):
        if not target.exists() or not any(target.iterdir()):
            return
    if not all((target / name).exists() for name in (_MARK, "verdicts.csv")):
        raise InputError(f"{target}: holds something else than an audit; name another folder.")
    if not overwrite:
        raise InputError(f"{target}: holds an audit; name another folder, or say overwrite.")


def _figure(audit: Audit) -> dict[str, bytes]:
    """Draw the figure in every format."""
    from surerec.reports.figures import render, styled  # noqa: PLC0415  # an extra

    with styled():
        return render(audit.plot())


def _page(audit: Audit, figure: Mapping[str, bytes]) -> str:
    title = f"Does the guarantee hold? {audit.subject} on {audit.data}"
    return to_html(title, _blocks(audit), {"audit": figure["svg"]})


class _Section(NamedTuple):
    """A part of the page: a table of the audit, and what is said about it."""

    of: str
    heading: str = ""
    text: str = ""
    folded: bool = False


_SECTIONS: Final = (
    _Section(
        "support",
        "New users",
        "The new-user test decides. A model is fitted on half of the users and asked about the "
        "others by their histories: catalogue, counts and thresholds are made without them. Its "
        "intervals include calibration and new users. Below: missed at ε = 0.1, by the number of "
        "other users who consumed the item. Calibration users are left out of the scores, so a row "
        "in which new users miss more is a leak of the user's own data into the score.",
    ),
    _Section(
        "drift",
        "Do later items conform as earlier ones did?",
        "If a user's items are exchangeable, smoothed p-values are uniform. The "
        "Kolmogorov–Smirnov test takes one item of each user. The martingale is the capital of a "
        "bettor against uniform p-values: it ever reaches 1/α with probability at most α. In "
        "random order nothing should be found.",
    ),
    _Section(
        "groups",
        "Weak spots",
        f"What segments and groups of users were delivered of {percent(1 - HEADLINE)}; bold falls "
        "short. A guarantee over everyone says nothing of a group. With segments=3 a recommender "
        "guarantees the level to users with few, some and many known items.",
    ),
    _Section(
        "probabilities",
        "Probabilities of items",
        "Half of the users calibrate the probability that an item is consumed, and the others are "
        "asked: the probabilities predicted, and the share observed, with the standard error of "
        "their difference over users.",
    ),
    _Section(
        "group_guarantee",
        "Groups who choose together",
        "Random groups of the audited users, halved as users are.",
    ),
    _Section(
        "calendar",
        "Over the calendar",
        "A model is counted up to one date and calibrated on what users consumed in the window "
        "after it; then it serves a window that follows, at once or later. Items that came up in "
        "between are unknown to it, and count as missed.",
        folded=True,
    ),
)


def _cell(row: Mapping[str, Any], name: str) -> str:
    """Return the cell of a field; strong if it falls short by more than chance."""
    if name == "observed":
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
    """Yield the page, block by block."""
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
    held_out = f"{horizon:.0%} of a profile" if isinstance(horizon, float) else f"{horizon} items"
    yield Paragraph(
        f"{settings['n_users']:,} random users; for user-level guarantees halved several times at "
        "random, each half tested with the other's threshold; the horizon is the last "
        f"{held_out}{f', windows of {days:g} days' if days else ''}; seed {settings['seed']}."
    )
    yield Picture(
        "audit",
        "Points below the dotted line deliver less than promised; intervals that reach it may be "
        "chance. Window by window, if there is a calendar: what models of several ages delivered.",
        "Delivered against promised coverage of items new to the user, for each kind of guarantee, "
        "with intervals and the diagonal; beside it delivered coverage window by window.",
    )
    yield Heading("Verdicts")
    said = ((v.name, v.verdict, v.sentence.removeprefix(f"{v.name}: ")) for v in audit.verdicts)
    yield Verdicts(
        tuple((name, word, text[:1].upper() + text[1:], ()) for name, word, text in said)
    )
    yield Heading("Promised and delivered")
    yield Paragraph(
        "Delivered is 1 − the share of later items, new to the user, that was left out, as a mean "
        "over users; for a hit, the share of users with one. Intervals are Wilson's, over users, "
        "of the five levels together with 95%; over the calendar they are t intervals over windows."
    )
    by_name = defaultdict(list)
    for row in audit.coverage.to_dicts():
        by_name[row["name"]].append(row)
    levels = tuple(percent(row["nominal"]) for row in next(iter(by_name.values())))
    yield Table(
        "Delivered of items new to the user where this much was promised; bold falls short by more "
        "than chance",
        ("", *levels, "over"),
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
    yield Table("Mean set sizes, in items", ("", *levels), sizes)
    if audit.coverage["size"].has_nulls():
        yield Paragraph(FLOOR_NOTE)
    if audit.notes:
        yield Bullets(tuple(audit.notes))
    for section in _SECTIONS:
        yield from _section(audit, section)


def _section(audit: Audit, section: _Section) -> Iterator[Block]:
    """Yield the blocks of a section; nothing if the audit lacks its table."""
    table: pl.DataFrame | None = getattr(audit, section.of)
    if table is None or not len(table):
        return
    if section.heading:
        yield Heading(section.heading)
    yield Paragraph(section.text)
    if "epsilon" in table.columns:
        table = at_headline(table)
    shown = [name for name in table.columns if name not in _HIDDEN and not name.endswith(_ENDS)]
    header = tuple(name.replace("_", " ") for name in shown)
    words = frozenset(at for at, name in enumerate(shown) if table[name].dtype == pl.String)
    parts = {section.heading or section.of: table}
    if "kind" in table.columns:
        names = dict(audit.coverage.select("kind", "name").iter_rows())
        kinds = table["kind"].unique(maintain_order=True)
        parts = {names[kind]: table.filter(kind=kind) for kind in kinds}
    for caption, part in parts.items():
        rows = tuple(tuple(_cell(row, name) for name in shown) for row in part.to_dicts())
        yield Table(caption, header, rows, words, folded=section.folded)
