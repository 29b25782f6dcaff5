"""Stage after stage, executors write the files of a model into the staging folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.errors import InputError
from surerec.spark._index import IndexItems
from surerec.spark._jobs import collect, map_arrow, run_numbered, settings
from surerec.spark._plan import item_blocks
from surerec.spark._profiles import BuildProfiles, Part, WriteProfiles, code_part
from surerec.spark._staging import SealedArray, Staging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from surerec.interactions import RowsRead
    from surerec.precedence import Direction
    from surerec.spark._source import Source


_ROWS_WORTH_A_TASK = 25_000
_ROWS_A_PART = 2_000_000
_ROWS_AN_INDEX = 4_000_000
_PROFILES_A_BATCH = 2_000
_BYTES_A_BATCH = 64 << 20  # Spark 4.1 heeds it; profiles may be long


@dataclass(frozen=True)
class StagedProfiles:
    """Profiles that are in the staging folder, by code; here are only their maps."""

    parts: tuple[Part, ...]
    items: pl.Series
    """Ids by code."""
    support: NDArray[np.uint32]
    rows_read: RowsRead

    @property
    def n_users(self) -> int:
        """Number of users."""
        return sum(part.n_users for part in self.parts)

    @property
    def n_rows(self) -> int:
        """Number of interactions."""
        return sum(part.n_rows for part in self.parts)

    @property
    def index_type(self) -> str:
        """The type of places in the profiles."""
        return "uint32" if self.n_rows < 2**32 else "uint64"

    def arrays(self) -> list[SealedArray]:
        """Give the model's arrays of profiles that lie in parts."""
        return [
            SealedArray(role, dtype, (self.n_rows,), tuple(part.name(role) for part in self.parts))
            for role, dtype in (("items_taken", "uint32"), ("times", "int64"))
        ]


def tasks_for(n_rows: int, n_tasks: int) -> int:
    """Give fewer tasks to few rows, as each costs some time of its own.

    Examples
    --------
    >>> tasks_for(50_000, n_tasks=12), tasks_for(1_000_000, n_tasks=12)
    (2, 12)
    """
    return max(1, min(n_tasks, -(-n_rows // _ROWS_WORTH_A_TASK)))


def stage_profiles(
    spark: SparkSession, source: Source, staging: Staging, *, min_length: int, n_tasks: int
) -> StagedProfiles:
    """Build the profiles in the order of users, and give items their codes by popularity."""
    n_parts = max(tasks_for(source.n_rows, n_tasks), -(-source.n_rows // _ROWS_A_PART))
    firsts = _first_seen(spark, source)
    build = BuildProfiles((source.user_type, source.item_type))
    rows = source.rows.repartition(n_parts, "user").sortWithinPartitions(
        "user", "time", "sequence", "item"
    )
    # Kept, because Spark looks at all of it once more to cut it into ranges.
    profiles = map_arrow(rows, build, build.schema).persist()
    in_order = (
        profiles.repartitionByRange(n_parts, "first", "user")
        .sortWithinPartitions("first", "user")
        .selectExpr("*", "spark_partition_id() as part")
    )
    write = WriteProfiles(staging, min_length, source.item_type)
    with settings(
        spark,
        execution__arrow__maxRecordsPerBatch=_PROFILES_A_BATCH,
        execution__arrow__maxBytesPerBatch=_BYTES_A_BATCH,
    ):
        written = map_arrow(in_order, write, write.schema)
        query = "select item, sum(support) as support from {written} group by item"
        try:
            table = collect(spark.sql(query, written=written), "Building profiles")
        finally:
            profiles.unpersist()
    parts, facts = _parts(staging)
    support = pl.DataFrame(pl.from_arrow(table))
    if not len(support):
        raise InputError(f"The Spark DataFrame: no user took {min_length} items or more.")
    if firsts is not None:
        support = support.join(firsts, on="item", how="left")
        support = support.sort("support", "first", "item", descending=[True, False, False])
    else:
        support = support.sort("support", "item", descending=[True, False])
    staging.write_ids("items", support["item"])
    run_numbered(
        spark, len(parts), lambda k: code_part(staging, parts[k]), "Giving items their codes"
    )
    read = replace(source.rows_read, repeats=facts["repeats"], short_profiles=facts["short"])
    counts = support["support"].to_numpy().astype(np.uint32)
    return StagedProfiles(parts, support["item"], counts, read)


def _first_seen(spark: SparkSession, source: Source) -> pl.DataFrame | None:
    """Say when each item was first seen in the source, if its rows have an order."""
    if not source.has_sequence:
        return None
    query = "select item, min(sequence) as first from {rows} group by item"
    return pl.DataFrame(
        pl.from_arrow(collect(spark.sql(query, rows=source.rows), "Numbering items"))
    )


def _parts(staging: Staging) -> tuple[tuple[Part, ...], dict[str, int]]:
    """Give the parts that hold somebody, in order, and what became of the others."""
    parts, first_row, total = [], 0, {"repeats": 0, "short": 0}
    for path in sorted(staging.path("").glob("profiles-??????")):
        facts = staging.facts(path.name)
        total = {key: total[key] + facts[key] for key in total}
        if facts["users"]:
            number = int(path.name.removeprefix("profiles-"))
            parts.append(Part(number, facts["users"], first_row, facts["rows"]))
        first_row += facts["rows"]
    return tuple(parts), total


def index_items(
    spark: SparkSession, staging: Staging, profiles: StagedProfiles, *, strict: bool, n_tasks: int
) -> tuple[list[SealedArray], dict[Direction, NDArray[np.int64]]]:
    """Write the spans of every item; give the arrays, and the work of each item by direction."""
    n_tasks = tasks_for(profiles.n_rows, n_tasks)
    n_blocks = max(n_tasks, -(-profiles.n_rows // _ROWS_AN_INDEX))
    blocks = item_blocks(profiles.support, n_blocks, len(profiles.support))
    task = IndexItems(staging, profiles.parts, blocks, profiles.index_type, strict)
    run_numbered(spark, len(blocks), task, "Indexing profiles by item")

    def names(role: str) -> tuple[str, ...]:
        return tuple(f"{role}-{k:06d}" for k in range(len(blocks)))

    arrays = [
        SealedArray(role, profiles.index_type, (profiles.n_rows,), names(role))
        for side in ("following", "preceding")
        for role in (f"{side}_starts", f"{side}_stops")
    ]
    sides: dict[str, Direction] = {"following": "followers", "preceding": "predecessors"}
    work = {
        direction: np.concatenate([staging.array(name, "int64") for name in names(f"{side}_work")])
        for side, direction in sides.items()
    }
    return arrays, work


def seal_arrays(
    spark: SparkSession, staging: Staging, arrays: Sequence[SealedArray]
) -> list[tuple[str, int, str]]:
    """Join parts into the model's files, one task a file; give name, size and checksum of each."""

    def seal(number: int) -> tuple[str, int, str]:
        name, record = staging.seal(arrays[number])
        return name, record.bytes, record.sha256

    return [tuple(x) for x in run_numbered(spark, len(arrays), seal, "Writing the model")]
