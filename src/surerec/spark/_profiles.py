"""Profiles on executors: from bundles of rows to parts in the order of users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._threads import equal_blocks
from surerec.errors import InputError
from surerec.interactions import IdMap, build_profiles, encode, select_profiles, titles_by_code
from surerec.spark._bundles import BUNDLE_SCHEMA, N_BUCKETS, deal, read_share, write_bundles
from surerec.spark._session import collect, map_arrow, run_numbered
from surerec.spark._staging import SealedArray

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from surerec.interactions import RowsRead
    from surerec.spark._source import SparkRows
    from surerec.spark._staging import Staging


_ROWS_WORTH_A_TASK = 25_000
_ROWS_A_PART = 2_000_000


@dataclass(frozen=True)
class ProfilePart:
    """Consecutive users, with the file number and the row range of their profiles."""

    number: int
    n_users: int
    first_row: int
    n_rows: int

    def name(self, role: str) -> str:
        """Return the file name of a role."""
        return f"{role}-{self.number:06d}"


@dataclass(frozen=True)
class StagedProfiles:
    """Ids, lengths and support of profiles whose rows are in the staging folder."""

    parts: tuple[ProfilePart, ...]
    users: pl.Series
    """User ids in order."""
    lengths: NDArray[np.int64]
    """Number of items of each user."""
    items: pl.Series
    """Item ids by code."""
    support: NDArray[np.uint32]
    rows_read: RowsRead

    @property
    def n_rows(self) -> int:
        """Number of interactions."""
        return sum(part.n_rows for part in self.parts)

    @property
    def index_type(self) -> str:
        """Integer type of row indices."""
        return "uint32" if self.n_rows < 2**32 else "uint64"

    def in_parts(self) -> list[SealedArray]:
        """Return the arrays of profiles, which are stored in parts."""
        return [
            SealedArray(role, dtype, (self.n_rows,), tuple(part.name(role) for part in self.parts))
            for role, dtype in (("item_codes", "uint32"), ("times", "int64"))
        ]

    def maps(self, titles: pl.DataFrame | None) -> dict[str, Any]:
        """Return the arrays and tables that the driver holds, by role."""
        texts: dict[str, pl.Series] = {}
        if titles is not None:
            texts, _ = titles_by_code(titles, IdMap(self.items, noun="item"))
        return {
            "offsets": np.concatenate(([0], np.cumsum(self.lengths))),
            "support": self.support,
            "users": {Columns.User: self.users},
            "items": {Columns.Item: self.items, **texts},
        }


def tasks_for(n_rows: int, n_tasks: int) -> int:
    """Return the number of tasks; fewer for few rows, because each task has a fixed cost.

    Examples
    --------
    >>> tasks_for(50_000, n_tasks=12), tasks_for(1_000_000, n_tasks=12)
    (2, 12)
    """
    return max(1, min(n_tasks, -(-n_rows // _ROWS_WORTH_A_TASK)))


def stage_profiles(
    spark: SparkSession, source: SparkRows, staging: Staging, *, min_length: int, n_tasks: int
) -> StagedProfiles:
    """Build the profiles in the order of users, and assign item codes by popularity."""
    rows = source.rows.selectExpr("*", f"pmod(hash(user), {N_BUCKETS}) as bucket")
    bundles = collect(
        map_arrow(rows, partial(write_bundles, staging), BUNDLE_SCHEMA), "Reading rows"
    )
    n_rows, names = source.n_rows, bundles["name"].to_pylist()
    n_parts = max(tasks_for(n_rows, n_tasks), -(-n_rows // _ROWS_A_PART))
    shares = deal(bundles, n_parts)

    def build(number: int) -> tuple[int, int]:
        return build_share(staging, number, read_share(staging, names, shares[number]), min_length)

    left_out = run_numbered(spark, len(shares), build, "Building profiles")
    repeats, short = np.sum(left_out, axis=0).tolist()
    items = item_codes(staging, len(shares))
    if not len(items):
        raise InputError(
            f"The Spark DataFrame: no user has {min_length} items; lower min_profile_length."
        )
    users, parts = cut_parts(staging, len(shares), n_parts)
    run_numbered(spark, len(parts), lambda k: write_part(staging, parts[k]), "Arranging profiles")
    return StagedProfiles(
        parts,
        users["user"],
        users["length"].to_numpy(),
        items["item"],
        items["support"].to_numpy().astype(np.uint32),
        replace(source.rows_read, repeats=repeats, short_profiles=short),
    )


def build_share(
    staging: Staging, number: int, rows: pl.DataFrame, min_length: int
) -> tuple[int, int]:
    """Build the profiles of a share of users from all their rows, and write them.

    Writes the tables of its users and items, and the profiles in the order of users: times, and
    items by their position in the table. Returns the numbers of repeated rows and short profiles.
    """
    rows = in_order(rows)
    (users, user_codes), (items, item_codes) = encode(rows["user"]), encode(rows["item"])
    times, sequence = rows["time"].to_numpy(), rows["sequence"].to_numpy()
    profiles = build_profiles(
        user_codes, item_codes, times, len(users), len(items), min_length=min_length
    )
    consumed = profiles.items_kept[profiles.items].astype(np.uint32)
    name = f"{number:06d}"
    firsts = sequence[first_places(user_codes, len(users))][profiles.users_kept]
    kept = {"user": users.gather(profiles.users_kept), "first": firsts}
    kept["length"] = np.diff(profiles.offsets)
    staging.write_frame(f"share_users-{name}", pl.DataFrame(kept))
    # Includes items of short profiles only, whose first row may be here.
    support = np.bincount(consumed, minlength=len(items))
    firsts = sequence[first_places(item_codes, len(items))]
    found = {"item": items, "support": support, "first": firsts}
    staging.write_frame(f"share_items-{name}", pl.DataFrame(found))
    staging.write_array(f"share_items_of_profiles-{name}", consumed)
    staging.write_array(f"share_times-{name}", profiles.times)
    return profiles.n_repeats, profiles.n_short


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by sequence; rows with equal sequences by user and item.

    Examples
    --------
    >>> rows = {"user": [1, 2, 1], "item": [5, 6, 4], "time": [0, 0, 0], "sequence": [7, 3, 7]}
    >>> in_order(pl.DataFrame(rows))["item"].to_list()
    [6, 4, 5]
    """
    ordered = rows.sort("sequence")  # several keys are three times slower
    sequence = ordered["sequence"].to_numpy()
    is_unique = (sequence[1:] != sequence[:-1]).all()
    return ordered if is_unique else rows.sort("sequence", "user", "item")


def first_places(codes: NDArray[np.uint32], n_codes: int) -> NDArray[np.intp]:
    """Return the first position of each code; codes are numbered in the order of appearance.

    Examples
    --------
    >>> first_places(np.array([0, 1, 0, 2], dtype=np.uint32), 3)
    array([0, 1, 3])
    """
    return np.searchsorted(np.maximum.accumulate(codes), np.arange(n_codes, dtype=codes.dtype))


def item_codes(staging: Staging, n_shares: int) -> pl.DataFrame:
    """Write and return the items of all shares; codes follow support, then the first row."""
    items = staging.frame("share_items-000000")
    for number in range(1, n_shares):  # one by one, because each may have most items
        both = pl.concat([items, staging.frame(f"share_items-{number:06d}")])
        items = both.group_by("item").agg(pl.sum("support"), pl.min("first"))
    items = items.filter(pl.col("support") > 0)
    items = items.sort("support", "first", "item", descending=[True, False, False])
    items = items.with_columns(code=pl.int_range(pl.len(), dtype=pl.UInt32))
    staging.write_frame("items", items)
    return items


def cut_parts(
    staging: Staging, n_shares: int, n_parts: int
) -> tuple[pl.DataFrame, tuple[ProfilePart, ...]]:
    """Return all users in the order of their first rows, then of ids, and their parts.

    Writes the users of each part and its rows in each share, for the tasks.
    """
    users = pl.concat(
        staging.frame(f"share_users-{number:06d}").with_columns(share=pl.lit(number, pl.UInt32))
        for number in range(n_shares)
    ).sort("first", "user")
    lengths, shares = users["length"].to_numpy(), users["share"].to_numpy()
    parts: list[ProfilePart] = []
    first_row, done = 0, np.zeros(n_shares, dtype=np.int64)
    for number, (first, last) in enumerate(equal_blocks(lengths, n_parts)):
        n_rows = int(lengths[first:last].sum())
        part = ProfilePart(number, last - first, first_row, n_rows)
        here = np.bincount(
            shares[first:last], weights=lengths[first:last], minlength=n_shares
        ).astype(np.int64)
        staging.write_array(part.name("lengths"), lengths[first:last])
        staging.write_array(part.name("shares"), shares[first:last])
        staging.write_array(part.name("slices"), np.stack([done, here]))
        parts.append(part)
        first_row, done = first_row + n_rows, done + here
    return users, tuple(parts)


def write_part(staging: Staging, part: ProfilePart) -> None:
    """Write the item codes and times of a part, from its slice of each share."""
    table = staging.frame("items").select("item", "code")
    slices = staging.array(part.name("slices"), "int64").reshape(2, -1)
    items, times = np.empty(part.n_rows, np.uint32), np.empty(part.n_rows, np.int64)
    done = 0
    for share, (first, n) in enumerate(slices.T.tolist()):
        if not n:
            continue
        known = staging.frame(f"share_items-{share:06d}").select("item")
        found = known.join(table, on="item", how="left", maintain_order="left")
        codes = found["code"].fill_null(0).to_numpy()  # of short profiles only
        some = staging.array(f"share_items_of_profiles-{share:06d}", "uint32", first, n)
        items[done : done + n] = codes[some]
        times[done : done + n] = staging.array(f"share_times-{share:06d}", "int64", first, n)
        done += n
    lengths = staging.array(part.name("lengths"), "int64")
    # Slices are concatenated, each in the order of its users.
    by_share = np.argsort(staging.array(part.name("shares"), "uint32"), kind="stable")
    sources = np.empty(len(lengths), dtype=np.int64)
    sources[by_share] = np.cumsum(lengths[by_share]) - lengths[by_share]
    _, items, times = select_profiles(sources, lengths, items, times)
    staging.write_array(part.name("item_codes"), items)
    staging.write_array(part.name("times"), times)
