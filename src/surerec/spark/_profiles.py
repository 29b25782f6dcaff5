"""Profiles on executors: from rows sorted by user and time to parts in the order of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.spark._staging import Staging


_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class BuildProfiles:
    """Turn rows (user, item, time, sequence), a user's together in order, into one row a user.

    Of several rows of one user and item the first counts. Memory is that of one batch and one
    profile.
    """

    id_types: tuple[str, str]
    """The types of users and items: "bigint" or "string"."""

    @property
    def schema(self) -> str:
        """What comes out, in Spark's words."""
        user, item = self.id_types
        return f"first bigint, user {user}, n_rows bigint, items array<{item}>, times array<bigint>"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        waiting: list[pl.DataFrame] = []
        for batch in batches:
            waiting.append(pl.DataFrame(pl.from_arrow(batch)))
            if sum(map(len, waiting)) < _ROWS_AT_ONCE:
                continue
            frame = pl.concat(waiting)
            # The last user may go on in the next batch.
            begin = int((frame["user"] == frame["user"][-1]).arg_max() or 0)
            waiting = [frame.slice(begin)]
            if begin:
                yield from self._profiles(frame.head(begin))
        if sum(map(len, waiting)):
            yield from self._profiles(pl.concat(waiting))

    def _profiles(self, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        by_user = rows.group_by("user", maintain_order=True).agg(
            first=pl.col("sequence").min(), n_rows=pl.len().cast(pl.Int64)
        )
        firsts = rows.unique(["user", "item"], keep="first", maintain_order=True)
        taken = firsts.group_by("user", maintain_order=True).agg(items="item", times="time")
        user, item = (pa.string() if kind == "string" else pa.int64() for kind in self.id_types)
        schema = pa.schema(
            {
                "first": pa.int64(),
                "user": user,
                "n_rows": pa.int64(),
                "items": pa.list_(item),
                "times": pa.list_(pa.int64()),
            }
        )
        profiles = by_user.hstack(taken.select("items", "times")).select(schema.names)
        yield from profiles.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema).to_batches()


@dataclass(frozen=True)
class WriteProfiles:
    """Write one partition of profiles, in order, as a part; give the support of its items."""

    staging: Staging
    min_length: int
    item_type: str

    @property
    def schema(self) -> str:
        """What comes out, in Spark's words."""
        return f"item {self.item_type}, support bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        frames = [pl.DataFrame(pl.from_arrow(batch)) for batch in batches]
        profiles = pl.concat(frames) if frames else pl.DataFrame()
        if not len(profiles):
            return
        number = int(profiles["part"][0])
        lengths = profiles["items"].list.len().cast(pl.Int64)
        kept = profiles.filter(lengths >= self.min_length)
        taken = kept.select("items", "times").explode("items", "times")
        name = f"{number:06d}"
        self.staging.write_ids(f"users-{name}", kept["user"])
        kept_lengths = lengths.filter(lengths >= self.min_length)
        self.staging.write_array(f"lengths-{name}", kept_lengths.to_numpy())
        self.staging.write_ids(f"ids-{name}", taken["items"])
        self.staging.write_array(f"times-{name}", taken["times"].to_numpy())
        facts = {
            "users": len(kept),
            "rows": len(taken),
            "repeats": int(profiles["n_rows"].sum()) - int(lengths.sum()),
            "short": len(profiles) - len(kept),
        }
        self.staging.write_facts(f"profiles-{name}", facts)
        support = taken.group_by(item="items").agg(support=pl.len().cast(pl.Int64))
        item = pa.string() if self.item_type == "string" else pa.int64()
        schema = pa.schema({"item": item, "support": pa.int64()})
        yield from support.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema).to_batches()


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


def code_part(staging: Staging, part: Part) -> None:
    """Write a part's items by code, given the ids in the order of codes."""
    ids = staging.ids("items")
    table = pl.DataFrame({"id": ids, "code": np.arange(len(ids), dtype=np.uint32)})
    taken = staging.ids(part.name("ids")).to_frame()
    coded = taken.join(table, on="id", how="left", maintain_order="left")["code"]
    staging.write_array(part.name("items_taken"), coded.to_numpy())


def read_part(
    staging: Staging, part: Part, *, with_times: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Read offsets, items by code and, if wanted, times of a part."""
    lengths = staging.array(part.name("lengths"), "int64")
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = staging.array(part.name("items_taken"), "uint32")
    times = staging.array(part.name("times"), "int64") if with_times else np.empty(0, np.int64)
    return offsets, items, times
