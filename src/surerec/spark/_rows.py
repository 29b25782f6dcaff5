"""The rows of counts: who counts what, how wide they are, all of them or what a budget holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.precedence.counting import WIDE, RowForm, narrowest, slots_of, too_popular
from surerec.spark._counting import (
    SIDES,
    CombineCells,
    CountCells,
    item_blocks,
    plan_counting,
    write_both,
    write_held,
    write_largest,
    write_spans,
)
from surerec.spark._profiles import tasks_for
from surerec.spark._session import collect, map_arrow, run_numbered, settings
from surerec.spark._staging import SealedArray

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from surerec.precedence import Direction
    from surerec.spark._counting import CountingGrid, RowWriter
    from surerec.spark._profiles import StagedProfiles
    from surerec.spark._staging import Staging


_RECORDS_A_BATCH = 16
_ROWS_AN_INDEX = 4_000_000
_FIRST_LOOK = 16  # of the most popular items, whose counts are the largest
_FEWEST_A_WAVE = 256
_BEYOND = 1.1  # of what is left of a budget: one wave too much costs less than one more wave


@dataclass(frozen=True)
class RowCounting:
    """Counts rows on executors, which write them as parts."""

    spark: SparkSession
    staging: Staging
    profiles: StagedProfiles
    strict: bool
    n_tasks: int
    task_memory: int
    blocks: tuple[int, int] | None

    @property
    def n_items(self) -> int:
        """Number of items, and of counts in a row."""
        return len(self.profiles.support)

    @property
    def _n_heads(self) -> int:
        """Number of items whose counts 16 bits may not hold; codes go by popularity: the first."""
        return len(too_popular(self.profiles.support))

    @property
    def widest(self) -> np.dtype[Any]:
        """Integers that hold every count, as far as is known before they are counted."""
        return WIDE if self._n_heads else narrowest(0)

    def counter(self) -> np.dtype[Any]:
        """Find the narrowest integers that hold every count, as a fit in memory does.

        Only rows of items with more takers than 16 bits can count need a look. Where there are
        many of them, the first few settle it most often.
        """
        first = min(self._n_heads, _FIRST_LOOK)
        for rows in ((0, first), (first, self._n_heads)):
            if rows[0] == rows[1]:
                continue
            plan = self._count(rows, "followers", WIDE.name, write_largest)
            found = [self.staging.facts(f"{x}-largest") for x in plan.names]
            wanted = narrowest(max(facts["largest"] for facts in found))
            if wanted != narrowest(0):
                return wanted
        return narrowest(0)

    def dense(self) -> list[SealedArray]:
        """Count all rows; give the arrays of both directions, each the transpose of the other.

        How wide they are is known when they are counted: no look beforehand.
        """
        plan = self._count((0, self.n_items), "followers", self.widest.name, write_both)
        shape, names = (self.n_items, self.n_items), plan.names
        kinds = tuple(self.staging.facts(f"{name}-counter")["counter"] for name in names)
        counter = max(kinds, key=lambda kind: np.dtype(kind).itemsize)
        transposed = tuple(f"{name}-transposed" for name in names)
        return [
            SealedArray("followers", counter, shape, names, kinds),
            SealedArray("predecessors", counter, shape, transposed, kinds, across=True),
        ]

    def held(
        self, direction: Direction, counter: np.dtype[Any], work: NDArray[np.int64], budget: int
    ) -> tuple[list[SealedArray], dict[str, NDArray[Any]]]:
        """Count the rows of the most popular items, as many as a budget takes.

        Gives the arrays that lie in parts, and those that are made here. How much rows take is
        known when they are counted, so they are counted in waves, each as large as those before
        let expect.
        """
        form = RowForm(self.n_items, counter)
        guess = np.minimum(form.dense_bytes, form.bytes_a_count * work)
        names: list[str] = []
        lengths = np.empty(0, np.int64)
        taken = 0
        while budget and taken <= budget and len(lengths) < self.n_items:
            done = len(lengths)
            wave = _wave(guess[done:], taken / max(int(guess[:done].sum()), 1), budget - taken)
            rows = (done, min(done + wave, self.n_items))
            plan = self._count(rows, direction, counter.name, write_held)
            names += plan.names
            found = [self.staging.array(f"{x}-lengths", "int64") for x in plan.names]
            lengths = np.concatenate([lengths, *found])
            taken = int(form.bytes_of(lengths < 0, lengths).sum())
        ends = np.cumsum(form.bytes_of(lengths < 0, lengths))
        return self._held_arrays(
            direction, counter, names, lengths[: np.searchsorted(ends, budget, side="right")]
        )

    def _held_arrays(
        self,
        direction: Direction,
        counter: np.dtype[Any],
        names: list[str],
        lengths: NDArray[np.int64],
    ) -> tuple[list[SealedArray], dict[str, NDArray[Any]]]:
        is_dense = lengths < 0
        offsets = np.concatenate(([0], np.cumsum(lengths[~is_dense])))
        n_counts = (int(offsets[-1]),)
        arrays = {
            "dense": (narrowest(0).name, (int(is_dense.sum()), self.n_items)),
            "items": ("uint32", n_counts),
            "counts": (counter.name, n_counts),
        }
        sealed = [
            SealedArray(
                f"{direction}_held_{part}", kind, shape, tuple(f"{name}-{part}" for name in names)
            )
            for part, (kind, shape) in arrays.items()
        ]
        slots = slots_of(is_dense, self.n_items)
        return sealed, {f"{direction}_held_slots": slots, f"{direction}_held_offsets": offsets}

    def _count(
        self, rows: tuple[int, int], direction: Direction, counter: str, write: RowWriter
    ) -> CountingGrid:
        """Count the rows of some items, in blocks."""
        plan = plan_counting(
            list(self.profiles.parts),
            self.profiles.support,
            rows,
            direction,
            counter=counter,
            n_tasks=tasks_for(self.profiles.n_rows, self.n_tasks),
            task_memory=self.task_memory,
            blocks=self.blocks,
        )
        count = CountCells(self.staging, plan, self.strict, write)
        numbers = self.spark.range(0, plan.n_cells, 1, plan.n_cells)
        cells = map_arrow(numbers, count, count.schema)
        description = "Counting who took what before what"
        if len(plan.user_blocks) == 1:
            collect(cells, description)
            return plan
        combine = CombineCells(self.staging, plan, write)
        by_block = cells.repartition(plan.n_blocks, "block").sortWithinPartitions(
            "block", "users", "chunk"
        )
        with settings(self.spark, execution__arrow__maxRecordsPerBatch=_RECORDS_A_BATCH):
            collect(map_arrow(by_block, combine, combine.schema), description)
        return plan


def _wave(guess: NDArray[np.int64], taken_of_guess: float, left: int) -> int:
    """Return how many more rows to count, given how much of the guesses those before took."""
    expected = np.cumsum(guess) * (taken_of_guess or 1.0)
    wanted = int(np.searchsorted(expected, _BEYOND * left, side="right"))
    return max(wanted, _FEWEST_A_WAVE)


def index_items(
    spark: SparkSession, staging: Staging, profiles: StagedProfiles, *, strict: bool, n_tasks: int
) -> tuple[list[SealedArray], dict[Direction, NDArray[np.int64]]]:
    """Write the spans of every item; give the arrays, and the work of each item by direction."""
    n_tasks = tasks_for(profiles.n_rows, n_tasks)
    n_blocks = max(n_tasks, -(-profiles.n_rows // _ROWS_AN_INDEX))
    blocks = item_blocks(profiles.support, n_blocks, len(profiles.support))
    parts, index_type = profiles.parts, profiles.index_type

    def write(number: int) -> None:
        write_spans(staging, parts, blocks[number], number, index_type=index_type, strict=strict)

    run_numbered(spark, len(blocks), write, "Indexing profiles by item")

    def names(role: str) -> tuple[str, ...]:
        return tuple(f"{role}-{k:06d}" for k in range(len(blocks)))

    arrays = [
        SealedArray(role, profiles.index_type, (profiles.n_rows,), names(role))
        for side in SIDES
        for role in (f"{side}_starts", f"{side}_stops")
    ]
    work = {
        direction: np.concatenate([staging.array(name, "int64") for name in names(f"{side}_work")])
        for side, direction in SIDES.items()
    }
    return arrays, work
