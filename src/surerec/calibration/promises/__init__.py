"""The promises that can be made over users, as a table."""

from __future__ import annotations

from surerec._arguments import check_choice
from surerec.calibration.promises._hit import Hit
from surerec.calibration.promises._miss_rate import MissRate
from surerec.calibration.promises._precision import Precision
from surerec.calibration.promises._promise import Cut, Promise

__all__ = ["PROMISES", "Cut", "Hit", "MissRate", "Precision", "Promise", "find_promise"]

PROMISES: dict[str, Promise] = {
    promise.name: promise for promise in (MissRate(), Hit(), Precision())
}
"""The promises by name; a row more is a promise more, everywhere."""


def find_promise(promise: str | Promise) -> Promise:
    """Look a promise up by name, or take it as it is.

    Examples
    --------
    >>> find_promise("hit").horizon
    5
    """
    if isinstance(promise, Promise):
        return promise
    return PROMISES[check_choice("promise", promise, PROMISES)]
