"""Row stores from the arrays that a model folder has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._memory import available_memory
from surerec.precedence._bounded import BoundedRows
from surerec.precedence._held import HeldRows
from surerec.precedence._rows import DenseRows, OnDemandRows, linear_budget
from surerec.precedence._spans import Spans, narrow_codes
from surerec.precedence._uncounted import NoRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence._rows import RowStore
    from surerec.precedence._spans import Direction


_DIRECTIONS: tuple[Direction, ...] = ("followers", "predecessors")
_MOST_CACHE = 1 << 30  # bytes of rows counted when asked for


def rows_from(
    kind: str, arrays: Mapping[str, NDArray[Any]], interactions: Interactions
) -> RowStore:
    """Put a row store together again from its kind and its arrays.

    Parameters
    ----------
    kind : {"dense", "bounded", "on-demand", "none"}
        The store's `kind`.
    arrays : mapping of str to array
        What its `arrays` gave.
    interactions : Interactions
        The profiles behind it; only dense rows do without users.

    Raises
    ------
    ValueError
        If there is no such kind, or an index leads out of its array.

    Examples
    --------
    >>> from surerec import Interactions, count_precedence
    >>> films = Interactions.from_profiles([0, 2, 4, 6], [0, 1, 0, 1, 1, 0])
    >>> rows = count_precedence(films, strategy="on-demand").rows
    >>> again = rows_from(rows.kind, rows.arrays(), films)
    >>> again.followers(0)
    array([0, 2], dtype=uint16)
    """
    if kind == DenseRows.kind:
        return DenseRows(arrays["followers"], arrays["predecessors"])
    if kind == NoRows.kind:
        return NoRows()
    if kind not in (OnDemandRows.kind, BoundedRows.kind):
        raise ValueError(f"there are no {kind} rows")
    codes = interactions.items_taken
    if kind == BoundedRows.kind:  # what counts every row when asked for holds nothing at all
        codes = narrow_codes(codes, interactions.n_items)
    longest = int(np.diff(interactions.offsets).max(initial=0))
    following, preceding = (
        Spans.from_arrays(side, arrays, codes) for side in ("following", "preceding")
    )
    # Before anything is counted: kernels do not look where they read and write.
    for spans in (following, preceding):
        spans.check(longest)
    if kind == OnDemandRows.kind:
        return OnDemandRows(following, preceding)
    held = {direction: HeldRows.from_arrays(direction, arrays) for direction in _DIRECTIONS}
    for rows in held.values():
        rows.check()
    cache_bytes = min(available_memory() // 4, _MOST_CACHE, linear_budget(interactions.n_rows))
    return BoundedRows(following, preceding, held, cache_bytes)
