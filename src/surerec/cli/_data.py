"""Commands about data: list, fetch, describe."""

from __future__ import annotations

from typing import Annotated

import typer

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages, stdout
from surerec.cli._reading import Reader, reads_data
from surerec.datasets import CATALOGUE, fetch, load_dataset
from surerec.precedence import count_precedence, strongest_pairs

datasets_app = typer.Typer(help="Named data sets: list them, or fetch one into the cache.")


@datasets_app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context) -> None:
    """List the named data sets: counts (the paper's beside them), sources, licence."""
    if context.invoked_subcommand is None:
        _show.catalogue(stdout(), CATALOGUE.values())


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
    _show.fetched(stdout(), CATALOGUE[name], fetched, load_dataset(name))


@reads_data
def describe(
    data: Reader,
    *,
    ties: opt.Ties = "order",
    pairs: Annotated[int, typer.Option(min=0, help="How many of the strongest pairs to show.")] = 5,
) -> None:
    """Read a ratings file and say what it holds, with the strongest precedence pairs.

    [bold]Examples:[/bold]

    surerec describe ratings.csv

    surerec describe u.data --columns user_id,item_id,rating,timestamp

    surerec describe log.csv --user visitor --item page --time seen --skip-bad
    """
    interactions = data()
    _show.interactions(stdout(), interactions)
    if pairs:
        statistics = count_precedence(interactions, ties=ties)
        _show.pairs(stdout(), interactions, strongest_pairs(statistics, pairs))
    source, *options = data.words()
    if ties != "order":
        options += ["--ties", ties]
    steps = {("surerec", "fit", source, "FOLDER", *options): "makes a model of it in FOLDER"}
    _show.next_steps(messages(), steps)
