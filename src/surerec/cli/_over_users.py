"""Commands about user-level calibrations: new thresholds, and item lists."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages
from surerec.cli._reading import Reader, reads_data
from surerec.errors import InputError
from surerec.precedence import count_precedence
from surerec.recommenders import load_all, save_all

if TYPE_CHECKING:
    from surerec.recommenders import Recommender


@reads_data
def recalibrate(
    data: Reader,
    model: opt.Model,
    output: Annotated[Path, typer.Argument(help="The folder for the renewed model.")],
    *,
    refit: Annotated[
        bool, typer.Option(help="Count the newer data too, after calibrating on it.")
    ] = True,
) -> None:
    """Renew the thresholds of a model on what has happened since it was counted.

    DATA holds everything as it is now: what the model was counted on, and what came later. The
    recommenders of the model that are calibrated over users are written to a new folder.

    [bold]Example:[/bold] surerec recalibrate ratings-until-march.csv films films-march
    """
    fitted = {
        name: recommender
        for name, recommender in load_all(model).items()
        if hasattr(recommender, "recalibrate")
    }
    if not fitted:
        raise InputError(
            f"{model}: nothing in it can be recalibrated; fit one with --recommender "
            "population-cm12. A wrapped model is calibrated again by surerec calibrate."
        )
    newer = data()
    ties = next(iter(fitted.values())).statistics_.ties
    counts = count_precedence(newer, ties=ties) if refit else None
    for recommender in fitted.values():
        recommender.recalibrate(newer, refit=refit, counts=counts)
    save_all(output, fitted)
    messages().print(f"Recalibrated {', '.join(fitted)} and saved in {_show.plain(str(output))}.")


def allow(
    model: opt.Model,
    name: Annotated[str, typer.Argument(help="What the list is called, such as in-stock.")],
    items: Annotated[Path, typer.Argument(help="A file with one item id a line.")],
    *,
    recommender: Annotated[
        str | None,
        typer.Option(help="For which of the folder's recommenders; all over users if not given."),
    ] = None,
    unknown: opt.Unknown = "check",
) -> None:
    """Name a list of items that may be shown, and calibrate on it.

    `surerec recommend FOLDER --item-list NAME` then has a guarantee for users who consume at least
    one of these items. A list of that name is replaced.

    [bold]Example:[/bold] surerec allow films in-stock ids.txt
    """
    every, chosen = choose_over_users(model, recommender)
    ids = opt.read_known(items, next(iter(chosen.values())).items_, unknown)
    for fitted in chosen.values():
        fitted.allow(name, ids or [])
    save_all(model, every)  # all of them, so that the first stays the first
    sizes = ", ".join(
        f"{each} ({len(fitted.lists_[name]):,} items)" for each, fitted in chosen.items()
    )
    messages().print(f"Calibrated the list {_show.plain(name)} for {sizes}.")


def choose_over_users(
    model: Path, recommender: str | None
) -> tuple[dict[str, Recommender], dict[str, Recommender]]:
    """Give all recommenders of a folder, and those over users that are meant: one, or all."""
    every = load_all(model)
    chosen = {
        each: fitted
        for each, fitted in every.items()
        if "item_lists" in fitted.model_.features and recommender in (None, each)
    }
    if not chosen:
        raise InputError(
            f"{model}: {recommender or 'nothing in it'} is not calibrated over users; fit "
            "population-cm12 or its like."
        )
    return every, chosen


def _over_users(fitted: Recommender) -> Recommender:
    if "hits" in fitted.model_.features:
        return fitted
    raise InputError(
        f"{fitted.name_} is a {type(fitted).__name__}, which is not calibrated over users: choose "
        "a population-… or hit-… one by --recommender."
    )
