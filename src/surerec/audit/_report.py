"""The audit as a page and as a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from surerec._files import check_utf8, folder_aside
from surerec._inputs import damage_in_words
from surerec._shown import counted
from surerec.audit._new_users import NEW
from surerec.audit._segments import delivered
from surerec.audit._verdicts import HEADLINE, at_headline, falls_short, percent, with_interval
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
)
from surerec.reports import to_html as page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.audit._findings import Findings
    from surerec.calibration import Horizon
    from surerec.reports import Block


_MARK = "report.html"
_ALT = (
    "Left: delivered against promised coverage of items new to the user, for each kind of "
    "guarantee, with intervals and the diagonal. Right: delivered coverage window by "
    "window for models of several ages."
)


def to_html(audit: Findings) -> str:
    """Give the report as one page."""
    require_plots()
    return _page(audit, _figures(audit))


def _figures(audit: Findings) -> dict[str, dict[str, bytes]]:
    """Draw the figures: by name, in every format."""
    from surerec.audit._figure import (  # noqa: PLC0415  # an extra
        draw,
        draw_probabilities,
        draw_segments,
    )

    if not audit.verdicts:
        return {}
    drawn = {
        "audit": draw(audit),
        "segments": draw_segments(audit),
        "probabilities": draw_probabilities(audit),
    }
    return {name: formats for name, formats in drawn.items() if formats}


def _page(audit: Findings, figures: Mapping[str, Mapping[str, bytes]]) -> str:
    title = f"Does the guarantee hold? {audit.subject} on {audit.data}"
    return page(title, _blocks(audit), {name: each["svg"] for name, each in figures.items()})


def write(audit: Findings, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write report.html, the figure and the tables; the folder appears when it is complete."""
    require_plots()
    target = Path(folder)
    check_target(target, overwrite=overwrite)
    figures = _figures(audit)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with folder_aside(target) as aside:
            (aside / _MARK).write_text(_page(audit, figures), encoding="utf-8")
            for name, formats in figures.items():
                for ending, content in formats.items():
                    (aside / f"{name}.{ending}").write_bytes(content)
            for name, table in audit.tables().items():
                table.write_csv(aside / f"{name}.csv")
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}).") from error


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse to write over what is no audit, or an audit that nobody said to replace."""
    check_utf8(target)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; name a folder.")
    with damage_in_words(target, "cannot be looked into"):
        if not target.exists() or not any(target.iterdir()):
            return
    tables = ("verdicts.csv", "known.csv")  # the second alone where there were too few users
    is_audit = (target / _MARK).exists() and any((target / name).exists() for name in tables)
    if not is_audit:
        raise InputError(f"{target}: holds something else than an audit; name another folder.")
    if not overwrite:
        raise InputError(f"{target}: holds an audit; name another folder, or say overwrite.")


def _blocks(audit: Findings) -> list[Block]:
    known: list[Block] = [Heading("What is known of the data"), Bullets(tuple(audit.known))]
    findings: list[Block] = []
    if audit.findings:
        findings = [Heading("Findings"), Bullets(tuple(audit.findings))]
    if not audit.verdicts:
        not_tested = Bullets(tuple(audit.skipped))
        return [Paragraph(audit.overall), *findings, *known, Heading("Not tested"), not_tested]
    blocks: list[Block] = [
        Paragraph(audit.overall),
        *findings,
        Paragraph(_about(audit)),
        Picture("audit", _caption(audit), _ALT),
        Heading("Verdicts"),
        Verdicts(
            tuple((v.name, v.verdict, _after_name(v.sentence, v.name), ()) for v in audit.verdicts)
        ),
        *_new_user_section(audit),
        Heading("Promised and delivered"),
        Paragraph(
            "Delivered is 1 − the share of later items, new to the user, that was left out, as a "
            "mean over users; for a hit, the share of users with one. Intervals are Wilson's, over "
            "users, of the five levels together with 95 %; over the calendar they are t intervals "
            "over windows."
        ),
        _coverage_table(audit.coverage),
        _size_table(audit.coverage),
        *([Paragraph(FLOOR_NOTE)] if audit.coverage["size"].has_nulls() else []),
        *([Bullets(tuple(audit.notes))] if audit.notes else []),
    ]
    if len(audit.drift):
        blocks += _drift_section(audit.drift)
    if audit.segments is not None:
        blocks += _segment_section(audit, audit.segments)
    if len(audit.groups):
        blocks += _group_section(audit)
    if audit.probabilities is not None:
        blocks += _probability_section(audit.probabilities)
    if audit.together is not None:
        blocks += _together_section(audit.together)
    if audit.calendar is not None:
        blocks += _calendar_section(audit)
    if audit.skipped:
        blocks += [Heading("Not audited"), Bullets(tuple(audit.skipped))]
    return blocks + known


def _new_user_section(audit: Findings) -> list[Block]:
    """Return nominal beside observed for new users, and what differs from calibration users."""
    kinds = audit.coverage.filter(pl.col("kind").str.starts_with(NEW))
    if not len(kinds):
        return []
    rows = tuple(
        (
            row["name"].removeprefix("New users: "),
            f"{row['epsilon']:g}",
            Strong(observed) if row["verdict"] == "does not hold" else observed,
            "below the floor" if row["size"] is None else f"{row['size']:,.0f}",
            f"{row['floor']:.3f}",
            f"{row['n']:,}",
        )
        for row in kinds.to_dicts()
        if (observed := _observed(row))
    )
    header = ("guarantee", "nominal ε", "observed", "set size", "floor", "new users")
    blocks: list[Block] = [
        Heading("New users"),
        Paragraph(
            "The new-user test decides. A model is fitted on half of the users and asked about the "
            "others by their histories: catalogue, counts and thresholds are made without them. "
            "An item that the model does not know counts as missed. Intervals include calibration "
            "and new users, and hold together with 95%. The floor is the smallest ε that the "
            "model guarantees."
        ),
        Table(
            "Nominal and observed loss of new users, of items new to the user",
            header,
            rows,
            words=frozenset({0}),
        ),
    ]
    if audit.support is not None:
        blocks += _support_section(audit.support, audit.ranking)
    return blocks


def _observed(row: Mapping[str, Any]) -> str:
    if row["size"] is None:
        return f"{1 - row['delivered']:.3f}"
    return f"{1 - row['delivered']:.3f} [{1 - row['high']:.3f}–{1 - row['low']:.3f}]"


def _support_section(support: pl.DataFrame, ranking: pl.DataFrame | None) -> list[Block]:
    rows = tuple(
        (
            row["other_users"],
            _share(row["calibration"]),
            _share(row["new"]),
            _share(row["gap"]),
            _share(row["standard_error"]),
            f"{row['n_calibration']:,}",
            Strong(f"{row['n_new']:,}, leak") if row["leak"] else f"{row['n_new']:,}",
        )
        for row in support.to_dicts()
    )
    header = ("other users", "calibration users", "new users", "gap", "standard error",
              "items, calibration", "items, new")  # fmt: skip
    blocks: list[Block] = [
        Paragraph(
            "A calibration user is left out of the scores. Their items should therefore be ranked "
            "as equally rare items of new users are. A row in which new users miss more is a leak "
            "of the user's own data into the score."
        ),
        Table(
            "Missed at ε = 0.1, by the number of other users who consumed the item",
            header, rows, words=frozenset({0}),
        ),
    ]  # fmt: skip
    if ranking is None:
        return blocks
    rows = tuple(
        (
            f"{row['split'] + 1}",
            _share(row["precision@10 calibration"]),
            _share(row["precision@10 new"]),
            _share(row["standard_error"]),
            f"{row['own_only_items']:,}",
            _share(row["own_only_ranked"]),
            "–" if row["own_only_mean_rank"] is None else f"{row['own_only_mean_rank']:,.0f}",
        )
        for row in ranking.to_dicts()
    )
    header = ("split", "precision@10, calibration", "precision@10, new", "standard error",
              "items nobody else consumed", "share ranked", "mean rank")  # fmt: skip
    return [*blocks, Table("Rankings of calibration users and new users", header, rows)]


def _share(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.3f}"  # noqa: PLR0124  # NaN


def _after_name(sentence: str, name: str) -> str:
    said = sentence.removeprefix(f"{name}: ")
    return said[:1].upper() + said[1:]


def _about(audit: Findings) -> str:
    settings = audit.settings
    window = "" if settings["window"] is None else f", windows of {settings['window']:g} days"
    return (
        f"{settings['n_users']:,} random users; for user-level promises halved "
        f"{settings['n_splits']} times at random, each half tested with the other's threshold; "
        f"the future is {_future(settings['horizon'])}, and for a hit "
        f"{_future(settings['hit_horizon'])}{window}; seed {settings['seed']}."
    )


def _future(horizon: Horizon) -> str:
    if isinstance(horizon, float):
        return f"the last {percent(horizon)} of a profile"
    return f"the last {horizon} items"


def _caption(audit: Findings) -> str:
    left = (
        "Points below the dotted line deliver less than promised; intervals that reach it may be "
        "chance."
    )
    if audit.calendar is None:
        return left
    return (
        f"Left: {left[0].lower()}{left[1:]} Right: at {percent(1 - HEADLINE)}, what models "
        "of several ages delivered in each window."
    )


def _coverage_table(coverage: pl.DataFrame) -> Table:
    rows = []
    for name, part in _by_name(coverage):
        cells = [
            Strong(with_interval(row)) if row["verdict"] == "does not hold" else with_interval(row)
            for row in part
        ]
        rows.append((name, *cells, counted(part[0]["n"], part[0]["unit"])))
    promised = [percent(row["promised"]) for row in _by_name(coverage)[0][1]]
    caption = (
        "Delivered of items new to the user where this much was promised; bold falls short by more "
        "than chance"
    )
    return Table(caption, ("", *promised, "over"), tuple(rows))


def _size_table(coverage: pl.DataFrame) -> Table:
    found = _by_name(coverage)
    rows = tuple(
        (name, *(size_cell(row["size"], row["floor"]) for row in part)) for name, part in found
    )
    header = ("", *(percent(row["promised"]) for row in found[0][1]))
    return Table("Mean set sizes, in items", header, rows)


def _by_name(coverage: pl.DataFrame) -> list[tuple[str, list[dict[str, Any]]]]:
    names = coverage["name"].unique(maintain_order=True)
    return [(name, coverage.filter(pl.col("name") == name).to_dicts()) for name in names]


def _drift_section(drift: pl.DataFrame) -> list[Block]:
    rows = tuple(
        (row["test"], row["order"], f"{row['n']:,}", f"{row['statistic']:.3g}", row["meaning"])
        for row in drift.to_dicts()
    )
    return [
        Heading("Do later items conform as earlier ones did?"),
        Paragraph(
            "If a person's items are exchangeable, smoothed p-values are uniform, of calibration "
            "items among themselves as of later items. The Kolmogorov–Smirnov tests take one item "
            "of each person. The martingale is the capital of somebody who bets against uniform "
            "p-values, item after item in time order: it ever reaches 1/α with probability at most "
            "α. In random order, where items are exchangeable, nothing should be found."
        ),
        Table("Tests", ("test", "order", "p-values", "statistic", "meaning"), rows,
              words=frozenset({0, 1, 4})),
    ]  # fmt: skip


def _group_section(audit: Findings) -> list[Block]:
    shown = at_headline(audit.groups)
    names = {row["kind"]: row["name"] for row in audit.coverage.to_dicts()}
    blocks: list[Block] = [
        Heading("Weak spots"),
        Paragraph(
            f"A promise over everyone says nothing of a group: here is what each was delivered of "
            f"{percent(1 - HEADLINE)}. Items of one popularity are no group of people, and no "
            "threshold can promise anything for them; the table shows whom the misses hit."
        ),
    ]
    for kind in shown["kind"].unique(maintain_order=True):
        rows = tuple(map(_group_row, shown.filter(pl.col("kind") == kind).to_dicts()))
        header = ("by", "group", "delivered", "set size", "users", "later items")
        blocks.append(Table(names[kind], header, rows, words=frozenset({0, 1})))
    if len(audit.mondrian):
        rows = tuple(map(_mondrian_row, at_headline(audit.mondrian).to_dicts()))
        blocks += [
            Paragraph(
                "Mondrian calibration sets a threshold for each group by known items, so that the "
                "promise holds in each; the set sizes say what that costs."
            ),
            Table(
                f"One threshold for all, or one a group, at {percent(1 - HEADLINE)}",
                ("cut", "group", "users", "common", "set size", "own", "set size"),
                rows,
                words=frozenset({0, 1}),
            ),
        ]
    return blocks


def _segment_section(audit: Findings, found: pl.DataFrame) -> list[Block]:
    shown = at_headline(found)
    column = shown["column"][0]
    names = {row["kind"]: row["name"] for row in audit.coverage.to_dicts()}
    own = (
        f"The recommender guarantees the nominal level in each {column}."
        if shown["guaranteed"].any()
        else f"The recommender guarantees the nominal level over all users, not in each {column}."
    )
    blocks: list[Block] = [
        Heading(f"Segments by {column}"),
        Paragraph(
            f"{own} Intervals hold together over segments and levels with 95% (Bonferroni); bold "
            "lies below nominal. segments.csv has every level."
        ),
        Picture(
            "segments",
            f"Observed level of each {column}, with intervals; nominal {percent(1 - HEADLINE)}.",
            "A line for each segment with its observed level and interval, beside the nominal one.",
        ),
    ]
    header = (column, "nominal", "observed", "mean set size", "median set size", "users")
    for kind in shown["kind"].unique(maintain_order=True):
        rows = tuple(map(segment_cells, shown.filter(pl.col("kind") == kind).to_dicts()))
        marked = tuple(
            (*row[:2], Strong(row[2]) if below else row[2], *row[3:])
            for row, below in zip(rows, shown.filter(pl.col("kind") == kind)["below"], strict=True)
        )
        blocks.append(Table(names[kind], header, marked, words=frozenset({0})))
    return blocks


def segment_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a segment: name, nominal, observed, set sizes, users."""
    pooled = f" ({counted(row['n_pooled'], 'segments')})" if row["n_pooled"] else ""
    return (
        f"{row['segment']}{pooled}",
        percent(row["nominal"]),
        with_interval(delivered(dict(row))),
        size_cell(row["mean_size"], row["floor"]),
        size_cell(row["median_size"], row["floor"]),
        f"{row['n_users']:,}",
    )


def _group_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    delivered = with_interval(row)
    return (
        row["by"],
        row["group"],
        Strong(delivered) if falls_short(row) else delivered,
        size_cell(row["size"], row["floor"]),
        f"{row['n_users']:,}",
        f"{row['n_items']:,}",
    )


def _mondrian_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    cells = [row["kind"].removeprefix("miss-"), row["group"], f"{row['n_users']:,}"]
    for which in ("common", "own"):
        ends = {end: row[f"{which}_{end}"] for end in ("delivered", "low", "high")}
        cells += [with_interval(ends), size_cell(row[f"{which}_size"], row[f"{which}_floor"])]
    return tuple(cells)


def _calendar_section(audit: Findings) -> list[Block]:
    assert audit.calendar is not None  # noqa: S101  # it is only called if there is one
    rows = tuple(
        (
            row["window"],
            row["model"],
            Strong(percent(row["delivered"], 1)) if row["below"] else percent(row["delivered"], 1),
            size_cell(row["size"], row["floor"]),
            f"{row['n_calibration']:,}",
            f"{row['n_test']:,}",
            percent(row["unknown"], 1),
        )
        for row in at_headline(audit.calendar).to_dicts()
    )
    header = ("window", "model", "delivered", "set size", "calibrated on", "tested on",
              "unknown items")  # fmt: skip
    return [
        Heading("Over the calendar"),
        Paragraph(
            f"Windows of {audit.settings['window']:g} days. A model is counted up to one date and "
            "calibrated on what people took in the window after it; then it serves a window that "
            "follows, at once or later. Items that came up in between are unknown to it, and count "
            "as missed."
        ),
        Table(
            f"Each window at {percent(1 - HEADLINE)}; bold falls short by more than chance",
            header, rows, words=frozenset({0, 1}), folded=True,
        ),
    ]  # fmt: skip


def _together_section(found: pl.DataFrame) -> list[Block]:
    rows = tuple(
        (
            row["promise"],
            f"{row['size']}",
            Strong(with_interval(row)) if row["verdict"] == "does not hold" else with_interval(row),
            size_cell(row["items"], row["floor"]),
            percent(row["members"], 1),
            percent(row["least_served"], 1),
            f"{row['n_groups']:,}",
            f"{row['n_without']:,}",
        )
        for row in at_headline(found).sort("promise", "size", maintain_order=True).to_dicts()
    )
    header = ("promise", "members", "delivered", "set size", "a member's own", "the least served",
              "groups", "without")  # fmt: skip
    return [
        Heading("Groups who choose together"),
        Paragraph(
            "Random groups of the audited users, ranked by the members' mean value with all of "
            "them left out, and halved as users are. Delivered is what is promised to the group; "
            "beside it what members got of their own next items, on average and the one who got "
            "least, which nothing but the promise to the worst-served looks after. Groups that "
            "took no such item do not count."
        ),
        Table(f"At {percent(1 - HEADLINE)}", header, rows, words=frozenset({0})),
    ]


def _probability_section(found: pl.DataFrame) -> list[Block]:
    rows = tuple(
        (
            row["by"],
            row["group"],
            percent(row["said"], 1),
            percent(row["happened"], 1),
            f"{row['calibration_error']:.4f}",
            f"{row['noise']:.4f}",
            f"{row['log_loss']:.4f}",
            f"{row['log_loss_by_rank']:.4f}",
        )
        for row in found.to_dicts()
    )
    header = ("by", "items", "said", "happened", "calibration error", "its noise", "log loss",
              "by rank alone")  # fmt: skip
    return [
        Heading("Probabilities of items"),
        Paragraph(
            "Half of the users calibrate the probability that an item is taken, and the 1,000 best "
            "items of each of the others are looked at. The calibration error is the mean distance "
            "between said and happened in 15 bins of equal mass; its noise is what it would be for "
            "faultless probabilities, as so few users were seen. The log loss stands beside that "
            "of a table by rank alone."
        ),
        Picture(
            "probabilities",
            "Said against happened; on the grey line both are the same. Bars are two standard "
            "errors over users.",
            "The share of items that was taken against the probability that was said, in 15 bins, "
            "for all items, the ten best, and by known items, popularity and rank.",
        ),
        Table("Said and happened", header, rows, words=frozenset({0, 1})),
    ]
