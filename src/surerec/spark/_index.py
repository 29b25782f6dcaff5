"""The index by item on executors: the spans that rows are counted from when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._grouping import group_rows
from surerec.spark._counting import part_spans

if TYPE_CHECKING:
    from surerec.precedence import Direction
    from surerec.spark._profiles import Part
    from surerec.spark._staging import Staging


_NAMES: dict[str, Direction] = {"following": "followers", "preceding": "predecessors"}


@dataclass(frozen=True)
class IndexItems:
    """Write the spans of a block of items over all users, and how much work each item is."""

    staging: Staging
    parts: tuple[Part, ...]
    item_blocks: tuple[tuple[int, int], ...]
    index_type: str
    strict: bool

    def __call__(self, number: int) -> None:
        """Run the task of one block."""
        for name, direction in _NAMES.items():
            self._write(number, name, direction)

    def _write(self, number: int, name: str, direction: Direction) -> None:
        block = self.item_blocks[number]
        owners, starts, stops = [], [], []
        for part in self.parts:
            found = part_spans(self.staging, part, block, direction, strict=self.strict)
            base = np.array(part.first_row, dtype=self.index_type)
            owners.append(found[0])
            starts.append(found[1] + base)
            stops.append(found[2] + base)
        offsets, order = group_rows(np.concatenate(owners), block[1] - block[0])
        begin, end = np.concatenate(starts)[order], np.concatenate(stops)[order]
        done = np.concatenate(([0], np.cumsum(end - begin, dtype=np.int64)))
        self.staging.write_array(f"{name}_starts-{number:06d}", begin)
        self.staging.write_array(f"{name}_stops-{number:06d}", end)
        self.staging.write_array(f"{name}_work-{number:06d}", np.diff(done[offsets]))
