"""The command that shows whether promises over users hold, and what their sets cost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer
from rich.table import Table

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import make_folder, messages, stdout, write_aside, write_frame
from surerec.cli._reading import Reading, takes_reading
from surerec.datasets import synthetic
from surerec.evaluation import Calendar
from surerec.experiments.guarantees import (
    Reliability,
    calendar_table,
    hits_table,
    item_reliabilities,
    lists_table,
    misses_table,
    observe_all,
    per_user_sizes,
    precision_calendar_table,
    precision_table,
    sizes_table,
    slate_reliability,
)
from surerec.measures import MEASURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from surerec.interactions import Interactions


_PER_USER = "CM12"
_SHOWN = 3  # diagrams side by side


class Tables(StrEnum):
    """The tables that can be asked for."""

    misses = "misses"
    sizes = "sizes"
    hits = "hits"
    calendar = "calendar"
    slates = "slates"
    probabilities = "probabilities"
    precision = "precision"
    precision_calendar = "precision-calendar"
    lists = "lists"


@takes_reading
def guarantees(
    data: Annotated[
        list[str],
        typer.Argument(
            help="Names of `surerec datasets`, ratings files, or `drifting` for made-up data that "
            "drift."
        ),
    ],
    *,
    table: Annotated[
        list[Tables] | None, typer.Option(help="Which tables; all if not given.")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="Which measures; all if not given.")
    ] = None,
    reading: Reading,
    users: Annotated[int, typer.Option(help="Users looked at in each data set.")] = 2000,
    splits: Annotated[int, typer.Option(help="Random halves of the users.")] = 20,
    window: Annotated[float, typer.Option(help="Days of a window of the calendar.")] = 30,
    windows: Annotated[
        int | None, typer.Option(help="Only the latest so many windows; all if not given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A folder for the tables as CSV, and the diagrams.")
    ] = None,
) -> None:
    """Show whether promises over users hold on data, and how large their sets are.

    misses: miss rates at several ε, on users who did not calibrate. sizes: set sizes at equal miss
    rates, beside the paper's per-user p-values. hits: hit rates and list lengths, beside plain
    popularity. calendar: models of several ages. slates: are the probabilities of a hit calibrated?
    probabilities: and those of items? precision, precision-calendar: is what was promised of short
    lists delivered, to other users and in the next window? lists: miss rates among listed items.

    [bold]Examples:[/bold]

    surerec guarantees ml-100k ml-1m --table misses --table sizes

    surerec guarantees ml-1m drifting --table calendar --measure CM12

    surerec guarantees log.csv --user visitor --item page --time seen --table misses
    """
    wanted = table or list(Tables)
    scorers = measure or list(MEASURES)
    sources = {name: _source(name, reading) for name in data}
    if output is not None:
        make_folder(output)
    console = stdout()
    for name, interactions in sources.items():
        console.rule(f"[bold]{_show.plain(name)}[/bold]", align="left")
        for kind in wanted:
            found = _TABLES[kind](interactions, scorers, users, splits, window, windows)
            console.print(f"[bold]{_HEADINGS[kind]}[/bold]", highlight=False)
            _print(console, found)
            if output is not None:
                write_frame(found, "csv", output / f"{kind}-{Path(name).name}.csv")
                if kind is Tables.slates:
                    _draw(found, name, output)
                if kind is Tables.probabilities:
                    _draw_items(interactions, scorers, users, name, output)
    if output is not None:
        messages().print(f"Wrote the tables to {_show.plain(str(output))}.")


def _draw(found: pl.DataFrame, name: str, output: Path) -> None:
    """Draw the slates' reliability, where matplotlib is installed."""
    try:
        from surerec.experiments.guarantees.figures import (  # noqa: PLC0415  # an extra
            reliability_diagram,
        )
    except ImportError:
        messages().print("No diagram: it needs `pip install 'surerec[plots]'`.")
        return
    errors = dict(found.select("scorer", "calibration error").iter_rows())
    by_scorer = {
        scorer: Reliability(found.filter(scorer=scorer).drop("scorer", "calibration error"), error)
        for scorer, error in errors.items()
    }
    shown = dict(sorted(by_scorer.items(), key=lambda item: item[1].calibration_error)[:_SHOWN])
    drawn = reliability_diagram(shown, f"{name}: one of 10 items among the next 5")
    for kind, content in drawn.items():
        with write_aside(output / f"slates-{Path(name).name}.{kind}") as file:
            file.write(content)


def _source(name: str, reading: Reading) -> Interactions:
    if name == "drifting":
        return synthetic(n_users=3000, n_items=1000, n_rows=150_000, drift=0.5, seed=1)
    return opt.read(name, **reading)


def _misses(
    interactions: Interactions, scorers: list[str], users: int, splits: int, *_: object
) -> pl.DataFrame:
    found = misses_table(observe_all(interactions, scorers, n_users=users), n_splits=splits)
    return found.select(
        "scorer", "cut", "epsilon", pl.col("loss").alias("miss rate"), pl.col("size").alias("items")
    ).pivot(on="epsilon", index=["scorer", "cut"], values=["miss rate", "items"])


def _sizes(interactions: Interactions, scorers: list[str], users: int, *_: object) -> pl.DataFrame:
    observed = list(observe_all(interactions, scorers, n_users=users))
    table = sizes_table(observed).drop("data")
    paper = per_user_sizes(observed[0].outcomes.cases, _PER_USER)
    first = pl.DataFrame([{"scorer": _PER_USER, "cut": "per-user p-values"} | paper])
    return pl.concat([first, table])


def _hits(
    interactions: Interactions, scorers: list[str], users: int, splits: int, *_: object
) -> pl.DataFrame:
    every = [*scorers, "popularity"]
    observed = observe_all(interactions, every, horizon=5, n_users=users)
    return (
        hits_table(observed, n_splits=splits)
        .drop("data")
        .pivot(on="epsilon", index="scorer", values=["hit_rate", "length"])
    )


def _calendar(
    interactions: Interactions,
    scorers: list[str],
    users: int,
    _splits: int,
    window: float,
    windows: int | None,
) -> pl.DataFrame:
    parts = []
    for scorer in scorers:
        calendar = Calendar(window, n_users=users)
        found = calendar_table(interactions, scorer, calendar, n_windows=windows)
        parts.append(
            found.select(pl.lit(scorer).alias("scorer"), pl.all()).pivot(
                on="epsilon",
                index=["scorer", "model", "unknown", "n_test", "n_windows"],
                values=["loss", "size"],
            )
        )
    return pl.concat(parts)


def _slates(interactions: Interactions, scorers: list[str], users: int, *_: object) -> pl.DataFrame:
    rows = []
    for one in observe_all(interactions, scorers, horizon=5, n_users=users):
        found = slate_reliability(one.outcomes)
        head = {"scorer": one.scorer, "calibration error": found.calibration_error}
        rows += [head | bin_ for bin_ in found.bins.to_dicts()]
    return pl.DataFrame(rows)


def _probabilities(
    interactions: Interactions, scorers: list[str], users: int, *_: object
) -> pl.DataFrame:
    found = item_reliabilities(interactions, scorers, n_users=users)
    return pl.concat(
        one.groups.select(pl.lit(name).alias("scorer"), pl.all()) for name, one in found
    )


def _precision(
    interactions: Interactions, scorers: list[str], users: int, splits: int, *_: object
) -> pl.DataFrame:
    observed = observe_all(interactions, scorers, n_users=users)
    return precision_table(observed, n_splits=splits)


def _precision_calendar(
    interactions: Interactions,
    scorers: list[str],
    users: int,
    _splits: int,
    window: float,
    windows: int | None,
) -> pl.DataFrame:
    calendar = Calendar(window, n_users=users)
    return pl.concat(
        precision_calendar_table(interactions, scorer, calendar, n_windows=windows).select(
            pl.lit(scorer).alias("scorer"), pl.all()
        )
        for scorer in scorers
    )


def _lists(
    interactions: Interactions, scorers: list[str], users: int, splits: int, *_: object
) -> pl.DataFrame:
    return lists_table(interactions, scorers, n_users=users, n_splits=splits)


def _draw_items(
    interactions: Interactions, scorers: list[str], users: int, name: str, output: Path
) -> None:
    """Draw the reliability of each scorer's probabilities, where matplotlib is installed."""
    try:
        from surerec.experiments.guarantees.figures import (  # noqa: PLC0415  # an extra
            item_diagram,
        )
    except ImportError:
        messages().print("No diagram: it needs `pip install 'surerec[plots]'`.")
        return
    for scorer, found in item_reliabilities(interactions, scorers, n_users=users):
        write_frame(found.bins, "csv", output / f"reliability-{scorer}-{Path(name).name}.csv")
        drawn = item_diagram(found, f"{name}, {scorer}: is an item taken as often as was said?")
        for kind, content in drawn.items():
            with write_aside(output / f"probabilities-{scorer}-{Path(name).name}.{kind}") as file:
                file.write(content)


_TABLES: dict[Tables, Callable[..., pl.DataFrame]] = {
    Tables.misses: _misses,
    Tables.sizes: _sizes,
    Tables.hits: _hits,
    Tables.calendar: _calendar,
    Tables.slates: _slates,
    Tables.probabilities: _probabilities,
    Tables.precision: _precision,
    Tables.precision_calendar: _precision_calendar,
    Tables.lists: _lists,
}


_HEADINGS = {
    Tables.misses: "Share missed and items in the set at each ε, on users who did not calibrate",
    Tables.sizes: "Items in the set at equal mean miss rates",
    Tables.hits: "Hits among the next 5 items, promised with 1 − ε, and the length of the list",
    Tables.calendar: "Share missed at each ε as the calendar moves on; unknown: new to the model",
    Tables.slates: "Probability that one of the 10 best is among the next 5: said and happened",
    Tables.probabilities: "Probability of each item: said and happened, on other users",
    Tables.precision: "Precision promised with confidence 0.9, and delivered to other users",
    Tables.precision_calendar: "Precision promised with 0.9, and delivered in the next window",
    Tables.lists: "Share missed at each ε of the listed items that people took, on other users",
}


def _print(console: Console, frame: pl.DataFrame) -> None:
    table = Table(*frame.columns, box=None, header_style="bold", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in frame.iter_rows():
        table.add_row(*_cells(row))
    console.print(table, highlight=False)
    console.print()


def _cells(row: Iterable[object]) -> list[str]:
    return [
        (f"{value:,.0f}" if value >= 5 else f"{value:.3f}")  # noqa: PLR2004  # sizes and rates
        if isinstance(value, float)
        else _show.plain(str(value))
        for value in row
    ]
