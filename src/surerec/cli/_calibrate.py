"""Commands that calibrate: other systems' lists, newer data, item lists, groups of users."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from surerec import recommenders
from surerec.cli import _options as opt
from surerec.cli._options import Option
from surerec.cli._output import messages, plain
from surerec.errors import InputError
from surerec.interactions import read_lists
from surerec.precedence import count_precedence
from surerec.recommenders import load_all, save_all

if TYPE_CHECKING:
    from surerec.recommenders import Recommender

_READING: Final = {
    name: option
    for name, option in opt.READING.items()
    if name not in ("columns", "min_profile_length", "skip_bad", "query")
}
_WRAPPING: Final = {
    "fallback": Option(str, "Measure that ranks the remaining items, or popularity."),
    "guarantee": Option(Literal["recall", "hit"], "Kind of guarantee.", "recall"),
    "horizon": Option(int, "Number of held-out items to use per user; all by default."),
    "segments": Option(int, "Number of segments by history length.", 1),
    "min_history": Option(int, "Shortest history that is covered by the guarantee.", 5),
}

_WHICH: Final = Option(str, "Recommender to calibrate; by default, all user-level ones.")
_GROUPS: Final = {
    "recommender": _WHICH,
    "size": Option(list[int], "Group size from 2 to 8; may be repeated; default 2, 3 and 4."),
    "formed": Option(Literal["random", "similar"], "How calibration groups are formed."),
    "aggregation": Option(str, "average (default), least-misery or most-pleasure."),
    "groups": Option(Path, "Table of your own groups with columns user_id and group."),
}


@opt.accepts(wrapping=_WRAPPING, reading=_READING)
def wrap(
    model: opt.NewModel,
    *,
    scores: Annotated[
        Path,
        typer.Option(help="Ranked lists with user_id and item_id, and a score or best first."),
    ],
    past: Annotated[Path, typer.Option(help="Interactions that the other system was fitted on.")],
    future: Annotated[Path, typer.Option(help="Later interactions of the same users.")],
    wrapping: Any,
    repeats: Annotated[
        Literal["error", "drop"],
        typer.Option(help="What to do with later interactions that repeat earlier ones."),
    ] = "error",
    reading: Any,
    score_column: Annotated[str | None, typer.Option(help="Column of scores.")] = None,
    name: Annotated[str, typer.Option(help="Name of the recommender in the folder.")] = "lists",
    overwrite: opt.Overwrite = False,
) -> None:
    """Calibrate the ranked lists of another recommender, and write a model folder.

    Users with a list, a past and a future calibrate it. All files have the same column names.

    [bold]Example:[/bold] surerec wrap ranked --scores top100.parquet --past before.csv
    --future later.csv --fallback popularity
    """
    columns = {k: v for k, v in opt.chosen(reading).items() if k in ("user", "item")}
    lists = read_lists(scores, score=score_column, **columns)
    known = opt.read(str(past), **reading)
    without_titles = {k: v for k, v in reading.items() if not k.startswith("title")}
    later = opt.read(str(future), **without_titles)
    with warnings.catch_warnings(record=True, action="always") as caught:
        fitted = recommenders.wrap(lists, **wrapping).calibrate(known, later, repeats=repeats)
    for each in caught:
        messages().print(plain(str(each.message)))
    fitted.save(model, name, overwrite=overwrite)
    missing = fitted.calibration_.unknown_share
    messages().print(
        f"Calibrated {lists.lengths()} of {len(lists.users):,} users on the later interactions of "
        f"{len(fitted.calibration_):,} users. On average, {missing:.1%} of these interactions can "
        f"be in no set; the smallest ε that can be guaranteed is {fitted.floor_:.4g}."
    )
    for row in () if fitted.sizes_ is None else fitted.sizes_.drop_nulls().iter_rows(named=True):
        messages().print(
            f"Mean set size at confidence {row['confidence']:g}: {row['size']:,.0f} items; "
            f"popularity needs {row['popularity']:,.0f}."
        )
    messages().print(f"Saved in {plain(str(model))}.")


@opt.accepts(reading=opt.READING)
def recalibrate(
    data: opt.Data,
    model: opt.Model,
    output: Annotated[Path, typer.Argument(help="Model folder to write.")],
    *,
    reading: Any,
    refit: Annotated[
        bool, typer.Option(help="Refit on all data after calibrating on the newer part.")
    ] = True,
) -> None:
    """Recalibrate a model on interactions that are newer than its fit.

    DATA holds all interactions, those of the fit and the newer ones. The new folder holds the
    user-level recommenders.

    [bold]Example:[/bold] surerec recalibrate ratings-until-march.csv films films-march
    """
    fitted = {
        name: recommender
        for name, recommender in load_all(model).items()
        if hasattr(recommender, "recalibrate")
    }
    if not fitted:
        raise InputError(
            f"{model}: it has no recommender that can be recalibrated. Fit one with --recommender "
            "recall-cm12, or run surerec wrap again for a wrapped model."
        )
    newer = opt.read(data, **reading)
    ties = next(iter(fitted.values())).statistics_.ties
    counts = count_precedence(newer, ties=ties) if refit else None
    for recommender in fitted.values():
        recommender.recalibrate(newer, refit=refit, counts=counts)
    save_all(output, fitted)
    messages().print(f"Recalibrated {', '.join(fitted)} and saved in {plain(str(output))}.")


@opt.accepts(more={"recommender": _WHICH, "unknown": opt.REQUEST["unknown"]})
def item_list(
    model: opt.Model,
    name: Annotated[str, typer.Argument(help="Name of the list, such as in-stock.")],
    items: Annotated[Path, typer.Argument(help="File with one item id per line.")],
    *,
    more: Any,
) -> None:
    """Calibrate a model on a named list of items, for `surerec recommend --item-list`.

    The guarantee covers users who consume at least one item of the list. An existing list of that
    name is replaced.

    [bold]Example:[/bold] surerec item-list films in-stock ids.txt
    """
    every, chosen = _choose_user_level(model, more.get("recommender"))
    ids = opt.read_known(items, next(iter(chosen.values())).items_, more.get("unknown", "check"))
    for fitted in chosen.values():
        fitted.add_item_list(name, ids or [])
    save_all(model, every)  # all, to keep their order: the first one is the default
    sizes = ", ".join(
        f"{each} ({len(fitted.item_lists_[name]):,} items)" for each, fitted in chosen.items()
    )
    messages().print(f"Calibrated the list {plain(name)} for {sizes}.")


@opt.accepts(given=_GROUPS)
def groups(model: opt.Model, *, given: Any) -> None:
    """Calibrate a model on groups of its users, for requests with several users.

    The server answers only for calibrated sizes. `surerec recommend` calibrates a missing size at
    each request, which is slow.

    [bold]Examples:[/bold]

    surerec groups films --size 2 --size 3

    surerec groups films --size 2 --formed similar --aggregation least-misery
    """
    every, chosen = _choose_user_level(model, given.pop("recommender", None))
    sizes = given.pop("size", (2, 3, 4))
    for fitted in chosen.values():
        fitted.calibrate_groups(sizes, **given)
    save_all(model, every)
    for name, fitted in chosen.items():
        sizes = ", ".join(
            f"{len(each.outcomes):,} {each.covers}" for each in fitted.group_calibrations_
        )
        messages().print(f"Calibrated {plain(name)} on {plain(sizes)}.")


def _choose_user_level(
    model: Path, recommender: str | None
) -> tuple[dict[str, Recommender], dict[str, Recommender]]:
    """Return all recommenders of a folder, and the user-level ones among those requested."""
    every = load_all(model)
    chosen = {
        each: fitted
        for each, fitted in every.items()
        if "item_lists" in fitted.model_.features and recommender in (None, each)
    }
    if not chosen:
        raise InputError(
            f"{model}: {recommender or 'it'} has no user-level calibration. Fit a recommender with "
            "--recommender recall-cm12."
        )
    return every, chosen
