"""Profiles on executors: from all rows of some users to parts in the order of all users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from surerec._threads import equal_blocks
from surerec.errors import InputError
from surerec.interactions import build_profiles, encode, select_profiles
from surerec.spark._bundles import N_BUCKETS, BundleRows, Bundles, read_share
from surerec.spark._session import collect, map_arrow, run_numbered, settings
from surerec.spark._staging import SealedArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from surerec.interactions import RowsRead
    from surerec.spark._source import SparkRows
    from surerec.spark._staging import Staging


@dataclass(frozen=True)
class Arrangement:
    """Who comes when, as the driver knows it."""

    buckets: tuple[int, ...]
    users: pl.Series
    """Ids in order."""
    lengths: NDArray[np.int64]
    owners: NDArray[np.uint32]
    """The bucket of each user, by its place among `buckets`; a bucket's users are in order."""
    n_repeats: int
    n_short: int

    def parts(self, n_parts: int) -> tuple[ProfilePart, ...]:
        """Cut users into parts of about as many rows."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))
        return tuple(
            ProfilePart(number, last - first, int(ends[first]), int(ends[last] - ends[first]))
            for number, (first, last) in enumerate(equal_blocks(self.lengths, n_parts))
        )

    def write(self, staging: Staging, parts: tuple[ProfilePart, ...]) -> None:
        """Write what the tasks have to know: each part's users, and its rows in each bucket."""
        first_user, first_rows = 0, np.zeros(len(self.buckets), dtype=np.int64)
        for part in parts:
            users = slice(first_user, first_user + part.n_users)
            lengths, owners = self.lengths[users], self.owners[users]
            rows = np.zeros_like(first_rows)
            np.add.at(rows, owners, lengths)
            staging.write_array(part.name("lengths"), lengths)
            staging.write_array(part.name("owners"), owners)
            staging.write_array(part.name("slices"), np.stack([first_rows, rows]))
            first_user, first_rows = users.stop, first_rows + rows


def arrange(staging: Staging) -> Arrangement:
    """Put the users of all buckets in the order of their first rows, or of their ids."""
    names = sorted(path.name for path in staging.path("").glob("bucket-??????"))
    facts = [staging.facts(name) for name in names]
    numbers = [int(name.removeprefix("bucket-")) for name in names]
    frames = [
        pl.DataFrame(
            {
                "user": staging.ids(f"bucket_users-{number:06d}"),
                "first": staging.array(f"bucket_firsts-{number:06d}", "int64"),
                "length": staging.array(f"bucket_lengths-{number:06d}", "int64"),
            }
        ).with_columns(owner=pl.lit(place, pl.UInt32))
        for place, number in enumerate(numbers)
    ]
    users = pl.concat(frames).sort("first", "user")
    return Arrangement(
        tuple(numbers),
        users["user"],
        users["length"].to_numpy(),
        users["owner"].to_numpy(),
        sum(each["repeats"] for each in facts),
        sum(each["short"] for each in facts),
    )


def write_part(staging: Staging, buckets: tuple[int, ...], part: ProfilePart) -> None:
    """Write a part's items by code and its times, from its slice of each bucket."""
    ids = staging.ids("items")
    table = pl.DataFrame({"id": ids, "code": np.arange(len(ids), dtype=np.uint32)})
    first_rows, n_rows = staging.array(part.name("slices"), "int64").reshape(2, -1).tolist()
    items, times = np.empty(part.n_rows, np.uint32), np.empty(part.n_rows, np.int64)
    done = 0
    for bucket, first, n in zip(buckets, first_rows, n_rows, strict=True):
        if not n:
            continue
        known = staging.ids(f"bucket_ids-{bucket:06d}").to_frame()
        codes = known.join(table, on="id", how="left", maintain_order="left")["code"].to_numpy()
        some = staging.array(f"bucket_items-{bucket:06d}", "uint32", first, n)
        items[done : done + n] = codes[some]
        times[done : done + n] = staging.array(f"bucket_times-{bucket:06d}", "int64", first, n)
        done += n
    lengths = staging.array(part.name("lengths"), "int64")
    # Slices lie end to end, each in the order of its users.
    by_bucket = np.argsort(staging.array(part.name("owners"), "uint32"), kind="stable")
    sources = np.empty(len(lengths), dtype=np.int64)
    sources[by_bucket] = np.cumsum(lengths[by_bucket]) - lengths[by_bucket]
    _, items, times = select_profiles(sources, lengths, items, times)
    staging.write_array(part.name("items_taken"), items)
    staging.write_array(part.name("times"), times)


@dataclass(frozen=True)
class BuildProfiles:
    """Build the profiles of a bucket of users, from all their rows; say which items they have.

    They are written in the order of users, as a bucket: ids, the first row and the length of each
    user, and items, by their number among the bucket's ids, and times. Memory is that of a
    bucket's rows.
    """

    staging: Staging
    min_length: int
    item_type: str

    @property
    def schema(self) -> str:
        """What comes out, in Spark's words."""
        return f"item {self.item_type}, support bigint, first bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self._build(number, in_order(read_share(self.staging, number)))

    def _build(self, bucket: int, rows: pl.DataFrame) -> pa.RecordBatch:
        (users, user_codes), (items, item_codes) = encode(rows["user"]), encode(rows["item"])
        times, sequence = rows["time"].to_numpy(), rows["sequence"].to_numpy()
        profiles = build_profiles(
            user_codes, item_codes, times, len(users), len(items), min_length=self.min_length
        )
        lengths = np.diff(profiles.offsets)
        name = f"{bucket:06d}"
        kept = users.gather(profiles.users_kept)
        firsts = sequence[first_places(user_codes, len(users))][profiles.users_kept]
        self.staging.write_ids(f"bucket_users-{name}", kept)
        self.staging.write_array(f"bucket_firsts-{name}", firsts)
        self.staging.write_array(f"bucket_lengths-{name}", lengths)
        self.staging.write_ids(f"bucket_ids-{name}", items.gather(profiles.items_kept))
        self.staging.write_array(f"bucket_items-{name}", profiles.items)
        self.staging.write_array(f"bucket_times-{name}", profiles.times)
        facts = {"repeats": profiles.n_repeats, "short": profiles.n_short}
        self.staging.write_facts(f"bucket-{name}", facts)
        support = np.zeros(len(items), dtype=np.int64)
        # Items of short profiles alone are told as well: they may be first seen here.
        support[profiles.items_kept] = np.bincount(
            profiles.items, minlength=len(profiles.items_kept)
        )
        return pa.RecordBatch.from_pydict(
            {
                "item": items.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(
                    pa.string() if self.item_type == "string" else pa.int64()
                ),
                "support": pa.array(support),
                "first": pa.array(sequence[first_places(item_codes, len(items))]),
            }
        )


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows by sequence, those that share one by user and item.

    Examples
    --------
    >>> rows = {"user": [1, 2, 1], "item": [5, 6, 4], "time": [0, 0, 0], "sequence": [7, 3, 7]}
    >>> in_order(pl.DataFrame(rows))["item"].to_list()
    [6, 4, 5]
    """
    order = np.argsort(rows["sequence"].to_numpy(), kind="stable")
    ordered = pl.DataFrame(
        {
            each.name: each.gather(order) if each.dtype == pl.String else each.to_numpy()[order]
            for each in rows
        }
    )
    sequence = ordered["sequence"].to_numpy()
    if (sequence[1:] == sequence[:-1]).any():
        return rows.sort("sequence", "user", "item")
    return ordered


def first_places(codes: NDArray[np.uint32], n_codes: int) -> NDArray[np.intp]:
    """Return where each code stands first; codes are numbered in the order of first appearance.

    Examples
    --------
    >>> first_places(np.array([0, 1, 0, 2], dtype=np.uint32), 3)
    array([0, 1, 3])
    """
    return np.searchsorted(np.maximum.accumulate(codes), np.arange(n_codes, dtype=codes.dtype))


@dataclass(frozen=True)
class ProfilePart:
    """Consecutive users: where their profiles are, and which rows of all they take."""

    number: int
    n_users: int
    first_row: int
    n_rows: int

    def name(self, role: str) -> str:
        """Return the name of one of its files."""
        return f"{role}-{self.number:06d}"


def read_part(
    staging: Staging, part: ProfilePart, *, with_times: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Read offsets, items by code and, if wanted, times of a part."""
    lengths = staging.array(part.name("lengths"), "int64")
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = staging.array(part.name("items_taken"), "uint32")
    times = staging.array(part.name("times"), "int64") if with_times else np.empty(0, np.int64)
    return offsets, items, times


_ROWS_WORTH_A_TASK = 25_000
_ROWS_A_PART = 2_000_000
_ROWS_A_BATCH = 20_000
_NO_LIMIT = 2**31 - 1  # of bytes a batch; with any other Spark adds them up after every row


@dataclass(frozen=True)
class StagedProfiles:
    """Profiles that are in the staging folder, by code; here are only their maps."""

    parts: tuple[ProfilePart, ...]
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
        """Return the model's arrays of profiles that lie in parts."""
        return [
            SealedArray(role, dtype, (self.n_rows,), tuple(part.name(role) for part in self.parts))
            for role, dtype in (("items_taken", "uint32"), ("times", "int64"))
        ]


def tasks_for(n_rows: int, n_tasks: int) -> int:
    """Return fewer tasks for few rows, as each costs some time of its own.

    Examples
    --------
    >>> tasks_for(50_000, n_tasks=12), tasks_for(1_000_000, n_tasks=12)
    (2, 12)
    """
    return max(1, min(n_tasks, -(-n_rows // _ROWS_WORTH_A_TASK)))


def stage_profiles(
    spark: SparkSession, source: SparkRows, staging: Staging, *, min_length: int, n_tasks: int
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
