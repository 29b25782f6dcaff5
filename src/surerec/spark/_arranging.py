"""Profiles from buckets of users into parts in the order of all users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec._threads import equal_blocks
from surerec.interactions import select_profiles
from surerec.spark._profiles import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    def parts(self, n_parts: int) -> tuple[Part, ...]:
        """Cut users into parts of about as many rows."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))
        return tuple(
            Part(number, last - first, int(ends[first]), int(ends[last] - ends[first]))
            for number, (first, last) in enumerate(equal_blocks(self.lengths, n_parts))
        )

    def write(self, staging: Staging, parts: tuple[Part, ...]) -> None:
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


def write_part(staging: Staging, buckets: tuple[int, ...], part: Part) -> None:
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
