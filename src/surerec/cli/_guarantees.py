"""The command that shows whether promises over users hold, and what their sets cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._guarantee_tables import HEADINGS, Asked, Tables, tables_wanted, views_of
from surerec.cli._output import make_folder, messages, stdout, write_aside, write_frame
from surerec.cli._reading import Reading, takes_reading
from surerec.datasets import synthetic
from surerec.errors import InputError
from surerec.experiments.guarantees import Reliability, item_reliabilities
from surerec.measures import MEASURES
from surerec.reports import FLOOR_NOTE, size_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl
    from rich.console import Console

    from surerec.interactions import Interactions


_SHOWN = 3  # diagrams side by side


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
    as_of: Annotated[
        bool | None,
        typer.Option(
            "--as-of/--hindsight",
            help="Only point-in-time (counts up to the start of each user's block of the calendar, "
            "at most 12), or only hindsight (counts of all of the data, fitted once). Both if not "
            "given.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A folder for the tables as CSV, and the diagrams.")
    ] = None,
) -> None:
    """Show whether promises over users hold on data, and how large their sets are.

    new-users: a model is fitted on half of the users and asked about the others by their histories;
    what they miss, at several ε, decides. misses: the faster leave-one-out estimate of the same,
    on users who did not calibrate. sizes: set sizes at equal miss
    rates, beside the paper's per-user p-values. hits: hit rates and list lengths, beside plain
    popularity. calendar: models of several ages. slates: are the probabilities of a hit calibrated?
    probabilities: and those of items? precision, precision-calendar: is what was promised of short
    lists delivered, to other users and in the next window? lists: miss rates among listed items.

    Tables by profile show point-in-time first, then hindsight. Below the floor, the smallest ε that
    can be guaranteed, the floor stands in place of a size.

    [bold]Examples:[/bold]

    surerec guarantees ml-100k ml-1m --table new-users --table sizes

    surerec guarantees ml-1m drifting --table calendar --measure CM12

    surerec guarantees ml-1m --table sizes --measure learned --as-of

    surerec guarantees log.csv --user visitor --item page --time seen --table misses
    """
    wanted = tables_wanted(table, as_of=as_of)
    scorers = measure or list(MEASURES)
    sources = {opt.source_name(name): _source(name, reading) for name in data}
    if output is not None:
        make_folder(output)
    console = stdout()
    for name, interactions in sources.items():
        console.rule(f"[bold]{_show.plain(name)}[/bold]", align="left")
        console.print("Every share is of items new to the user.", highlight=False)
        if interactions.rows_read.repeats:
            console.print(f"{interactions.rows_read.about_repeats()}.", highlight=False)
        asked = Asked(interactions, scorers, users, splits, window, windows, views_of(as_of))
        for kind, found in _shown(console, asked, wanted, named=bool(table)):
            if output is not None:
                write_frame(found, "csv", output / f"{kind}-{Path(name).name}.csv")
                if kind is Tables.slates:
                    _draw(found, name, output)
                if kind is Tables.probabilities:
                    _draw_items(interactions, scorers, users, name, output)
    if output is not None:
        messages().print(f"Wrote the tables to {_show.plain(str(output))}.")


def _shown(
    console: Console, asked: Asked, wanted: list[Tables], *, named: bool
) -> Iterator[tuple[Tables, pl.DataFrame]]:
    """Print table after table; of those that nobody named, say why these data do not have it."""
    impossible = 0
    for kind in wanted:
        try:
            found = asked.table(kind)
        except InputError as error:
            impossible += 1
            if named or impossible == len(wanted):
                raise
            console.print(f"[bold]{HEADINGS[kind]}[/bold]", highlight=False)
            console.print(f"None here: {_show.plain(str(error))}\n", highlight=False)
            continue
        console.print(f"[bold]{HEADINGS[kind]}[/bold]", highlight=False)
        for said in asked.about():
            console.print(_show.plain(said), highlight=False)
        _print(console, found)
        yield kind, found


def _draw(found: pl.DataFrame, name: str, output: Path) -> None:
    """Draw the slates' reliability, where matplotlib is installed."""
    try:
        from surerec.experiments.guarantees.figures import (  # noqa: PLC0415  # an extra
            reliability_diagram,
        )
    except ImportError:
        messages().print("No diagram: it needs `pip install 'surerec[plots]'`.")
        return
    first = found.filter(view=found["view"][0]).drop("view")
    errors = dict(first.select("scorer", "calibration error").iter_rows())
    by_scorer = {
        scorer: Reliability(first.filter(scorer=scorer).drop("scorer", "calibration error"), error)
        for scorer, error in errors.items()
    }
    shown = dict(sorted(by_scorer.items(), key=lambda item: item[1].calibration_error)[:_SHOWN])
    title = f"{name}: one of 10 items among the next 5, {found['view'][0]}"
    drawn = reliability_diagram(shown, title)
    for kind, content in drawn.items():
        with write_aside(output / f"slates-{Path(name).name}.{kind}") as file:
            file.write(content)


def _source(name: str, reading: Reading) -> Interactions:
    if name == "drifting":
        return synthetic(n_users=3000, n_items=1000, n_rows=150_000, drift=0.5, seed=1)
    return opt.read(name, **reading)


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


def _print(console: Console, frame: pl.DataFrame) -> None:
    table = Table(*frame.columns, box=None, header_style="bold", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in frame.iter_rows(named=True):
        table.add_row(*_cells(row))
    console.print(table, highlight=False)
    if "floor" in frame.columns and any(None in row for row in frame.drop("floor").iter_rows()):
        console.print(FLOOR_NOTE, highlight=False)
    console.print()


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = []
    for name, value in row.items():
        if "floor" in row and (name == "floor" or value is None):
            cells.append(size_cell(None, row["floor"]))
        elif isinstance(value, float):  # a size or a rate
            cells.append(f"{value:,.0f}" if value >= 5 else f"{value:.3f}")  # noqa: PLR2004
        else:
            cells.append(_show.plain(str(value)))
    return cells
