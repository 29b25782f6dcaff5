"""The command that plays history as a stream."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003  # typer reads the types
from time import perf_counter
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages, stdout
from surerec.cli._reading import Reader, reads_data
from surerec.errors import InputError
from surerec.measures import as_recipe
from surerec.reports import require_plots


@reads_data
def replay_data(
    data: Reader,
    *,
    begin: Annotated[
        str, typer.Option("--from", help="The day on which the stream begins, as 2013-07-01.")
    ],
    output: Annotated[Path, typer.Option(help="A folder for the picture and the tables.")],
    measure: Annotated[str, typer.Option(help="Which of `surerec measures`.")] = "CM12",
    cut: Annotated[Literal["rank", "score"], typer.Option(help="Where sets are cut.")] = "score",
    renew: Annotated[float, typer.Option(help="Days after which it is counted anew.")] = 3.0,
    retrain: Annotated[
        float, typer.Option(help="Days for which what a measure learned is kept.")
    ] = 30.0,
    window: Annotated[float, typer.Option(help="Days of events that calibrate.")] = 30.0,
    step: Annotated[float, typer.Option(help="How far one error moves a cut.")] = 0.01,
    min_known: Annotated[
        int, typer.Option(help="Judge only events of people of whom so much is known.")
    ] = 5,
    ties: opt.Ties = "order",
) -> None:
    """Play history as a stream: what a static, a recalibrated and a live model would have kept.

    [bold]Example:[/bold] surerec replay ml-1m --from 2001-01-01 --output played
    """
    from surerec.live import (  # noqa: PLC0415  # only this command needs it
        Playing,
        check_replay_target,
        replay,
        summary_of,
        write_replay,
    )

    require_plots()
    check_replay_target(output)
    as_recipe(measure)
    playing = Playing(
        cut=cut,
        renew=renew,
        retrain=retrain,
        window=window,
        step=step,
        min_known=min_known,
        ties=ties,
    )
    first, clock = _instant(begin), perf_counter()
    played = replay(data(), first, measure, playing=playing)
    write_replay(played, output)
    table = Table("ε", "Model", box=None, header_style="bold", pad_edge=False)
    for name in (
        "Outside",
        "Of all events",
        "Worst window",
        "Size",
        "Of recalibrated",
        "All or nothing",
        "Alarm",
    ):
        table.add_column(name, justify="right")
    for row in summary_of(played).to_dicts():
        table.add_row(*_cells(row))
    stdout().print(table, highlight=False)
    messages().print(
        f"Played {len(played.times):,} judged events in {perf_counter() - clock:.0f} s; wrote "
        f"{_show.plain(str(output))}."
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    worst = "–" if row["worst_window"] is None else f"± {row['worst_window']:.4f}"
    alarm = row["first_alarm"] or "–"
    numbers = f"{row['size']:.1f}", f"{row['size_ratio']:.3f}", f"{row['all_or_nothing']:.2%}"
    outside = f"{row['outside']:.4f}", f"{row['outside_events']:.4f}"
    return f"{row['epsilon']:g}", row["model"], *outside, worst, *numbers, alarm


def _instant(day: str) -> int:
    try:
        moment = datetime.fromisoformat(day)
    except ValueError:
        raise InputError(f"--from is {day!r}; it must be a day such as 2013-07-01.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000
