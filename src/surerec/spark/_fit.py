"""Counting and fitting on Spark; the driver plans and commits, and executors compute."""

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


_TASKS_A_CORE = 3  # to balance slow tasks
_DIRECTIONS: tuple[Direction, ...] = ("followers", "predecessors")


def fit_spark(
    frame: DataFrame,
    folder: str | os.PathLike[str],
    recommenders: Mapping[str, Recommender] | None = None,
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
    """Fit recommenders to a Spark DataFrame, and save them in an ordinary model folder.

    Executors build and count the profiles and write the files. The driver holds only the ids of
    users and items. :func:`surerec.load` opens the folder anywhere.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Has columns of users, items and times, and optionally ratings and a sequence.
    folder : path-like
        Model folder to write, on a path that driver and executors share.
    recommenders : mapping of str to Recommender, optional
        Unfitted recommenders, by name; by default none, for the statistics only.
    counting : Counting, optional
        Tie rule, storage strategy and memory.
    overwrite : bool, default=False
        Replace a model with other statistics.
    min_profile_length : int, default=1
        Leave out users with fewer items.
    name, origin : str, optional
        Name and source of the data.
    titles : path, frame, mapping or pandas Series, optional
        Titles by item id, as in :func:`surerec.read_interactions`; the driver reads them.
    title : str, optional
        Title column of `titles`, if it has an unusual name.
    user_segments : mapping, pandas Series, frame or path, optional
        Segment of each user, for recommenders with `segments`, as in
        :meth:`surerec.PopulationConformal.fit`; the driver reads them.
    **reading
        ``user``, ``item``, ``time``, ``rating`` (columns), ``rating_above``, ``time_format``,
        ``skip_bad`` as in :func:`surerec.read_interactions`, and ``sequence``, an integer column
        with the order of rows. If it numbers the rows of a file, the folder equals that of the same
        fit in memory, byte for byte.

    Returns
    -------
    PrecedenceStatistics
        Statistics on the memory-mapped files of the folder.

    Raises
    ------
    InputError
        If the data, the options or the folder cannot be used, or Spark fails.
    """
    counting = counting or Counting()
    counting.check(has_sequence=reading.get("sequence") is not None)
    check_whole("min_profile_length", min_profile_length)
    if title is not None and titles is None:
        raise InputError(
            f"title is {title!r}, a column of titles=, which is missing. Pass a file or frame of "
            "titles as titles= (--titles)."
        )
    if titles is not None:
        titles = read_titles(titles, item=reading.get("item"), title=title)
    place = Path(folder).absolute()
    check_free(place)
    spark = frame.sparkSession
    with plain_errors(), _staging(place) as staging:
        n_tasks = _TASKS_A_CORE * cores(spark)
        with stage(spark, "Checking rows"):
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
        for key, each in (recommenders or {}).items():
            segments = {"user_segments": user_segments} if "segments" in each.get_params() else {}
            specs[key] = to_spec(each.fit(statistics, **segments))
        adopt_model(staging.model, place, specs, overwrite=overwrite)
    return load_model(place, verify=False).statistics


@contextmanager
def _staging(place: Path) -> Iterator[Staging]:
    """Yield a temporary folder beside the model, so that files can be renamed into it."""
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
    """Join parts into the files of the model on executors, one task per file."""
    largest_first = sorted(arrays, key=lambda array: -array.nbytes)  # balances the tasks
    sealed = run_numbered(
        spark, len(arrays), lambda k: staging.seal(largest_first[k]), "Writing the model"
    )
    return dict(sealed)


def _count(rows: RowCounting) -> tuple[Strategy, list[SealedArray], dict[str, NDArray[Any]]]:
    """Count the rows of the model; return the strategy, the arrays in parts and the small ones."""
    counting, counter = rows.counting, rows.widest
    strategy = counting.strategy_for(rows.n_items, counter)
    if strategy == "bounded":  # the counts may fit a narrower type
        counter = rows.counter()
        strategy = counting.strategy_for(rows.n_items, counter)
    if strategy == "dense":
        return strategy, rows.dense(), {}
    in_parts = rows.index()
    offsets = np.concatenate(([0], np.cumsum(rows.profiles.support, dtype=np.int64)))
    small = {"following_offsets": offsets, "preceding_offsets": offsets}
    for_each, _ = divide_budget(counting.memory)
    for direction in _DIRECTIONS:
        held, made = rows.held(direction, counter, for_each)
        in_parts += held
        small |= made
    return strategy, in_parts, small
