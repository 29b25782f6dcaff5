"""Profiles on executors: from all rows of some users to parts in the order of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from surerec.interactions import build_profiles, encode
from surerec.spark._bundles import read_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.spark._staging import Staging


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
    """Give rows by sequence, those that share one by user and item.

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
    """Give where each code stands first; codes are numbered in the order of first appearance.

    Examples
    --------
    >>> first_places(np.array([0, 1, 0, 2], dtype=np.uint32), 3)
    array([0, 1, 3])
    """
    return np.searchsorted(np.maximum.accumulate(codes), np.arange(n_codes, dtype=codes.dtype))


@dataclass(frozen=True)
class Part:
    """Consecutive users: where their profiles are, and which rows of all they take."""

    number: int
    n_users: int
    first_row: int
    n_rows: int

    def name(self, role: str) -> str:
        """Give the name of one of its files."""
        return f"{role}-{self.number:06d}"


def read_part(
    staging: Staging, part: Part, *, with_times: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Read offsets, items by code and, if wanted, times of a part."""
    lengths = staging.array(part.name("lengths"), "int64")
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = staging.array(part.name("items_taken"), "uint32")
    times = staging.array(part.name("times"), "int64") if with_times else np.empty(0, np.int64)
    return offsets, items, times
