"""The demonstration that `make demo` runs: real data, real people, real times."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import numpy as np
import typer
from rich.table import Table

from surerec.calibration import observe, profile_cases
from surerec.cli import _show
from surerec.cli._output import stdout
from surerec.cli._serve import require_serving, serve_model
from surerec.datasets import load_dataset, synthetic
from surerec.errors import FetchError
from surerec.evaluation import coverage_over_splits
from surerec.precedence import count_precedence, strongest_pairs
from surerec.recommenders import (
    InductiveConformal,
    PopulationConformal,
    make_recommender,
    save_all,
)
from surerec.reports import size_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from surerec.interactions import Interactions


_MEASURE = "CM12"
_CONFIDENCES = (0.5, 0.7, 0.8, 0.9)
_N_PEOPLE = 3
_SERVED = ("population-cm12", "hit-cm12", "icrs12", "precedence-mining")
_N_HELD_OUT = 200


def demo(
    *,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the demonstration's model, and open its page.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="The page's port, with --serve; 0 takes a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, with --serve.")
    ] = True,
) -> None:
    """Show real people's recommendation sets, on real data; or serve them as a page.

    [bold]Examples:[/bold]

    surerec demo

    surerec demo --serve
    """
    if serve:
        serve_demo(stdout(), port=port, open_browser=browser)
    else:
        run_demo(stdout())


def run_demo(console: Console) -> None:
    """Show what surerec does on MovieLens 100K, or on made-up data where that is out of reach."""
    interactions = _data(console)
    _show.interactions(console, interactions)
    count_precedence(interactions)  # before it is timed: the first run on a machine compiles
    begin = perf_counter()
    statistics = count_precedence(interactions)
    seconds = perf_counter() - begin
    _show.pairs(console, interactions, strongest_pairs(statistics, 4))
    lengths = np.diff(interactions.offsets)
    n_pairs = int((lengths * (lengths - 1) // 2).sum())
    console.print(
        f"\nCounted {n_pairs:,} ordered pairs, in both directions, in {seconds * 1000:.0f} ms.",
        highlight=False,
    )
    model = PopulationConformal(measure=_MEASURE).fit(statistics)
    console.print(
        f"\nCalibrated on the futures of {len(model.calibration_):,} people: a set at 90% "
        f"{model.headline(0.9)}, on average over them.",
        highlight=False,
    )
    for user in _people(interactions):
        _person(console, model, interactions, user)
    _held_out(console, InductiveConformal(measure=_MEASURE).fit(statistics), interactions)
    extra = _show.install("uvicorn", "serve")
    needs = extra and f" (it needs {_show.plain(extra)})"
    console.print(
        "\nMove the confidence yourself: `surerec demo --serve` opens this model as a page"
        f"{needs}.",
        highlight=False,
    )


def serve_demo(console: Console, *, port: int, open_browser: bool) -> None:
    """Fit the demonstration's model, save it in a folder of its own, and serve it."""
    require_serving()
    interactions = _data(console)
    statistics = count_precedence(interactions)
    recommenders = {name: make_recommender(name).fit(statistics) for name in _SERVED}
    with console.status("Calibrating on groups of two, three and four …"):
        recommenders[_SERVED[0]].calibrate_groups((2, 3, 4))
    with TemporaryDirectory(prefix="surerec-demo-") as folder:
        model = Path(folder) / (interactions.name or "demo")
        save_all(model, recommenders)
        somebody = interactions.users[_people(interactions)[1]]
        at = f"#user={quote(str(somebody), safe='')}&confidence=0.8"
        serve_model(model, at=at, open_browser=open_browser, port=port, log_level="warning")


def _data(console: Console) -> Interactions:
    try:
        with console.status("Reading MovieLens 100K …"):
            return load_dataset("ml-100k")
    except FetchError as error:
        console.print(
            "[yellow]MovieLens 100K could not be fetched, so made-up data stand in for it.[/yellow]"
            f"\n  {_show.plain(str(error))}\n",
            highlight=False,
        )
    return synthetic(n_users=943, n_items=1682, n_rows=100_000, seed=1)


def _people(interactions: Interactions) -> list[int]:
    """Pick people with a short, a middling and a long profile."""
    by_length = np.argsort(np.diff(interactions.offsets), kind="stable")
    places = np.linspace(0.1, 0.9, _N_PEOPLE) * (len(by_length) - 1)
    return [int(by_length[int(place)]) for place in places]


def _person(
    console: Console, model: PopulationConformal, interactions: Interactions, code: int
) -> None:
    user = interactions.users[code]
    taken = interactions.taken(code)
    console.rule(f"[bold]User {_show.plain(str(user))}[/bold]", align="left")
    names = ", ".join(_show.plain(interactions.title(int(item))) for item in taken[-4:])
    console.print(f"took {len(taken):,} items, the latest: {names}", highlight=False)
    sets = {at: model.recommend(user, confidence=at) for at in _CONFIDENCES}
    sizes = ", ".join(
        "everything" if picks.everything_qualifies else f"{len(picks):,} at {at:.0%}"
        for at, picks in sets.items()
    )
    console.print(
        f"set sizes, of {sets[0.9].n_candidates:,}: {sizes}",
        highlight=False,
    )
    table = Table("Best at 50%", "Probability", "Because", box=None, header_style="bold")
    for row in sets[0.5].to_frame().head(4).iter_rows(named=True):
        why = model.explain(user, item=row["item_id"]).to_frame().row(0, named=True)
        reason = f"{why['later']:,} of {why['support']:,} who took {why['title']} took it later"
        title = row.get("title") or str(row["item_id"])
        table.add_row(_show.plain(title), f"{row['probability']:.0%}", _show.plain(reason))
    console.print(table, highlight=False)


def _held_out(console: Console, model: InductiveConformal, interactions: Interactions) -> None:
    """Measure how often what people took later was inside the sets made from what came before."""
    rows = list(_later_items(model, interactions))
    over_users = _over_users(model, interactions)
    console.rule("[bold]Does it hold?[/bold]", align="left")
    console.print(
        "Sets made from the first 60% of what people took, tested on the rest. Nothing of theirs "
        "was counted.",
        highlight=False,
    )
    table = Table(
        "Promised", "Over users: inside", "items", "Item by item: inside", "items",
        box=None, header_style="bold",
    )  # fmt: skip
    for place, confidence in enumerate(_CONFIDENCES):
        inside = np.mean([inside[place] for inside, _ in rows])
        size = np.mean([sizes[place] for _, sizes in rows])
        held, items = over_users[place]
        table.add_row(f"{confidence:.0%}", f"{held:.1%}", items, f"{inside:.1%}", f"{size:,.0f}")
    console.print(table, highlight=False)
    console.print(
        "Calibrated over users (PopulationConformal, on half of the people, tested on the others) "
        f"the promise holds. Item by item (the paper's p-values, {len(rows)} people) it assumes "
        "that what comes next is like what calibrated it, and taste drifts.",
        style="dim",
    )


def _over_users(model: InductiveConformal, interactions: Interactions) -> list[tuple[float, str]]:
    """For each confidence: the share of later items inside sets calibrated over users, the size."""
    cases = profile_cases(interactions, 0.4)
    outcomes = observe(model.scorer_, model.statistics_, cases, keep_candidates=True)
    epsilons = [round(1 - at, 9) for at in _CONFIDENCES]
    found = coverage_over_splits(outcomes, "score", epsilons=epsilons, n_splits=5)
    return [(1 - row["loss"], size_cell(row["size"], row["floor"])) for row in found.to_dicts()]


def _later_items(
    model: InductiveConformal, interactions: Interactions
) -> Iterator[tuple[list[float], list[int]]]:
    """For some people and each confidence: the share of later items inside, and the set size."""
    long_enough = np.flatnonzero(np.diff(interactions.offsets) >= 10)  # noqa: PLR2004
    chosen = np.random.default_rng(0).permutation(long_enough)[:_N_HELD_OUT]
    for code in chosen.tolist():
        items = interactions.items.ids.gather(interactions.taken(code)).to_list()
        known = 2 * int(0.3 * len(items) + 0.5)
        user = interactions.users[code]
        values = model.p_values(user, history=items[:known])
        entry = values["entry_confidence"].to_numpy()
        later = np.isin(values["item_id"].to_numpy(), items[known:])
        yield (
            [float((entry[later] < at).mean()) for at in _CONFIDENCES],
            [int((entry < at).sum()) for at in _CONFIDENCES],
        )
