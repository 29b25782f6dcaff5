"""The rows of counts: plan, integer type, and selection by a memory budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from surerec._arguments import check_choice
from surerec.errors import InputError
from surerec.precedence import Strategy, Ties
from surerec.precedence.counting import (
    WIDE,
    DenseRows,
    RowForm,
    check_budget,
    narrowest,
    slots_of,
    too_popular,
)
from surerec.spark._counting import SIDES, item_blocks, plan_counting, write_held, write_spans
from surerec.spark._profiles import tasks_for
from surerec.spark._session import run_numbered
from surerec.spark._staging import SealedArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from surerec.precedence import Direction
    from surerec.spark._profiles import StagedProfiles
    from surerec.spark._staging import Staging

    RowWriter: TypeAlias = Callable[[Staging, str, NDArray[np.unsignedinteger]], None]
    """Writes the rows of one block as parts; deterministic."""


_ROWS_AN_INDEX = 4_000_000
_FIRST_LOOK = 16  # most popular items, which have the largest counts
_FEWEST_A_WAVE = 256
_BEYOND = 1.1  # of the remaining budget: a larger wave is cheaper than one more wave


@dataclass(frozen=True)
class Counting:
    """Settings of counting on Spark; only `ties` affects the counts."""

    ties: Ties = "order"
    """Order of items at the same time: by the sequence column ("order"), or none ("strict")."""
    strategy: Strategy = "auto"
    """As in :func:`surerec.count_precedence`."""
    memory: int = 16_000_000_000
    """Bytes for rows in the model; if dense rows do not fit, those of the most popular items."""
    task_memory: int = 256_000_000
    """Bytes that one task may use for its rows of counts."""
    blocks: tuple[int, int] | None = None
    """Numbers of user blocks and item blocks; by default, those that move the fewest bytes."""

    def check(self, *, has_sequence: bool) -> None:
        """Check the settings."""
        check_choice("ties", self.ties, get_args(Ties))
        check_choice("strategy", self.strategy, get_args(Strategy))
        if self.ties == "order" and not has_sequence:
            raise InputError(
                "ties='order' needs a sequence column, because Spark DataFrames have no row order. "
                "Pass sequence= (--sequence), or use ties='strict' (--ties strict)."
            )
        if self.blocks is not None and min(self.blocks) < 1:
            raise InputError(f"blocks is {self.blocks}; both numbers must be at least 1.")

    def strategy_for(self, n_items: int, counter: np.dtype[Any]) -> Strategy:
        """Choose the storage strategy of rows."""
        check_budget(self.memory, n_items)
        if self.strategy != "auto":
            return self.strategy
        return "dense" if DenseRows.bytes_needed(n_items, counter) <= self.memory else "bounded"


@dataclass(frozen=True)
class RowCounting:
    """Counts rows on executors, which write them as parts."""

    spark: SparkSession
    staging: Staging
    profiles: StagedProfiles
    counting: Counting
    n_tasks: int

    @property
    def _strict(self) -> bool:
        return self.counting.ties == "strict"

    @property
    def n_items(self) -> int:
        """Number of items, and of counts in a row."""
        return len(self.profiles.support)

    @property
    def _n_heads(self) -> int:
        """Number of items whose counts may need more than 16 bits; these have the first codes."""
        return len(too_popular(self.profiles.support))

    @property
    def widest(self) -> np.dtype[Any]:
        """Integer type that holds every count, as known before counting."""
        return WIDE if self._n_heads else narrowest(0)

    def counter(self) -> np.dtype[Any]:
        """Find the narrowest integer type that holds every count, as a fit in memory does.

        Only items with more users than 16 bits can count need a check, and the first few usually
        decide it.
        """
        first = min(self._n_heads, _FIRST_LOOK)
        for rows in ((0, first), (first, self._n_heads)):
            if rows[0] < rows[1]:
                _, largest = self._count(rows, "followers", WIDE, lambda *_: None)
                if narrowest(largest) == WIDE:
                    return WIDE
        return narrowest(0)

    def dense(self) -> list[SealedArray]:
        """Count all rows; return the arrays of both directions, which are transposes."""
        names, largest = self._count(
            (0, self.n_items), "followers", self.widest, lambda staging, *x: staging.write_array(*x)
        )
        counter, shape = narrowest(largest).name, (self.n_items, self.n_items)
        return [
            SealedArray(role, counter, shape, names, self.widest.name, transposed=transposed)
            for role, transposed in (("followers", False), ("predecessors", True))
        ]

    def held(
        self, direction: Direction, counter: np.dtype[Any], budget: int
    ) -> tuple[list[SealedArray], dict[str, NDArray[Any]]]:
        """Count the rows of the most popular items, as many as fit the budget.

        Returns the arrays in parts, and the small ones. The size of compressed rows is known only
        after counting, so rows are counted in waves; earlier waves predict the size of the next.
        """
        form = RowForm(self.n_items, counter)
        names: tuple[str, ...] = ()
        lengths, used = np.empty(0, np.int64), 0
        while budget and used <= budget and len(lengths) < self.n_items:
            done = len(lengths)
            wave = max(int(_BEYOND * (budget - used) * done / max(used, 1)), _FEWEST_A_WAVE)
            rows = (done, min(done + wave, self.n_items))
            new, _ = self._count(rows, direction, counter, write_held)
            names += new
            found = [self.staging.array(f"{name}-lengths", "int64") for name in new]
            lengths = np.concatenate([lengths, *found])
            used = int(form.bytes_of(lengths < 0, lengths).sum())
        ends = np.cumsum(form.bytes_of(lengths < 0, lengths))
        lengths = lengths[: np.searchsorted(ends, budget, side="right")]
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
        self, rows: tuple[int, int], direction: Direction, counter: np.dtype[Any], write: RowWriter
    ) -> tuple[tuple[str, ...], int]:
        """Count the rows of some items; return the names of their parts and the largest count."""
        staging = self.staging
        plan = plan_counting(
            self.profiles.parts,
            self.profiles.support,
            rows,
            direction,
            counter=counter.name,
            strict=self._strict,
            n_tasks=tasks_for(self.profiles.n_rows, self.n_tasks),
            task_memory=self.counting.task_memory,
            blocks=self.counting.blocks,
        )
        kinds: list[str] = []

        def finish(block: int) -> int:
            found = plan.add_cells(staging, block, kinds) if kinds else plan.count(staging, block)
            write(staging, plan.names[block], found)
            return int(found.max(initial=0))

        description = "Counting precedence"
        if len(plan.user_blocks) > 1:
            kinds = run_numbered(
                self.spark, plan.n_cells, lambda k: plan.write_cell(staging, k), description
            )
        largest = run_numbered(self.spark, len(plan.item_blocks), finish, description)
        return plan.names, max(largest, default=0)

    def index(self) -> list[SealedArray]:
        """Write the spans of every item, and return their arrays."""
        profiles, staging, strict = self.profiles, self.staging, self._strict
        n_tasks = tasks_for(profiles.n_rows, self.n_tasks)
        n_blocks = max(n_tasks, -(-profiles.n_rows // _ROWS_AN_INDEX))
        blocks = item_blocks(profiles.support, n_blocks, self.n_items)
        parts, kind = profiles.parts, profiles.index_type

        def write(number: int) -> None:
            write_spans(staging, parts, blocks[number], number, index_type=kind, strict=strict)

        run_numbered(self.spark, len(blocks), write, "Indexing profiles by item")
        return [
            SealedArray(
                role, kind, (profiles.n_rows,), tuple(f"{role}-{k:06d}" for k in range(len(blocks)))
            )
            for side in SIDES
            for role in (f"{side}_starts", f"{side}_stops")
        ]
