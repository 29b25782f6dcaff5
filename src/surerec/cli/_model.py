"""Commands about models: fit, recommend, explain."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surerec._files import is_stream
from surerec._memory import from_words
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._demo import run_demo, serve_demo
from surerec.cli._output import (
    messages,
    stdout,
    to_json,
    write_aside,
    write_frame,
    write_frames,
)
from surerec.cli._reading import Reader, reads_data, reads_histories
from surerec.cli._spark import check_engine, fit_on_spark, recommend_on_spark
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.errors import InputError
from surerec.measures import MEASURES, TRAINED
from surerec.precedence import count_precedence
from surerec.recommenders import PopulationConformal, load, make_recommender, save_all

if TYPE_CHECKING:
    from surerec.recommenders import Recommender


_Output = Annotated[
    Path | None, typer.Option(help="Write to this file instead, complete or not at all.")
]


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


@reads_data
def fit(
    data: Reader,
    model: Annotated[Path, typer.Argument(help="The model folder to write.")],
    *,
    recommender: Annotated[
        list[str] | None,
        typer.Option(
            help="Which to put in the folder: icrs1 … icrs17, crs-max, crs-med, "
            "precedence-mining, precedence-mining-top1; calibrated over users: population-cm12, "
            "hit-cm12, precision-cm12, with any measure. May be repeated; icrs12 if not given."
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
    made = {name.lower(): make_recommender(name) for name in recommender or ["icrs12"]}
    in_groups = opt.as_groups(groups)
    _set_over_users(made, horizon=opt.as_horizon(horizon), cut=cut, groups=in_groups, window=window)
    if (groups_file is None) != (in_groups is None or isinstance(in_groups, int)):
        raise InputError(
            "--groups-file and a column in --groups go together, such as --groups-file users.csv "
            "--groups country."
        )
    budget = None if memory is None else from_words(memory)
    if engine == "spark" and groups_file is not None:
        raise InputError("--groups-file is read in memory only: leave --engine spark away.")
    if engine == "spark":
        counting = {"ties": ties, "strategy": strategy, "memory": budget}
        counting["task_memory"] = None if task_memory is None else from_words(task_memory)
        session = {"master": master, "executor_memory": executor_memory}
        fit_on_spark(data, model, made, counting, session, sequence, overwrite=overwrite)
        return
    interactions = data()
    begin = perf_counter()
    statistics = count_precedence(interactions, ties=ties, strategy=strategy, memory=budget)
    seconds = perf_counter() - begin
    for each in made.values():
        if isinstance(each, PopulationConformal):
            each.fit(statistics, user_groups=groups_file)
        else:
            each.fit(statistics)
    save_all(model, made, overwrite=overwrite)
    _show.interactions(messages(), interactions)
    messages().print(
        f"Counted in {seconds:.2f} s and saved {', '.join(made)} in {_show.plain(str(model))}."
    )


def _set_over_users(made: dict[str, Recommender], **settings: Any) -> None:
    """Give the settings to the recommenders that are calibrated over users, if there are any."""
    given = {name: value for name, value in settings.items() if value is not None}
    over_users = [model for model in made.values() if isinstance(model, PopulationConformal)]
    if given and not over_users:
        raise InputError(
            f"--{next(iter(given))} is for what is calibrated over users: add "
            "--recommender population-cm12 or hit-cm12."
        )
    for model in over_users:
        model.set_params(**given)


def recommend(
    model: opt.Model,
    *,
    user: opt.User = None,
    history: opt.History = None,
    group: opt.Group = None,
    confidence: opt.Confidence = None,
    significance: opt.Significance = None,
    k: opt.TopK = None,
    exclude: opt.Exclude = None,
    precision: opt.Precision = None,
    min_probability: opt.MinProbability = None,
    items: opt.Items = None,
    among: opt.Among = None,
    recommender: opt.RecommenderName = None,
    show: Annotated[int, typer.Option(min=1, help="How many rows of the table to show.")] = 10,
    format: opt.Format = "table",  # noqa: A002  # the option's name
    output: _Output = None,
) -> None:
    """Recommend a set of items to one person, with p-values and what is promised.

    [bold]Examples:[/bold]

    surerec recommend films --user 196 --confidence 0.9

    surerec recommend films --history 50,172,133 --confidence 0.7 --format json
    """
    fitted = load(model, recommender)
    if confidence is None and significance is None and fitted.gives_confidence:
        confidence = DEFAULT_CONFIDENCE
    picks = fitted.recommend(
        user,
        history=as_items(fitted, history),
        group=group,
        confidence=confidence,
        significance=significance,
        k=k,
        exclude=as_items(fitted, exclude) or (),
        precision=precision,
        min_probability=min_probability,
        items=opt.read_ids(items, "items"),
        among=among,
    )
    if picks.ignored:
        named = ", ".join(str(item) for item in picks.ignored)
        messages().print(_show.plain(f"Nobody in the data took {named}: ignored."))
    if format in ("csv", "parquet"):
        write_frame(picks.to_frame(), format, output)
        _by(fitted)
    elif format == "json":
        _text(to_json(_as_dict(fitted, picks, user)) + "\n", output)
    else:
        _show.recommendations(stdout(), picks, show)


@reads_histories
def recommend_all(
    model: opt.Model,
    *,
    output: Annotated[
        Path,
        typer.Option(help="The file to write: .parquet or .csv; on Spark a folder of Parquet."),
    ],
    users: Annotated[
        Path | None, typer.Option(help="A file with one user id a line; all users if not given.")
    ] = None,
    histories: Any = None,
    leave_out: Annotated[
        bool,
        typer.Option(
            "--leave-out",
            help="People of --histories with ids of the data are these users, and left out of all "
            "that scores them.",
        ),
    ] = False,
    confidence: opt.Confidence = None,
    significance: opt.Significance = None,
    k: opt.TopK = None,
    precision: opt.Precision = None,
    min_probability: opt.MinProbability = None,
    items: opt.Items = None,
    among: opt.Among = None,
    chances: Annotated[
        bool,
        typer.Option(
            "--chances",
            help="Over users: how likely at least one, two, three of each list are taken.",
        ),
    ] = False,
    recommender: opt.RecommenderName = None,
    engine: opt.Engine = "memory",
    master: opt.Master = None,
    executor_memory: opt.ExecutorMemory = None,
) -> None:
    """Recommend to many users, on all cores or on Spark, written as results come.

    [bold]Examples:[/bold]

    surerec recommend-all films --confidence 0.9 --k 20 --output picks.parquet

    surerec recommend-all films --histories people.csv --k 20 --output picks.csv

    surerec recommend-all /shared/films --output /shared/picks --engine spark --master yarn
    """
    check_engine(engine, master=master, **{"executor-memory": executor_memory})
    if histories is not None and (users is not None or engine == "spark"):
        raise InputError("--histories says for whom, in memory: leave --users and Spark away.")
    if leave_out and histories is None:
        raise InputError("--leave-out is about --histories: users of the data are always left out.")
    more: dict[str, Any] = {
        "precision": precision,
        "min_probability": min_probability,
        "items": opt.read_ids(items, "items"),
        "among": among,
        "chances": chances,
    }
    if engine == "spark":
        recommend_on_spark(
            model,
            output,
            opt.read_ids(users, "users"),
            {"master": master, "executor_memory": executor_memory},
            recommender=recommender,
            confidence=confidence,
            significance=significance,
            k=k,
            **more,
        )
        return
    kind = output.suffix.lstrip(".").lower() or ("csv" if is_stream(output) else "")
    if kind not in ("csv", "parquet"):
        raise InputError(f"{output}: the name must end in .parquet or .csv.")
    wanted = opt.read_ids(users, "users")
    fitted = load(model, recommender)
    if confidence is None and significance is None and fitted.gives_confidence:
        confidence = DEFAULT_CONFIDENCE
    begin = perf_counter()
    people = None
    if histories is not None:
        path, reading = histories
        people = fitted.histories(path, leave_out=leave_out, **reading)
        said = people.warnings()
        if n := len(people.ignored):
            rows = "1 row" if n == 1 else f"{n:,} rows"
            said.append(f"Nobody in the data took the items of {rows}: ignored.")
        for sentence in said:
            messages().print(_show.plain(sentence))
    frames = fitted.iter_recommendations(
        wanted, histories=people, confidence=confidence, significance=significance, k=k, **more
    )
    n_rows = write_frames(frames, kind, output)
    messages().print(
        f"Wrote {n_rows:,} recommendations by {fitted.name_} to {_show.plain(str(output))} "
        f"in {perf_counter() - begin:.1f} s."
    )


def explain(
    model: opt.Model,
    *,
    item: Annotated[str, typer.Option(help="The item to explain.")],
    user: opt.User = None,
    history: opt.History = None,
    group: opt.Group = None,
    recommender: opt.RecommenderName = None,
    show: Annotated[int, typer.Option(min=1, help="How many earlier items to show.")] = 8,
    format: opt.Format = "table",  # noqa: A002
    output: _Output = None,
) -> None:
    """Say which earlier items speak for an item, with the counts in words.

    [bold]Example:[/bold] surerec explain films --user 196 --item 302
    """
    fitted = load(model, recommender)
    why = fitted.explain(user, history=as_items(fitted, history), group=group, item=item)
    if format in ("csv", "parquet"):
        write_frame(why.to_frame(), format, output)
        _by(fitted)
    elif format == "json":
        answer = {
            "recommender": why.recommender,
            "item_id": why.item,
            "title": why.title,
            "score": why.score,
            "p_value": why.p_value,
            "entry_confidence": why.entry_confidence,
            "because": why.to_frame().to_dicts(),
        }
        _text(to_json(answer) + "\n", output)
    else:
        _show.explanation(stdout(), why, show)


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


def as_items(fitted: Recommender, given: list[str] | None) -> list[str] | None:
    """Take each text as an id if it is one, else as ids with commas between them."""
    if given is None:
        return None
    found: list[str] = []
    for text in given:
        whole = text in fitted.items_ or "," not in text
        found += [text] if whole else [part.strip() for part in text.split(",") if part.strip()]
    return found


def _as_dict(fitted: Recommender, picks: Any, user: str | None) -> dict[str, Any]:
    return {
        "user_id": user,
        "recommender": picks.recommender,
        "settings": fitted.get_params(),
        "confidence": picks.confidence,
        "guarantee": picks.guarantee,
        "precision": picks.precision,
        "about_probability": picks.about_probability,
        "size": len(picks),
        "full_size": picks.full_size,
        "n_candidates": picks.n_candidates,
        "highest_confidence": picks.highest_confidence,
        "everything_qualifies": picks.everything_qualifies,
        "used": picks.used,
        "ignored": picks.ignored,
        "items": picks.to_frame().to_dicts(),
    }


def _by(fitted: Recommender) -> None:
    """Say on the other channel whose answer a bare table is."""
    messages().print(f"Answered by {_show.plain(fitted.name_)}.")


def _text(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    with write_aside(output) as file:
        file.write(text.encode())
