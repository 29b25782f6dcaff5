"""The fit command, in memory or on Spark."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
import typer

from surerec._memory import parse_bytes
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

_USER_LEVEL: Final = {
    "horizon": Option(float, "Held-out part: a share of each history (0.4) or next items (5)."),
    "threshold": Option(
        Literal["rank", "score", "learned"],
        "Unit of thresholds: rank gives equal sizes, score and learned adapt them.",
    ),
    "segments": Option(
        str, "Segments by history length (3), by a column (country), or both (country,3)."
    ),
    "window": Option(float, "Calibrate on this many last days of the data."),
    "max_seconds": Option(float, "Time after which recall-auto tries no further measure."),
}
_SEGMENTS: Final = {
    "user_segments": Option(Path, "Table of users with the column of --segments."),
    "pool_below": Option(int, "Pool segments with fewer users into 'other'."),
}
_COUNTING: Final = {
    "ties": Option(Literal["order", "strict"], opt.TIES, "order"),
    "strategy": Option(Literal["auto", "dense", "bounded"], "How counts are stored.", "auto"),
    "memory": Option(str, "Memory for counts, such as 2GB; half of the free memory by default."),
}
_ENGINE: Final = {
    **opt.ENGINE,
    "sequence": Option(str, "Integer column with the order of the rows, on Spark."),
    "task_memory": Option(str, "Memory for the counts of one Spark task; 256MB by default."),
}
_SMALLER = "recall-auto", "recall-learned"
_NEEDED = round(1 / (1 - DEFAULT_CONFIDENCE)) - 1  # calibration users, to leave any item out
_ENOUGH_TO_TRAIN = 500  # users; measured on MovieLens 100K with 943


@opt.accepts(
    reading=opt.READING,
    user_level=_USER_LEVEL,
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
        typer.Option(help="Name from above; may be repeated; recall-cm12 and icrs12 by default."),
    ] = None,
    user_level: Any,
    segments: Any,
    counting: Any,
    overwrite: opt.Overwrite = False,
    engine: Any,
) -> None:
    """Fit recommenders to interactions, and save them in a model folder.

    The folder contains users' histories; protect it like the data.

    [bold]Recommenders:[/bold]

    recall-cm12: sets with a recall of at least the confidence level, on average over users

    hit-cm12: sets with at least one of the next 5 items, for that share of users

    precision-cm12: short sets, of which a stated share is consumed

    icrs12 (icrs1 … icrs17): the paper's item-level sets, for users whose taste does not drift

    crs-max, crs-med: the transductive predecessor; precedence-mining,
    precedence-mining-top1: rankings without a guarantee

    Instead of cm12, use any of cm1 … cm13, ncm14 … ncm17, learned or als (icrs-learned,
    icrs-als); `surerec measures` describes them. recall-auto, hit-auto and precision-auto try cm12,
    als and learned, and keep the one with the smallest sets.

    [bold]Examples:[/bold]

    surerec fit ml-1m films

    surerec fit ratings.csv shop --recommender icrs12 --recommender crs-max

    surerec fit ml-1m films --recommender recall-cm12 --recommender hit-cm12

    surerec fit ratings.csv shop --recommender recall-cm12 --segments country --user-segments
    users.csv

    surerec fit /shared/ratings.parquet /shared/films --engine spark --master spark://host:7077
    --sequence row
    """
    on_spark, session = opt.check_engine(engine)
    standard = DEFAULT_NAMES[1:] if on_spark else DEFAULT_NAMES
    made = {name.lower(): make_recommender(name) for name in recommender or standard}
    user_segments = _set_user_level(made, user_level, **segments)
    if "memory" in counting:
        counting["memory"] = parse_bytes(counting["memory"])
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
            ("surerec", "recommend", str(model), "--user", longest): "recommend to a user",
            ("surerec", "audit", str(model)): "check the guarantees on these data",
            ("surerec", "serve", str(model)): "open the model in your browser",
        }
    )


def _check_supported(n: int) -> None:
    """Refuse a default recommender with too few calibration users to leave any item out."""
    if n < _NEEDED:
        raise InputError(
            f"A confidence of {DEFAULT_CONFIDENCE:g} needs at least {_NEEDED} calibration users "
            f"with 5 known items and later ones; the data have {n}."
        )


def _set_user_level(
    made: dict[str, Recommender],
    given: opt.Options,
    user_segments: Path | None = None,
    pool_below: int | None = None,
) -> Any:
    """Set the parameters of user-level recommenders; return the segments of users."""
    settings = dict(given)
    segments = opt.as_segments(settings.get("segments"))
    if segments is not None:
        settings["segments"] = segments
    if "horizon" in settings:
        settings["horizon"] = opt.as_horizon(settings["horizon"])
    user_level = [each for each in made.values() if settings.keys() <= each.get_params().keys()]
    if not user_level:
        raise InputError(
            f"{opt.flag(next(iter(settings)))} applies to user-level recommenders only; add "
            "--recommender recall-cm12 or hit-cm12."
        )
    for each in user_level:
        each.set_params(**settings)
    if (user_segments is None) != (segments is None or isinstance(segments, int)):
        raise InputError(
            "A column in --segments and --user-segments go together, such as "
            "--segments country --user-segments users.csv."
        )
    if pool_below is None:
        return user_segments
    if user_segments is None:
        raise InputError("--pool-below pools the segments of a file; add --user-segments.")
    column = segments if isinstance(segments, str) else segments[0]  # type: ignore[index]
    return pool_segments(user_segments, column, min_users=pool_below)


def _show_saved(saved: dict[str, Recommender], skipped: dict[str, str], n_users: int) -> None:
    """Print what each saved recommender guarantees, which were skipped, and what to try."""
    width = max(map(len, saved))
    for place, (name, model) in enumerate(saved.items()):
        first = " (default)" if place == 0 and len(saved) > 1 else ""
        headline = plain(model.model_.calibration.headline(DEFAULT_CONFIDENCE))
        messages().print(f"  {name:<{width}}  {headline}{first}")
        for tried in getattr(model, "choice_", ()):
            kept = ", kept" if tried.measure == getattr(model, "measure_", "") else ""
            messages().print(f"    {plain(str(tried))}{kept}")
    for name, reason in skipped.items():
        messages().print(f"Skipped {name}: {plain(reason)}")
    is_basic = DEFAULT_NAMES[0] in saved and saved.keys().isdisjoint(_SMALLER)
    if is_basic and n_users >= _ENOUGH_TO_TRAIN:
        messages().print(
            f"Try --recommender {_SMALLER[0]} for smaller sets (by a third to a half on MovieLens "
            "1M). It compares CM12, ALS and the learned measure, takes minutes and needs the "
            f"extras {plain('surerec[als,learn]')}.",
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
            "--engine spark does not read databases (--query). Write the rows to a Parquet file "
            "that the executors can read, or drop --engine spark."
        )
    from surerec import spark  # noqa: PLC0415  # an extra

    sequence, task_memory = session.pop("sequence", None), session.pop("task_memory", None)
    if task_memory is not None:
        counting["task_memory"] = parse_bytes(task_memory)
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
