"""Making models: fit, and the measures to fit with."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from surerec._memory import from_words
from surerec._progress import time_stages
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages, stdout, to_json
from surerec.cli._reading import Reader, reads_data
from surerec.cli._spark import check_engine, fit_on_spark
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.errors import InputError
from surerec.interactions import pool_segments
from surerec.measures import MEASURES, TRAINED
from surerec.precedence import count_precedence
from surerec.recommenders import (
    DEFAULT_NAMES,
    make_recommender,
    save_all,
)

if TYPE_CHECKING:
    from surerec.recommenders import Recommender


@reads_data
def fit(
    data: Reader,
    model: Annotated[Path, typer.Argument(help="The model folder to write.")],
    *,
    recommender: Annotated[
        list[str] | None,
        typer.Option(
            help="Which to put in the folder, by the names below; may be repeated. Where it is "
            "not given population-cm12, and icrs12 beside it; on Spark icrs12 alone."
        ),
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            help="Over users: the future as a share of the profile (0.4), or a number of next "
            "items (5)."
        ),
    ] = None,
    cut: Annotated[
        Literal["rank", "score"] | None,
        typer.Option(help="Over users: sets of one size, or of a size that adapts to the person."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Over users: separate thresholds by the number of known items (3), by a column of "
            "--groups-file (country), or both (country,3)."
        ),
    ] = None,
    groups_file: Annotated[
        Path | None,
        typer.Option(help="Over users: a table of users with the column that --groups names."),
    ] = None,
    pool_below: Annotated[
        int | None,
        typer.Option(
            help="Over users: pool segments of --groups-file with fewer users into 'other'."
        ),
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(help="Over users: calibrate on the last so many days of the calendar."),
    ] = None,
    ties: opt.Ties = "order",
    strategy: Annotated[
        Literal["auto", "dense", "bounded", "on-demand"],
        typer.Option(help="Hold all counts in memory, or count rows when they are asked for."),
    ] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(help="For counts, such as 2GB; half of the free memory if not given."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace the model that the folder holds.")
    ] = False,
    engine: opt.Engine = "memory",
    master: opt.Master = None,
    sequence: Annotated[
        str | None,
        typer.Option(help="On Spark: the column of integers that says in which order rows come."),
    ] = None,
    executor_memory: opt.ExecutorMemory = None,
    task_memory: Annotated[
        str | None,
        typer.Option(help="On Spark: for the counts of one task, such as 500MB; 256MB by default."),
    ] = None,
) -> None:
    """Count who took what before what, and save a model folder.

    The folder holds people's histories: keep it as you keep those.

    [bold]Recommenders, by what they promise:[/bold]

    population-cm12: keeps 90% of items new to the user that they will consume (or any confidence)

    hit-cm12: has at least one hit among the next 5 items new to the user

    precision-cm12: shows few items new to the user, of which a stated share is consumed

    icrs12 (icrs1 … icrs17): the paper's, keeps items new to the user if their taste stands still

    crs-max, crs-med: the older method; precedence-mining, precedence-mining-top1: only rank

    In the place of cm12 may stand cm1 … cm13, ncm14 … ncm17, learned or als (icrs-learned,
    icrs-als): `surerec measures` tells what each is.

    [bold]Examples:[/bold]

    surerec fit ml-1m films

    surerec fit ratings.csv shop --recommender icrs12 --recommender crs-max

    surerec fit ml-1m films --recommender population-cm12 --recommender hit-cm12

    surerec fit ratings.csv shop --recommender population-cm12 --groups country --groups-file
    users.csv

    surerec fit /shared/ratings.parquet /shared/films --engine spark --master spark://host:7077
    --sequence row
    """
    on_spark = {"sequence": sequence, "task-memory": task_memory}
    check_engine(engine, master=master, **{"executor-memory": executor_memory}, **on_spark)
    standard = DEFAULT_NAMES[1:] if engine == "spark" else DEFAULT_NAMES
    made = {name.lower(): make_recommender(name) for name in recommender or standard}
    in_groups = opt.as_groups(groups)
    _set_over_users(made, horizon=opt.as_horizon(horizon), cut=cut, groups=in_groups, window=window)
    if (groups_file is None) != (in_groups is None or isinstance(in_groups, int)):
        raise InputError(
            "--groups-file and a column in --groups go together, such as --groups-file users.csv "
            "--groups country."
        )
    if pool_below is not None and groups_file is None:
        raise InputError("--pool-below pools segments of --groups-file: name that too.")
    budget = None if memory is None else from_words(memory)
    segments: Any = groups_file
    if pool_below is not None:
        column = in_groups if isinstance(in_groups, str) else in_groups[0]  # type: ignore[index]
        segments = pool_segments(groups_file, column, min_users=pool_below)
    if engine == "spark":
        counting = {"ties": ties, "strategy": strategy, "memory": budget}
        counting["task_memory"] = None if task_memory is None else from_words(task_memory)
        session = {"master": master, "executor_memory": executor_memory}
        fit_on_spark(
            data,
            model,
            made,
            counting,
            session,
            sequence,
            overwrite=overwrite,
            user_groups=segments,
        )
        return
    interactions = data()
    skipped = {}
    with time_stages() as spent:
        statistics = count_precedence(interactions, ties=ties, strategy=strategy, memory=budget)
        for name, each in made.items():
            try:
                given = {"user_groups": segments} if "groups" in each.get_params() else {}
                each.fit(statistics, **given)
                if "period" in each.model_.features:
                    _check_supported(each, is_asked_for=recommender is not None)
            except InputError as error:
                if recommender or groups_file or name == DEFAULT_NAMES[-1]:
                    raise
                skipped[name] = str(error)
    saved = {name: each for name, each in made.items() if name not in skipped}
    save_all(model, saved, overwrite=overwrite)
    _show.interactions(messages(), interactions)
    messages().print(f"Fitted in {spent}.")
    messages().print(f"Saved {', '.join(saved)} in {_show.plain(str(model))}.")
    _show.recommenders(messages(), saved, skipped, interactions.n_users)
    somebody = str(interactions.users[int(np.argmax(np.diff(interactions.offsets)))])
    steps = {
        ("surerec", "recommend", str(model), "--user", somebody): "a set for somebody",
        ("surerec", "audit", str(model)): "does the promise hold on these data?",
        ("surerec", "serve", str(model)): "the same as a page in your browser",
    }
    _show.next_steps(messages(), steps)


def _check_supported(fitted: Recommender, *, is_asked_for: bool) -> None:
    """Refuse what nobody asked for, and what has too few people behind it to leave anything out."""
    needed, found = round(1 / (1 - DEFAULT_CONFIDENCE)) - 1, len(fitted.calibration_)
    if not is_asked_for and found < needed:
        raise InputError(
            f"A confidence of {DEFAULT_CONFIDENCE:g} needs at least {needed} calibration users, "
            f"with 5 known items and a future; here {'is' if found == 1 else 'are'} {found}."
        )


def _set_over_users(made: dict[str, Recommender], **settings: Any) -> None:
    """Give the settings to the recommenders that are calibrated over users, if there are any."""
    given = {name: value for name, value in settings.items() if value is not None}
    over_users = [each for each in made.values() if given.keys() <= each.get_params().keys()]
    if not over_users:
        raise InputError(
            f"--{next(iter(given))} is for what is calibrated over users: add "
            "--recommender population-cm12 or hit-cm12."
        )
    for each in over_users:
        each.set_params(**given)


def measures(
    *,
    format: Annotated[  # noqa: A002
        Literal["table", "json"], typer.Option(help="A table for people, json for programs.")
    ] = "table",
) -> None:
    """List the paper's 17 (non)conformity measures with their formulas, and those trained."""
    if format == "table":
        _show.measures(stdout(), MEASURES.values(), TRAINED)
        return
    rows = [
        {"name": m.name, "readable": m.readable, "formula": m.formula} for m in MEASURES.values()
    ]
    trained = [{"name": name, "about": about} for name, about in TRAINED.items()]
    typer.echo(to_json({"measures": rows, "trained": trained}))
