"""Stage after stage, executors write the files of a model into the staging folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.errors import InputError
from surerec.spark._arranging import arrange, write_part
from surerec.spark._bundles import N_BUCKETS, BundleRows, Bundles
from surerec.spark._index import IndexItems
from surerec.spark._jobs import collect, map_arrow, run_numbered, settings
from surerec.spark._plan import item_blocks
from surerec.spark._profiles import BuildProfiles, Part
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
_ROWS_A_BATCH = 20_000
_NO_LIMIT = 2**31 - 1  # of bytes a batch; with any other Spark adds them up after every row


@dataclass(frozen=True)
class StagedProfiles:
    """Profiles that are in the staging folder, by code; here are only their maps."""

    parts: tuple[Part, ...]
    users: pl.Series
    """Ids in order."""
    lengths: NDArray[np.int64]
    """Items of each user."""
    items: pl.Series
    """Ids by code."""
    support: NDArray[np.uint32]
    rows_read: RowsRead

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.users)

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
    bundle = BundleRows(staging, source.threshold)
    rows = source.rows.selectExpr("*", f"pmod(hash(user), {N_BUCKETS}) as bucket")
    with settings(
        spark,
        execution__arrow__maxRecordsPerBatch=_ROWS_A_BATCH,
        execution__arrow__maxBytesPerBatch=_NO_LIMIT,
    ):
        bundles = Bundles.told(collect(map_arrow(rows, bundle, bundle.schema), "Reading rows"))
    read = source.rows_read or source.checked(bundles.facts)
    n_parts = max(tasks_for(bundles.n_rows, n_tasks), -(-bundles.n_rows // _ROWS_A_PART))
    n_shares = bundles.deal(staging, n_parts)
    build = BuildProfiles(staging, min_length, source.item_type)
    built = map_arrow(spark.range(0, n_shares, 1, n_shares), build, build.schema)
    query = "select item, sum(support) as support, min(first) as first from {built} group by item"
    table = collect(spark.sql(query, built=built), "Building profiles")
    items = (
        pl.DataFrame(pl.from_arrow(table))
        .filter(pl.col("support") > 0)
        .sort("support", "first", "item", descending=[True, False, False])
    )
    if not len(items):
        raise InputError(f"The Spark DataFrame: no user took {min_length} items or more.")
    staging.write_ids("items", items["item"])
    arrangement = arrange(staging)
    parts, buckets = arrangement.parts(n_parts), arrangement.buckets
    arrangement.write(staging, parts)
    run_numbered(
        spark, len(parts), lambda k: write_part(staging, buckets, parts[k]), "Arranging profiles"
    )
    return StagedProfiles(
        parts,
        arrangement.users,
        arrangement.lengths,
        items["item"],
        items["support"].to_numpy().astype(np.uint32),
        replace(read, repeats=arrangement.n_repeats, short_profiles=arrangement.n_short),
    )


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
    largest_first = sorted(arrays, key=lambda array: -array.nbytes)  # none is left for the end

    def seal(number: int) -> tuple[str, int, str]:
        name, record = staging.seal(largest_first[number])
        return name, record["bytes"], record["sha256"]

    return [tuple(x) for x in run_numbered(spark, len(arrays), seal, "Writing the model")]
