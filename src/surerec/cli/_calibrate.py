"""The command that makes a model folder of lists that another system wrote."""

from __future__ import annotations

import warnings
from pathlib import Path  # noqa: TC003  # typer reads it at run time
from typing import Annotated, Any, Literal

import typer

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages
from surerec.errors import InputError
from surerec.interactions import read_lists
from surerec.recommenders import wrap


def calibrate(
    model: Annotated[Path, typer.Argument(help="The model folder to write.")],
    *,
    scores: Annotated[
        Path,
        typer.Option(
            help="What the other system said: a file of user_id, item_id and score, complete or "
            "with the best items of each user; without scores, best first."
        ),
    ],
    past: Annotated[
        Path, typer.Option(help="What was known when it said so: a ratings file, as for `fit`.")
    ],
    futures: Annotated[
        Path, typer.Option(help="What the same people took then, of which it knew nothing.")
    ],
    fallback: Annotated[
        str | None,
        typer.Option(
            help="Complete lists that do not hold every item by the past: popularity, or one of "
            "`surerec measures`."
        ),
    ] = None,
    promise: Annotated[
        Literal["miss-rate", "hit"],
        typer.Option(help="The share of items new to the user that is left out, or no hit at all."),
    ] = "miss-rate",
    horizon: Annotated[
        float | None,
        typer.Option(help="Of the futures so many items (5); all of them if not given."),
    ] = None,
    groups: Annotated[
        int, typer.Option(help="Separate thresholds by the number of known items.")
    ] = 1,
    min_known: Annotated[
        int, typer.Option(help="People of whom less is known are promised nothing.")
    ] = 5,
    repeats: Annotated[
        Literal["error", "drop"],
        typer.Option(
            help="Futures that repeat items of a user's past: stop, or drop those rows. The "
            "guarantee is of items new to the user."
        ),
    ] = "error",
    user: opt.UserColumn = None,
    item: opt.ItemColumn = None,
    time: opt.TimeColumn = None,
    rating: opt.RatingColumn = None,
    title: opt.TitleColumn = None,
    titles: opt.Titles = None,
    threshold: opt.Threshold = None,
    time_format: opt.TimeFormat = None,
    score: Annotated[str | None, typer.Option(help="The column of scores.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The recommender's name in the folder; lists if not given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace the model that the folder holds.")
    ] = False,
) -> None:
    """Calibrate lists of any recommender on what people took then, and write a model folder.

    The columns that are named are those of all files. Whoever has a list, a past and a future
    calibrates; `recommend`, `serve` and `audit` open the folder like any other.

    [bold]Example:[/bold] surerec calibrate ranked --scores top100.parquet --past before.csv
    --futures later.csv --fallback popularity
    """
    asked = opt.as_horizon(horizon)
    if isinstance(asked, float):
        raise InputError(f"--horizon is {asked:g}; futures are cut already: give a whole number.")
    lists = read_lists(scores, user=user, item=item, score=score)
    reading: dict[str, Any] = {
        "user": user,
        "item": item,
        "time": time,
        "rating": rating,
        "threshold": threshold,
        "time_format": time_format,
    }
    known = opt.read(str(past), title=title, titles=titles, **reading)
    later = opt.read(str(futures), **reading)
    wrapped = wrap(
        lists,
        promise=promise,
        horizon=0.4 if asked is None else asked,
        groups=groups,
        min_known=min_known,
        fallback=fallback,
    )
    with warnings.catch_warnings(record=True, action="always") as said:
        sure = wrapped.calibrate(known, later, repeats=repeats)
    for each in said:
        messages().print(_show.plain(str(each.message)))
    sure.save(model, name or "lists", overwrite=overwrite)
    missing = sure.calibration_.unknown_share
    messages().print(
        f"Calibrated {lists.lengths()} of {len(lists.users):,} users on the futures of "
        f"{len(sure.calibration_):,}. On average over them, {missing:.1%} of what a user consumed "
        f"next is in no set; the smallest ε that can be guaranteed is {sure.floor_:.4g}."
    )
    messages().print(f"Saved in {_show.plain(str(model))}.")
