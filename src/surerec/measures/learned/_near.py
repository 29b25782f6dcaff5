"""For every item, how many took it soon after another: counted when first asked for, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.measures.learned import _near_kernels as kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import Spans

WINDOWS: Final = np.array([10, 50])
"""How soon: among so many items that follow."""
_MOST_BYTES: Final = 1 << 26  # of counts that are kept; those of few takers are counted each time
_MOST_TAKERS: Final = 65_535
_ALL: Final = np.empty(0, np.int64)


class Near:
    """Counts of what was taken soon after each item.

    Shares are added up user by user, as they always were: a sum of so many equal numbers rounds as
    often. What is kept is only how many there are.

    Parameters
    ----------
    following : Spans
        What follows each item, for each who took it.
    """

    def __init__(self, following: Spans) -> None:
        self._spans = following
        takers = np.diff(following.offsets)
        n_items = len(takers)
        # Reading a row of counts takes as long as counting the few that follow a rare item.
        often = (takers * WINDOWS[-1] >= n_items) & (takers <= _MOST_TAKERS)
        most = _MOST_BYTES // max(2 * len(WINDOWS) * n_items, 1)
        kept = np.argsort(-takers, kind="stable")[: min(int(often.sum()), most)]
        self._slots = np.full(n_items, -1)
        self._slots[kept[often[kept]]] = np.arange(int(often[kept].sum()))
        self._is_there = np.zeros(len(kept), dtype=bool)
        self._counts = np.zeros((len(kept), len(WINDOWS), n_items), np.uint16)

    def shares(
        self,
        last: NDArray[np.int64],
        parts: NDArray[np.float32],
        own_ends: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        n_items: int,
    ) -> NDArray[np.float32]:
        """Add ``parts[k]`` for each user who took a column's item soon after ``last[k]``.

        Parameters
        ----------
        last : array of int
            Items.
        parts : array of float32
            What a user weighs after each of them.
        own_ends : array of int
            Where the flat profiles of the users to leave out end.
        columns : array of int, optional
            By default all of `n_items`; what has come since all was counted has nothing.
        n_items : int
            How many items there are.

        Returns
        -------
        array of float32, windows × columns
        """
        takers = np.diff(self._spans.offsets)[last]
        if columns is not None and (takers > _MOST_TAKERS).any():
            return self.shares(last, parts, own_ends, None, n_items)[:, columns]
        for item in last.tolist():
            self._keep(item)
        n_columns = n_items if columns is None else len(columns)
        some = _ALL if columns is None else columns
        out = np.zeros((len(WINDOWS), n_columns), np.float32)
        if n_columns:
            kernels.share_near(
                last, parts, WINDOWS, own_ends, *self._flat(), self._slots, self._counts, some, out
            )
        return out

    def _flat(self) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any], NDArray[np.uint32]]:
        spans = self._spans
        return spans.offsets, spans.starts, spans.stops, spans.items

    def _keep(self, item: int) -> None:
        """Count who took what soon after an item, if that is kept and was never asked for."""
        slot = self._slots[item]
        if slot < 0 or self._is_there[slot]:
            return
        # Another thread may do so at once: both write the same.
        counted = np.zeros(self._counts.shape[1:], np.uint16)
        kernels.add_near(item, np.uint16(1), WINDOWS, _ALL, *self._flat(), counted)
        self._counts[slot] = counted
        self._is_there[slot] = True
