"""Recommending on Spark; each worker maps the model once."""

from __future__ import annotations

import secrets
import shutil
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from surerec._columns import Columns
from surerec._files import follow
from surerec._inputs import as_input_error
from surerec.errors import InputError, LeftOutWarning
from surerec.interactions import read_members
from surerec.recommenders import load
from surerec.spark._session import cores, map_arrow, stage

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Unpack

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from surerec.recommenders import Recommender, RecommendOptions, RequestOptions


_USERS_AT_ONCE = 256
_TASKS_A_CORE = 8
_DDL = {pl.String: "string", pl.Float64: "double", pl.Boolean: "boolean"}


@lru_cache(maxsize=2)
def _model(
    folder: str,
    recommender: str | None,
    scorer: str | None,
    updated: float,  # noqa: ARG001
) -> Recommender:
    """Map a model once per worker, and again after it was replaced."""
    return load(folder, recommender, scorer=scorer, verify=False)


@dataclass(frozen=True)
class _Recommend:
    """Recommend to blocks of users, or of groups."""

    folder: str
    recommender: str | None
    scorer: str | None
    updated: float
    users: NDArray[np.int64] | None
    """User codes; None for all users."""
    n: int
    """Number of users or groups."""
    at_once: int
    options: RecommendOptions
    groups: list[tuple[str, list[Any]]] | None = None
    """Names and members of groups, instead of users."""
    group_guarantee: str | None = None

    def rows(self, block: int) -> pl.DataFrame:
        """Return the rows of one block of users or groups."""
        model = _model(self.folder, self.recommender, self.scorer, self.updated).model_
        here = slice(block * self.at_once, min((block + 1) * self.at_once, self.n))
        if self.groups is not None:
            return model.group_rows(dict(self.groups[here]), self.options, self.group_guarantee)
        codes = np.arange(here.start, here.stop) if self.users is None else self.users[here]
        # By code, because sorting millions of ids in each worker is slower than most answers.
        return model.rows_of(codes, self.options)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        for batch in batches:
            for block in batch.column(0).to_pylist():
                yield from (
                    _plain(self.rows(block))
                    .to_arrow(compat_level=pl.CompatLevel.oldest())
                    .to_batches()
                )


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Cast integers to Int64, because Spark has no unsigned types."""
    return frame.with_columns(pl.selectors.integer().cast(pl.Int64))


def recommend_spark(
    spark: SparkSession,
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    users: Sequence[Any] | None = None,
    *,
    groups: Any = None,
    group_guarantee: str | None = None,
    recommender: str | None = None,
    scorer: str | None = None,
    **given: Unpack[RequestOptions],
) -> int:
    """Recommend to many users on Spark, and write a folder of Parquet files.

    Parameters
    ----------
    spark : SparkSession
        Spark session.
    model : path-like
        Model folder on a path that driver and executors share.
    output : path-like
        Folder to write, on a shared path; it appears when it is complete. The metadata of the
        column ``covered`` hold the guarantee and the recommender.
    users : sequence of ids, optional
        Users of the model; all by default.
    groups : mapping, frame or path, optional
        Groups instead of users, as in :meth:`surerec.PopulationConformal.recommend_groups`.
        Members are users of the model, and the group sizes must be calibrated.
    group_guarantee : str, optional
        The group guarantee, as in :meth:`surerec.PopulationConformal.recommend`.
    recommender : str, optional
        Name in the model folder; the first one by default.
    scorer : str, optional
        Where executors import the scorer from, as in :func:`surerec.load`.
    **given
        Request options of :meth:`surerec.PopulationConformal.recommend_many`.

    Returns
    -------
    int
        Number of rows.
    """
    place, folder = follow(Path(output).absolute()), Path(model).absolute()
    if place.exists():
        raise InputError(f"{place} already exists; choose a new folder, or remove it.")
    fitted = load(folder, recommender, scorer=scorer, verify=False)
    options = fitted.model_.options(**given)
    codes, members = None, None
    if groups is None:
        codes, n = _users(fitted, users, given.get("unknown", "check"))
    else:
        members = _groups(fitted, groups, users)
        n = len(members)
    aside = place.parent / f".{place.name}.{secrets.token_hex(4)}.spark"
    advice = "Choose a folder that the driver and all executors can write to."
    with as_input_error(place, "cannot be written", advice):
        aside.mkdir(parents=True)
    try:
        task = _Recommend(
            str(folder),
            recommender,
            scorer,
            (folder / "manifest.json").stat().st_mtime,
            codes,
            n,
            _at_once(spark, n),
            options,
            None if members is None else list(members.items()),
            group_guarantee,
        )
        guarantee = (
            fitted.model_.guarantee_to_all(options)
            if members is None
            else fitted.model_.guarantee_to_groups(members, options, group_guarantee)
        )
        about = {"surerec.recommender": fitted.name_, "surerec.guarantee": str(guarantee)}
        n_rows = _write(spark, task, aside / "rows", about)
        (aside / "rows").replace(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return n_rows


def _users(
    fitted: Recommender, users: Sequence[Any] | None, unknown: str
) -> tuple[NDArray[np.int64] | None, int]:
    """Return the codes of users (None for all) and their number."""
    interactions = fitted.model_.profiles()
    codes = None
    if users is not None:
        found = interactions.users.select(users, unknown)
        codes = found.codes
        if found.skipped:
            warnings.warn(found.message, LeftOutWarning, stacklevel=3)
    n = interactions.n_users if codes is None else len(codes)
    if not n:
        raise InputError("users is empty; pass at least one user id.")
    return codes, n


def _groups(fitted: Recommender, groups: Any, users: Sequence[Any] | None) -> dict[str, list[Any]]:
    """Return the members of groups by name; refuse group sizes that are not calibrated."""
    if users is not None:
        raise InputError("Pass users= or groups=, not both.")
    known = fitted.model_.profiles().users
    members = {
        str(name): known.ids.gather(known.require(some)).to_list()
        for name, some in read_members(groups).items()
    }
    if not members:
        raise InputError("groups is empty; pass at least one group.")
    model = fitted.model_
    sizes = None if model.groups is None else model.groups.sizes
    missing = sorted({len(some) for some in members.values()} - set(sizes or ()))
    if sizes is not None and missing:
        raise InputError(
            f"{fitted.name_} is not calibrated for groups of {', '.join(map(str, missing))}. Call "
            "calibrate_groups(…) and save the model, or run surerec groups."
        )
    return members


def _at_once(spark: SparkSession, n: int) -> int:
    """Return the block size, so that all cores have work and memory is bounded."""
    return max(1, min(_USERS_AT_ONCE, n // (_TASKS_A_CORE * cores(spark))))


def _write(spark: SparkSession, task: _Recommend, folder: Path, about: dict[str, str]) -> int:
    n_blocks = -(-task.n // task.at_once)
    n_tasks = min(n_blocks, _TASKS_A_CORE * cores(spark))
    first = _plain(task.rows(0))
    schema = ", ".join(
        f"{name} {_DDL.get(type(kind), 'bigint')}" for name, kind in first.schema.items()
    )
    rows = map_arrow(spark.range(0, n_blocks, 1, n_tasks), task, schema)
    rows = rows.withMetadata(Columns.Covered, about)  # Spark has no metadata of files
    with stage(spark, "Recommending"):
        rows.write.option("compression", "zstd").parquet(f"file://{folder}")
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))
