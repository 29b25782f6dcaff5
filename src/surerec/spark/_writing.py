"""What becomes of a block's rows when they are counted: parts in the staging folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from surerec.precedence.counting import RowForm, narrowest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.spark._staging import Staging


_COLUMNS_AT_ONCE = 1024


class RowWriter(Protocol):
    """Writes the rows of one block as parts, the same each time."""

    def __call__(self, staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
        """Write."""


def transposed_name(name: str) -> str:
    """Give the name of the part that has a block's rows as columns."""
    return f"{name}-transposed"


def counter_name(name: str) -> str:
    """Give the name of the part that says which integers a block's rows are written in."""
    return f"{name}-counter"


def write_both(staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
    """Write dense rows, and the same as columns, which are the other direction's.

    In the narrowest integers that hold them: most blocks need no more, though some other may.
    """
    counter = narrowest(int(rows.max(initial=0)))
    rows = rows.astype(counter, copy=False)
    staging.write_facts(counter_name(name), {"counter": counter.name})
    staging.write_array(name, rows)
    staging.write(transposed_name(name), _transposed(rows))


def _transposed(rows: NDArray[np.unsignedinteger]) -> Iterator[memoryview]:
    for first in range(0, rows.shape[1], _COLUMNS_AT_ONCE):
        columns = np.ascontiguousarray(rows[:, first : first + _COLUMNS_AT_ONCE].T)
        yield columns.reshape(-1).view(np.uint8).data


def write_largest(staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
    """Write the largest count alone."""
    staging.write_facts(f"{name}-largest", {"largest": int(rows.max(initial=0))})


@dataclass(frozen=True)
class WriteHeld:
    """Write each row dense or compressed, as a model within a memory budget holds it."""

    counter: str

    def __call__(self, staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
        """Write."""
        form = RowForm(rows.shape[1], np.dtype(self.counter))
        ends, is_dense, items, counts = form.compress(rows)
        staging.write_array(f"{name}-dense", rows[is_dense].astype(narrowest(0)))
        staging.write_array(f"{name}-items", items)
        staging.write_array(f"{name}-counts", counts)
        lengths = np.diff(ends, prepend=0)
        staging.write_array(f"{name}-lengths", np.where(is_dense, -1, lengths))
