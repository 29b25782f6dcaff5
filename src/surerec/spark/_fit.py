"""Counting and fitting on Spark: the driver plans and commits, executors do the rest."""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_whole
from surerec.errors import InputError
from surerec.interactions import read_titles
from surerec.precedence.counting import divide_budget
from surerec.recommenders import to_spec
from surerec.spark._profiles import stage_profiles
from surerec.spark._rows import Counting, RowCounting
from surerec.spark._session import cores, plain_errors, run_numbered, stage
from surerec.spark._source import read_source
from surerec.spark._staging import Staging
from surerec.storage import (
    adopt_model,
    check_free,
    load_model,
    seal_model,
    writing_errors,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from surerec.precedence import Direction, PrecedenceStatistics, Strategy
    from surerec.recommenders import Recommender
    from surerec.spark._staging import SealedArray
    from surerec.storage import FileRecord


_TASKS_A_CORE = 3  # so that a slow one does not keep all others waiting
_DIRECTIONS: tuple[Direction, ...] = ("followers", "predecessors")


def fit_spark(
    frame: DataFrame,
    folder: str | os.PathLike[str],
    recommenders: Mapping[str, Recommender],
    *,
    counting: Counting | None = None,
    overwrite: bool = False,
    min_profile_length: int = 1,
    name: str | None = None,
    origin: str | None = None,
    titles: Any = None,
    title: str | None = None,
    user_segments: Any = None,
    **reading: Any,
) -> PrecedenceStatistics:
    """Fit recommenders to a Spark DataFrame, into an ordinary model folder.

    Profiles are built and counted by the executors, which write the folder's files; the driver
    holds the ids of users and items and no more. :func:`surerec.load` opens the folder anywhere.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        With columns of users, items and times, and perhaps ratings and a sequence.
    folder : path-like
        The model folder to write, on a path that driver and executors share.
    recommenders : mapping of str to Recommender
        What to put in the folder, by name; not yet fitted.
    counting : Counting, optional
        How to count: the tie rule, the strategy, memory.
    overwrite : bool, default=False
        Replace the model of other statistics that the folder holds.
    min_profile_length : int, default=1
        Users with fewer items are left out.
    name, origin : str, optional
        What the data are, and where they came from, in words.
    titles : path, frame, mapping or pandas Series, optional
        Titles by item id, as in :func:`surerec.read_interactions`; the driver reads them.
    title : str, optional
        The column of `titles` that holds them, where it does not have a usual name.
    user_segments : mapping, pandas Series, frame or path, optional
        The segment of each user, for recommenders with a threshold for each segment, as in
        :meth:`surerec.PopulationConformal.fit`; the driver reads them.
    **reading
        ``user``, ``item``, ``time``, ``rating`` (columns), ``threshold``, ``time_format`` and
        ``skip_bad`` as in :func:`surerec.read_interactions`, and ``sequence``: the column of
        integers that says in which order rows come. If it numbers the rows of a file, the folder
        equals, byte for byte, that of the same fit in memory.

    Returns
    -------
    PrecedenceStatistics
        On the folder's memory-mapped files.

    Raises
    ------
    InputError
        One sentence that says what is wrong and what to do.
    """
    counting = counting or Counting()
    counting.check(has_sequence=reading.get("sequence") is not None)
    check_whole("min_profile_length", min_profile_length)
    if title is not None and titles is None:
        raise InputError(
            f"title is {title!r}, a column of titles=: Spark reads titles from a file or frame of "
            "item ids and titles; pass titles= in Python or --titles on the command line."
        )
    if titles is not None:
        titles = read_titles(titles, item=reading.get("item"), title=title)
    place = Path(folder).absolute()
    check_free(place)
    spark = frame.sparkSession
    with plain_errors(), _staging(place) as staging:
        n_tasks = _TASKS_A_CORE * cores(spark)
        with stage(spark, "Looking at the rows"):
            source = read_source(frame, **reading)
        profiles = stage_profiles(
            spark, source, staging, min_length=min_profile_length, n_tasks=n_tasks
        )
        rows = RowCounting(spark, staging, profiles, counting, n_tasks)
        strategy, in_parts, small = _count(rows)
        records = _seal(spark, staging, [*profiles.in_parts(), *in_parts])
        users, items = len(profiles.users), len(profiles.items)
        about = {
            "data": {"name": name, "origin": origin, "rows_read": asdict(profiles.rows_read)},
            "counts": {"users": users, "items": items, "rows": profiles.n_rows},
            "settings": {"ties": counting.ties, "rows": strategy},
        }
        seal_model(staging.model, about, {**profiles.maps(titles), **small}, records)
        statistics = load_model(staging.model, verify=False).statistics
        specs = {}
        for key, each in recommenders.items():
            segments = {"user_segments": user_segments} if "segments" in each.get_params() else {}
            specs[key] = to_spec(each.fit(statistics, **segments))
        adopt_model(staging.model, place, specs, overwrite=overwrite)
    return load_model(place, verify=False).statistics


def count_precedence_spark(
    frame: DataFrame, folder: str | os.PathLike[str], **options: Any
) -> PrecedenceStatistics:
    """Count who took what before what on Spark, into a model folder with no recommender yet.

    Parameters
    ----------
    frame, folder, **options
        As in :func:`fit_spark`.
    """
    return fit_spark(frame, folder, {}, **options)


@contextmanager
def _staging(place: Path) -> Iterator[Staging]:
    """Yield a folder beside the model's, so that files move by a rename; it always vanishes."""
    folder = place.parent / f".{place.name}.{secrets.token_hex(4)}.spark"
    with writing_errors(place):
        folder.mkdir(parents=True)
        (folder / "model").mkdir()
        # Executors may run as another user of the same group.
        folder.chmod(0o770)
        (folder / "model").chmod(0o770)
    try:
        yield Staging(str(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _seal(
    spark: SparkSession, staging: Staging, arrays: list[SealedArray]
) -> dict[str, FileRecord]:
    """Let executors join parts into the model's files, one task a file."""
    largest_first = sorted(arrays, key=lambda array: -array.nbytes)  # none is left over
    sealed = run_numbered(
        spark, len(arrays), lambda k: staging.seal(largest_first[k]), "Writing the model"
    )
    return dict(sealed)


def _count(rows: RowCounting) -> tuple[Strategy, list[SealedArray], dict[str, NDArray[Any]]]:
    """Count what the model is to hold; return the strategy, and the arrays in parts and small."""
    counting, counter = rows.counting, rows.widest
    strategy = counting.strategy_for(rows.n_items, counter)
    if strategy == "bounded":  # by counts that may turn out narrower
        counter = rows.counter()
        strategy = counting.strategy_for(rows.n_items, counter)
    if strategy == "dense":
        return strategy, rows.dense(), {}
    in_parts = rows.index()
    offsets = np.concatenate(([0], np.cumsum(rows.profiles.support, dtype=np.int64)))
    small = {"following_offsets": offsets, "preceding_offsets": offsets}
    if strategy == "bounded":
        for_each, _ = divide_budget(counting.memory)
        for direction in _DIRECTIONS:
            held, made = rows.held(direction, counter, for_each)
            in_parts += held
            small |= made
    return strategy, in_parts, small
