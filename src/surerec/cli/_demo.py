"""The demo command: recommendation sets for real users of MovieLens 100K."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import numpy as np
import typer

from surerec.cli import _show
from surerec.cli._output import plain, stdout
from surerec.cli._serve import require_serving, serve_model
from surerec.datasets import load_dataset, synthetic
from surerec.errors import FetchError
from surerec.precedence import count_precedence
from surerec.recommenders import PopulationConformal, make_recommender, save_all

if TYPE_CHECKING:
    from rich.console import Console

    from surerec.interactions import Interactions


_CONFIDENCES = (0.5, 0.7, 0.8, 0.9)
_SERVED = ("recall-cm12", "hit-cm12", "icrs12", "precedence-mining")
_N_AUDITED = 200


def demo(
    *,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the demo model and open its page.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for any free port.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Show recommendation sets for real users, in the terminal or as a page.

    [bold]Examples:[/bold]

    surerec demo

    surerec demo --serve
    """
    if serve:
        _serve_demo(stdout(), port=port, open_browser=browser)
    else:
        _run_demo(stdout())


def _run_demo(console: Console) -> None:
    from surerec.audit import audit  # noqa: PLC0415  # imports scipy.stats, which is slow
    from surerec.cli._show_audit import coverage  # noqa: PLC0415

    interactions = _data(console)
    _show.interactions(console, interactions)
    statistics = count_precedence(interactions)
    model = PopulationConformal("CM12").fit(statistics)
    for user in _users(interactions):
        _show_user(console, model, interactions, user)
    console.rule("[bold]Does it hold?[/bold]", align="left")
    console.print(coverage(audit(statistics, "CM12", n_users=_N_AUDITED)))
    console.print(
        "User-level calibration (PopulationConformal) keeps its guarantee. Item-level calibration "
        "(the paper) assumes that a user's taste does not drift.",
        style="dim",
    )
    console.print(
        "\nTry other confidence levels: `surerec demo --serve` opens this model as a page. It "
        f"needs the extra {plain('surerec[serve]')}."
    )


def _serve_demo(console: Console, *, port: int, open_browser: bool) -> None:
    """Fit the demo model, save it in a temporary folder and serve it."""
    require_serving()
    interactions = _data(console)
    statistics = count_precedence(interactions)
    recommenders = {name: make_recommender(name).fit(statistics) for name in _SERVED}
    with console.status("Calibrating on groups of 2, 3 and 4 …"):
        recommenders[_SERVED[0]].calibrate_groups((2, 3, 4))
    with TemporaryDirectory(prefix="surerec-demo-") as folder:
        model = Path(folder) / (interactions.name or "demo")
        save_all(model, recommenders)
        user = interactions.users[_users(interactions)[1]]
        at = f"#user={quote(str(user), safe='')}&confidence=0.8"
        serve_model(model, at=at, open_browser=open_browser, port=port, log_level="warning")


def _data(console: Console) -> Interactions:
    try:
        with console.status("Reading MovieLens 100K …"):
            return load_dataset("ml-100k")
    except FetchError as error:
        console.print(
            "[yellow]MovieLens 100K could not be fetched. The demo uses synthetic data instead."
            f"[/yellow]\n  {plain(str(error))}\n"
        )
    return synthetic(n_users=943, n_items=1682, n_rows=100_000, random_state=1)


def _users(interactions: Interactions) -> list[int]:
    """Return a user with a short, one with a median and one with a long history."""
    by_length = np.argsort(np.diff(interactions.offsets), kind="stable")
    return [int(by_length[int(share * (len(by_length) - 1))]) for share in (0.1, 0.5, 0.9)]


def _show_user(
    console: Console, model: PopulationConformal, interactions: Interactions, code: int
) -> None:
    user = interactions.users[code]
    consumed = interactions.consumed(code)
    console.rule(f"[bold]User {plain(str(user))}[/bold]", align="left")
    names = ", ".join(plain(interactions.title(int(item))) for item in consumed[-4:])
    console.print(f"consumed {len(consumed):,} items; the latest: {names}")
    sets = {at: model.recommend(user, confidence=at) for at in _CONFIDENCES}
    sizes = ", ".join(
        f"{'all' if picks.everything_qualifies else f'{len(picks):,}'} at {at:.0%}"
        for at, picks in sets.items()
    )
    console.print(f"set sizes of {sets[0.9].n_candidates:,} candidates: {sizes}")
    _show.recommendations(console, sets[0.5], 4)
    if len(sets[0.5]):
        _show.explanation(console, model.explain(user, item=sets[0.5].items[0]), 2)
