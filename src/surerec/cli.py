"""The command line: one thin command per job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from surerec import __version__, _show
from surerec.datasets import CATALOGUE, fetch, load_dataset
from surerec.demo import run_demo
from surerec.errors import SurerecError
from surerec.interactions import Interactions, read_interactions
from surerec.precedence import count_precedence, strongest_pairs

__all__ = ["app", "main"]

app = typer.Typer(
    name="surerec",
    help="Recommendation sets with a confidence that you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
datasets_app = typer.Typer(help="Named data sets: list them, or fetch one into the cache.")
app.add_typer(datasets_app, name="datasets")


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer's callback
    if wanted:
        typer.echo(f"surerec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@datasets_app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context) -> None:
    """List the named data sets: counts (the paper's beside them), sources, licence."""
    if context.invoked_subcommand is None:
        _show.catalogue(_stdout(), CATALOGUE.values())


@datasets_app.command("fetch")
def fetch_dataset(
    name: Annotated[str, typer.Argument(help="A name that `surerec datasets` lists.")],
    *,
    force: Annotated[bool, typer.Option(help="Fetch it anew even if the cache has it.")] = False,
) -> None:
    """Download a data set into the cache, verify it, and say what it holds.

    [bold]Example:[/bold] surerec datasets fetch ml-100k
    """
    fetched = fetch(name, force=force)
    _show.fetched(_stdout(), CATALOGUE[name], fetched, load_dataset(name))


@app.command()
def describe(
    data: Annotated[
        str, typer.Argument(help="A ratings file, or a name that `surerec datasets` lists.")
    ],
    *,
    columns: Annotated[
        str | None,
        typer.Option(help="Names of all columns, with commas, of a file without a header."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="The column of users.")] = None,
    item: Annotated[str | None, typer.Option(help="The column of items.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of times.")] = None,
    rating: Annotated[str | None, typer.Option(help="The column of ratings.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Only ratings above it count; 0 if not given.")
    ] = None,
    min_profile_length: Annotated[int, typer.Option(help="Leave out users with fewer items.")] = 1,
    time_format: Annotated[
        str | None,
        typer.Option(help="Unit of numbers (s, ms, us, ns), or a pattern such as %d.%m.%Y."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Drop and count rows that cannot be used.")
    ] = False,
    ties: Annotated[
        Literal["order", "strict"],
        typer.Option(help="Do items of one instant precede each other in the file's order?"),
    ] = "order",
    pairs: Annotated[int, typer.Option(min=0, help="How many of the strongest pairs to show.")] = 5,
) -> None:
    """Read a ratings file and say what it holds, with the strongest precedence pairs.

    [bold]Examples:[/bold]

    surerec describe ratings.csv

    surerec describe u.data --columns user_id,item_id,rating,timestamp

    surerec describe log.csv --user visitor --item page --time seen --skip-bad
    """
    reading = {
        "columns": columns.split(",") if columns else None,
        "user": user,
        "item": item,
        "time": time,
        "rating": rating,
        "threshold": threshold,
        "time_format": time_format,
    }
    interactions = _read(
        data,
        min_profile_length=min_profile_length,
        skip_bad=skip_bad,
        **{key: value for key, value in reading.items() if value is not None},
    )
    _show.interactions(_stdout(), interactions)
    if pairs:
        statistics = count_precedence(interactions, ties=ties)
        _show.pairs(_stdout(), interactions, strongest_pairs(statistics, pairs))


@app.command()
def demo() -> None:
    """Show on real data who takes what before what."""
    run_demo(_stdout())


def _read(data: str, **reading: Any) -> Interactions:
    """Read a file; a word that is no file is the name of a data set."""
    if data in CATALOGUE and not Path(data).exists():
        return load_dataset(data, **reading)
    if not Path(data).exists() and "." not in data and "/" not in data:
        return load_dataset(data, **reading)  # says which names are near
    return read_interactions(data, name=Path(data).name, **reading)


def _stdout() -> Console:
    console = Console()
    # Into a file or pipe there is no screen to fit into.
    return console if console.is_terminal else Console(width=160)


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 2."""
    messages = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        app()
    except SurerecError as error:
        messages.print(f"[bold red]Error:[/bold red] {_show.plain(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        messages.print("Interrupted; nothing half-done is left behind.")
        sys.exit(130)
