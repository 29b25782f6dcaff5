"""Calibrating: lists of another system, newer data, item lists, groups of users."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from surerec.cli import _options as opt
from surerec.cli._options import Option
from surerec.cli._output import messages, plain
from surerec.errors import InputError
from surerec.interactions import read_lists
from surerec.precedence import count_precedence
from surerec.recommenders import load_all, save_all, wrap

if TYPE_CHECKING:
    from surerec.recommenders import Recommender

_READING: Final = {
    name: option
    for name, option in opt.READING.items()
    if name not in ("columns", "min_profile_length", "skip_bad", "query")
}
_WRAPPING: Final = {
    "fallback": Option(str, "Complete lists by popularity, or by one of `surerec measures`."),
    "guarantee": Option(Literal["recall", "hit"], "What is guaranteed.", "recall"),
    "horizon": Option(int, "Of the futures so many items (5); all of them if not given."),
    "segments": Option(int, "Separate thresholds by the number of known items.", 1),
    "min_history": Option(int, "Users with fewer known items are guaranteed nothing.", 5),
}

_WHICH: Final = Option(str, "For which recommender; all over users by default.")
_GROUPS: Final = {
    "recommender": _WHICH,
    "size": Option(list[int], "How many members, 2 to 8; may be repeated; 2, 3 and 4 by default."),
    "formed": Option(Literal["random", "similar"], "As the groups to be served will be."),
    "aggregation": Option(str, "average (default), least-misery or most-pleasure."),
    "group_file": Option(Path, "Your own groups: a table with columns user_id and group."),
}


@opt.takes(wrapping=_WRAPPING, reading=_READING)
def calibrate(
    model: opt.NewModel,
    *,
    scores: Annotated[
        Path,
        typer.Option(help="The lists: user_id, item_id and score, or best first."),
    ],
    past: Annotated[Path, typer.Option(help="The ratings file that the other system knew.")],
    futures: Annotated[Path, typer.Option(help="What the same users consumed afterwards.")],
    wrapping: Any,
    repeats: Annotated[
        Literal["error", "drop"],
        typer.Option(help="Futures that repeat the past: stop, or drop."),
    ] = "error",
    reading: Any,
    score: Annotated[str | None, typer.Option(help="The column of scores.")] = None,
    name: Annotated[str, typer.Option(help="The recommender's name in the folder.")] = "lists",
    overwrite: opt.Overwrite = False,
) -> None:
    """Calibrate lists of any recommender on what users consumed then, and write a model folder.

    The columns that are named are those of all files. Users with a list, a past and a future
    calibrate; `recommend`, `serve` and `audit` open the folder like any other.

    [bold]Example:[/bold] surerec wrap ranked --scores top100.parquet --past before.csv
    --futures later.csv --fallback popularity
    """
    columns = {name: reading[name] for name in ("user", "item") if name in reading}
    lists = read_lists(scores, score=score, **columns)
    known = opt.read(str(past), **reading)
    of_later = {name: value for name, value in reading.items() if not name.startswith("title")}
    later = opt.read(str(futures), **of_later)
    with warnings.catch_warnings(record=True, action="always") as said:
        sure = wrap(lists, **wrapping).calibrate(known, later, repeats=repeats)
    for each in said:
        messages().print(plain(str(each.message)))
    sure.save(model, name, overwrite=overwrite)
    missing = sure.calibration_.unknown_share
    messages().print(
        f"Calibrated {lists.lengths()} of {len(lists.users):,} users on the futures of "
        f"{len(sure.calibration_):,}. On average over them, {missing:.1%} of what a user consumed "
        f"next is in no set; the smallest ε that can be guaranteed is {sure.floor_:.4g}."
    )
    messages().print(f"Saved in {plain(str(model))}.")


@opt.takes(reading=opt.READING)
def recalibrate(
    data: opt.Data,
    model: opt.Model,
    output: Annotated[Path, typer.Argument(help="The folder for the renewed model.")],
    *,
    reading: Any,
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
            "recall-cm12. A wrapped model is calibrated again by surerec wrap."
        )
    newer = opt.read(data, **reading)
    ties = next(iter(fitted.values())).statistics_.ties
    counts = count_precedence(newer, ties=ties) if refit else None
    for recommender in fitted.values():
        recommender.recalibrate(newer, refit=refit, counts=counts)
    save_all(output, fitted)
    messages().print(f"Recalibrated {', '.join(fitted)} and saved in {plain(str(output))}.")


@opt.takes(more={"recommender": _WHICH, "unknown": opt.REQUEST["unknown"]})
def add_item_list(
    model: opt.Model,
    name: Annotated[str, typer.Argument(help="What the list is called, such as in-stock.")],
    items: Annotated[Path, typer.Argument(help="A file with one item id a line.")],
    *,
    more: Any,
) -> None:
    """Name a list of items that may be shown, and calibrate on it.

    `surerec recommend FOLDER --item-list NAME` then has a guarantee for users who consume at least
    one of these items. A list of that name is replaced.

    [bold]Example:[/bold] surerec item-list films in-stock ids.txt
    """
    every, chosen = _choose_over_users(model, more.get("recommender"))
    ids = opt.read_known(items, next(iter(chosen.values())).items_, more.get("unknown", "check"))
    for fitted in chosen.values():
        fitted.add_item_list(name, ids or [])
    save_all(model, every)  # all of them, so that the first stays the first
    sizes = ", ".join(
        f"{each} ({len(fitted.item_lists_[name]):,} items)" for each, fitted in chosen.items()
    )
    messages().print(f"Calibrated the list {plain(name)} for {sizes}.")


@opt.takes(groups=_GROUPS)
def calibrate_groups(model: opt.Model, *, groups: Any) -> None:
    """Calibrate a model on groups of its users, so that groups have guarantees.

    A size that was not calibrated is calibrated when a group of it is asked for, each time anew on
    the command line; the server answers only for sizes that are in the folder.

    [bold]Examples:[/bold]

    surerec groups films --size 2 --size 3

    surerec groups films --size 2 --formed similar --aggregation least-misery
    """
    every, chosen = _choose_over_users(model, groups.pop("recommender", None))
    sizes, given = groups.pop("size", (2, 3, 4)), groups.pop("group_file", None)
    for fitted in chosen.values():
        fitted.calibrate_groups(sizes, groups=given, **groups)
    save_all(model, every)
    for name, fitted in chosen.items():
        told = ", ".join(
            f"{len(each.outcomes):,} {each.covers}" for each in fitted.group_calibrations_
        )
        messages().print(f"Calibrated {plain(name)} on {plain(told)}.")


def _choose_over_users(
    model: Path, recommender: str | None
) -> tuple[dict[str, Recommender], dict[str, Recommender]]:
    """Return all recommenders of a folder, and the chosen ones over users: one, or all."""
    every = load_all(model)
    chosen = {
        each: fitted
        for each, fitted in every.items()
        if "item_lists" in fitted.model_.features and recommender in (None, each)
    }
    if not chosen:
        raise InputError(
            f"{model}: {recommender or 'nothing in it'} is not calibrated over users; fit "
            "recall-cm12 or its like."
        )
    return every, chosen
