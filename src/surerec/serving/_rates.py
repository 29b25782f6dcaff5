"""A rate for each API key, kept in memory that all workers share."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import time
from tempfile import TemporaryFile
from typing import IO, Final

_SLOT: Final = struct.Struct("<Qd")
_N_SLOTS: Final = 1024


def shared_memory() -> IO[bytes]:
    """Give the memory of all rates: a file without a name, whose descriptor workers inherit."""
    file = TemporaryFile()  # noqa: SIM115  # held as long as the server runs
    os.ftruncate(file.fileno(), _SLOT.size * _N_SLOTS)
    return file


class RateLimits:
    """How soon each key may ask again (the generic cell rate algorithm).

    A slot holds the time at which a key's requests so far would have been due at the allowed rate;
    a key may run ahead of it by `burst` requests.

    Parameters
    ----------
    descriptor : int
        Of what :func:`shared_memory` made.
    rate : float
        Requests a second.
    burst : int
        Requests that may come at once.

    Examples
    --------
    >>> with shared_memory() as memory:
    ...     limits = RateLimits(memory.fileno(), rate=1.0, burst=2)
    ...     [limits.wait("ann", now=100.0) for _ in range(3)], limits.wait("bob", now=100.0)
    ([0.0, 0.0, 1.0], 0.0)
    """

    def __init__(self, descriptor: int, rate: float, burst: int) -> None:
        self._descriptor = descriptor
        self._slots = mmap.mmap(descriptor, _SLOT.size * _N_SLOTS)
        self._gap = 1.0 / rate
        self._ahead = burst * self._gap

    def wait(self, key_id: str, now: float | None = None) -> float:
        """Count a request; give 0, or the seconds after which it would be allowed."""
        # The monotonic clock is the system's: the same in all workers.
        at = time.monotonic() if now is None else now
        tag = int.from_bytes(hashlib.blake2b(key_id.encode(), digest_size=8).digest(), "little") | 1
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            place, due = self._find(tag)
            due = max(due, at)
            excess = due + self._gap - at - self._ahead
            if excess > 1e-9:  # noqa: PLR2004  # sums of gaps are not exact
                return excess
            _SLOT.pack_into(self._slots, place * _SLOT.size, tag, due + self._gap)
            return 0.0
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _find(self, tag: int) -> tuple[int, float]:
        """Give a key's slot and time; a new key takes a free slot, or the longest unused."""
        oldest, oldest_due = 0, float("inf")
        for step in range(_N_SLOTS):
            place = (tag + step) % _N_SLOTS
            found, due = _SLOT.unpack_from(self._slots, place * _SLOT.size)
            if found == tag:
                return place, due
            if found == 0:
                return place, 0.0
            if due < oldest_due:
                oldest, oldest_due = place, due
        return oldest, 0.0
