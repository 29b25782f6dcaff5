"""Counts on their way through the shuffle: as few bytes as their size and number ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_WIDTHS: tuple[np.dtype[np.unsignedinteger], ...] = (
    np.dtype(np.uint8),
    np.dtype(np.uint16),
    np.dtype(np.uint32),
)
_PLACE = np.dtype(np.uint32)


def pack(rows: NDArray[np.unsignedinteger]) -> bytes:
    """Write rows densely or as places and counts, whichever is smaller, in narrow integers.

    Examples
    --------
    >>> rows = np.zeros((2, 50), dtype=np.uint32)
    >>> rows[1, 7] = 300
    >>> len(pack(rows)), rows.nbytes
    (8, 400)
    >>> copy = np.zeros_like(rows)
    >>> add_packed(pack(rows), copy)
    >>> bool((copy == rows).all())
    True
    """
    flat = rows.reshape(-1)
    largest = int(flat.max(initial=0))
    width = next(k for k, kind in enumerate(_WIDTHS) if largest <= np.iinfo(kind).max)
    kind = _WIDTHS[width]
    places = np.flatnonzero(flat)
    if len(places) * (_PLACE.itemsize + kind.itemsize) < len(flat) * kind.itemsize:
        head = bytes([1, width])
        return head + places.astype(_PLACE).tobytes() + flat[places].astype(kind).tobytes()
    return bytes([0, width]) + flat.astype(kind).tobytes()


def add_packed(packed: bytes, rows: NDArray[np.unsignedinteger]) -> None:
    """Add packed rows to the first of these rows."""
    is_sparse, width = packed[0], packed[1]
    kind, body = _WIDTHS[width], memoryview(packed)[2:]
    flat = rows.reshape(-1)
    if not is_sparse:
        counts = np.frombuffer(body, dtype=kind)
        flat[: len(counts)] += counts
        return
    n_places = len(body) // (_PLACE.itemsize + kind.itemsize)
    end = n_places * _PLACE.itemsize
    # Each place comes once, so that a plain indexed sum loses nothing.
    flat[np.frombuffer(body[:end], dtype=_PLACE)] += np.frombuffer(body[end:], dtype=kind)
