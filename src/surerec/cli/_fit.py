"""Making models: fit, in memory or on Spark."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
import typer

from surerec._memory import from_words
from surerec._progress import time_stages
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._options import Option
from surerec.cli._output import messages, next_steps, plain
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.errors import InputError
from surerec.interactions import is_address, pool_segments
from surerec.precedence import count_precedence
from surerec.recommenders import DEFAULT_NAMES, make_recommender, save_all
from surerec.storage import read_card

if TYPE_CHECKING:
    from surerec.recommenders import Recommender

_OVER_USERS: Final = {
    "horizon": Option(float, "Over users: the future, as a share (0.4) or as next items (5)."),
    "threshold": Option(Literal["rank", "score"], "Over users: sets of one size, or adapted ones."),
    "segments": Option(
        str,
        "Over users: thresholds by the number of known items (3), by a column of --segments-file "
        "(country), or both (country,3).",
    ),
    "window": Option(float, "Over users: calibrate on the last so many days of the calendar."),
}
_SEGMENTS: Final = {
    "segments_file": Option(Path, "A table of users with the column that --segments names."),
    "pool_below": Option(int, "Pool segments of --segments-file with fewer users into 'other'."),
}
_COUNTING: Final = {
    "ties": Option(Literal["order", "strict"], opt.TIES, "order"),
    "strategy": Option(
        Literal["auto", "dense", "bounded", "on-demand"], "How counts are held.", "auto"
    ),
    "memory": Option(str, "For counts, such as 2GB; half of the free memory by default."),
}
_ENGINE: Final = {
    **opt.ENGINE,
    "sequence": Option(str, "On Spark: the column of integers with the order of rows."),
    "task_memory": Option(str, "On Spark: for the counts of one task; 256MB by default."),
}
_SMALLER = "recall-learned"
_NEEDED = round(1 / (1 - DEFAULT_CONFIDENCE)) - 1  # calibration users, to leave anything out
_THOUSANDS = 500  # users with whom a measure is worth to be trained: tried with 943


@opt.takes(
    reading=opt.READING,
    over_users=_OVER_USERS,
    segments=_SEGMENTS,
    counting=_COUNTING,
    engine=_ENGINE,
)
def fit(
    data: opt.Data,
    model: opt.NewModel,
    *,
    reading: Any,
    recommender: Annotated[
        list[str] | None,
        typer.Option(help="By the names below, repeated; recall-cm12 and icrs12 by default."),
    ] = None,
    over_users: Any,
    segments: Any,
    counting: Any,
    overwrite: opt.Overwrite = False,
    engine: Any,
) -> None:
    """Count who took what before what, and save a model folder.

    The folder holds users' histories: keep it as you keep those.

    [bold]Recommenders, by what they promise:[/bold]

    recall-cm12: keeps 90% of items new to the user that they will consume (or any confidence)

    hit-cm12: has at least one hit among the next 5 items new to the user

    precision-cm12: shows few items new to the user, of which a stated share is consumed

    icrs12 (icrs1 … icrs17): the paper's, keeps items new to the user if their taste stands still

    crs-max, crs-med: the older method; precedence-mining, precedence-mining-top1: only rank

    In the place of cm12 may stand cm1 … cm13, ncm14 … ncm17, learned or als (icrs-learned,
    icrs-als): `surerec measures` tells what each is.

    [bold]Examples:[/bold]

    surerec fit ml-1m films

    surerec fit ratings.csv shop --recommender icrs12 --recommender crs-max

    surerec fit ml-1m films --recommender recall-cm12 --recommender hit-cm12

    surerec fit ratings.csv shop --recommender recall-cm12 --segments country --segments-file
    users.csv

    surerec fit /shared/ratings.parquet /shared/films --engine spark --master spark://host:7077
    --sequence row
    """
    on_spark, session = opt.check_engine(engine)
    standard = DEFAULT_NAMES[1:] if on_spark else DEFAULT_NAMES
    made = {name.lower(): make_recommender(name) for name in recommender or standard}
    user_segments = _set_over_users(made, over_users, **segments)
    if "memory" in counting:
        counting["memory"] = from_words(counting["memory"])
    if on_spark:
        more = {"overwrite": overwrite, "user_segments": user_segments}
        _fit_on_spark(data, reading, model, made, counting, session, more)
        return
    interactions = opt.read(data, **reading)
    skipped = {}
    with time_stages() as spent:
        statistics = count_precedence(interactions, **counting)
        for name, each in made.items():
            try:
                given = {"user_segments": user_segments} if "segments" in each.get_params() else {}
                each.fit(statistics, **given)
                if recommender is None and "period" in each.model_.features:
                    _check_supported(len(each.calibration_))
            except InputError as error:
                if recommender or segments or name == DEFAULT_NAMES[-1]:
                    raise
                skipped[name] = str(error)
    saved = {name: each for name, each in made.items() if name not in skipped}
    save_all(model, saved, overwrite=overwrite)
    _show.interactions(messages(), interactions)
    messages().print(f"Fitted in {spent}.")
    messages().print(f"Saved {', '.join(saved)} in {plain(str(model))}.")
    _show_saved(saved, skipped, interactions.n_users)
    longest = str(interactions.users[int(np.argmax(np.diff(interactions.offsets)))])
    next_steps(
        {
            ("surerec", "recommend", str(model), "--user", longest): "a set for a user",
            ("surerec", "audit", str(model)): "does the guarantee hold on these data?",
            ("surerec", "serve", str(model)): "the same as a page in your browser",
        }
    )


def _check_supported(n: int) -> None:
    """Refuse a default that has too few calibration users to leave anything out."""
    if n < _NEEDED:
        raise InputError(
            f"A confidence of {DEFAULT_CONFIDENCE:g} needs at least {_NEEDED} calibration users, "
            f"with 5 known items and a future; here {'is' if n == 1 else 'are'} {n}."
        )


def _set_over_users(
    made: dict[str, Recommender],
    given: opt.Options,
    segments_file: Path | None = None,
    pool_below: int | None = None,
) -> Any:
    """Set the options of what is calibrated over users; return the segments of users."""
    settings = dict(given)
    groups = opt.as_groups(settings.get("segments"))
    if groups is not None:
        settings["segments"] = groups
    if "horizon" in settings:
        settings["horizon"] = opt.as_horizon(settings["horizon"])
    over_users = [each for each in made.values() if settings.keys() <= each.get_params().keys()]
    if not over_users:
        raise InputError(
            f"--{next(iter(settings))} is for what is calibrated over users: add "
            "--recommender recall-cm12 or hit-cm12."
        )
    for each in over_users:
        each.set_params(**settings)
    if (segments_file is None) != (groups is None or isinstance(groups, int)):
        raise InputError(
            "--segments-file needs the name of a column in --segments, such as "
            "--segments-file users.csv --segments country."
        )
    if pool_below is None:
        return segments_file
    if segments_file is None:
        raise InputError("--pool-below pools segments of --segments-file: name that too.")
    column = groups if isinstance(groups, str) else groups[0]  # type: ignore[index]
    return pool_segments(segments_file, column, min_users=pool_below)


def _show_saved(saved: dict[str, Recommender], skipped: dict[str, str], n_users: int) -> None:
    """Print what each saved recommender promises, why another was not, and what would be better."""
    width = max(map(len, saved))
    for place, (name, model) in enumerate(saved.items()):
        first = ", and answers where none is named" if place == 0 and len(saved) > 1 else ""
        headline = model.model_.calibration.headline(DEFAULT_CONFIDENCE)
        messages().print(f"  {name:<{width}}  {plain(headline)}{first}")
    for name, reason in skipped.items():
        messages().print(f"Without {name}: {plain(reason)}")
    if DEFAULT_NAMES[0] in saved and _SMALLER not in saved and n_users >= _THOUSANDS:
        messages().print(
            f"With so many users, --recommender {_SMALLER} has smaller sets (by a third to a half "
            "on MovieLens 1M): it is trained, which takes minutes and needs the extra "
            f"{plain('surerec[learn]')}.",
            style="dim",
        )


def _fit_on_spark(
    data: str,
    reading: opt.Options,
    model: Path,
    made: dict[str, Recommender],
    counting: opt.Options,
    session: opt.Options,
    more: opt.Options,
) -> None:
    if "query" in reading or is_address(data):
        raise InputError(
            "Spark reads no database here and takes no --query: write the rows into a Parquet file "
            "that the executors can read, or leave --engine spark away to read them in memory."
        )
    from surerec import spark  # noqa: PLC0415  # an extra

    sequence, task_memory = session.pop("sequence", None), session.pop("task_memory", None)
    if task_memory is not None:
        counting["task_memory"] = from_words(task_memory)
    how = spark.Counting(**counting)
    how.check(has_sequence=sequence is not None)
    read = opt.chosen(reading)
    begin = perf_counter()
    frame = spark.read_frame(spark.spark_session(**session), data, read.pop("columns", None))
    name = Path(data).name
    spark.fit_spark(frame, model, made, counting=how, sequence=sequence, name=name, **more, **read)
    counts = read_card(model)["counts"]
    messages().print(
        f"Counted {counts['rows']:,} interactions of {counts['users']:,} users and "
        f"{counts['items']:,} items on Spark in {perf_counter() - begin:.1f} s and saved "
        f"{', '.join(made)} in {plain(str(model))}."
    )
