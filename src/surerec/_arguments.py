"""Validation of arguments: each check returns the value or raises InputError with its name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from surerec._kernels import first_bad_profile
from surerec._words import shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


MOST: Final = 2**63 - 1
"""Largest integer of the kernels (int64)."""


def check_offsets(offsets: NDArray[np.int64], end: int) -> None:
    """Raise ValueError unless offsets ascend from 0 to `end`.

    Examples
    --------
    >>> check_offsets(np.array([0, 2, 2, 5]), 5)
    """
    # Compared, not subtracted: the difference of damaged offsets may overflow.
    falls = not len(offsets) or bool((offsets[1:] < offsets[:-1]).any())
    if falls or offsets[0] != 0 or offsets[-1] != end:
        raise ValueError("offsets are out of range")


def check_profiles(offsets: NDArray[np.int64], items: NDArray[np.uint32], n_items: int) -> None:
    """Raise ValueError unless no profile repeats an item and all item codes exist.

    Kernels allocate one place for each item and do not check bounds.

    Examples
    --------
    >>> check_profiles(np.array([0, 2, 3]), np.array([0, 1, 1], dtype=np.uint32), 2)
    """
    check_offsets(offsets, len(items))
    if first_bad_profile(offsets, items, n_items) >= 0:
        raise ValueError("a profile repeats an item, or has an unknown item code")


def check_whole(name: str, value: object, lowest: int = 1, highest: int = MOST) -> int:
    """Return an integer from `lowest` to `highest`, or raise InputError with its name.

    Examples
    --------
    >>> check_whole("k", np.int64(3))
    3
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < lowest:
        bound = f"at least {lowest}"
    elif value > highest:
        bound = f"at most {highest:,}"
    else:
        return int(value)
    raise InputError(f"{name} is {shown(value)}; it must be an integer of {bound}.")


MOST_RANDOM_STATE: Final = 2**64 - 1
_Kind = TypeVar("_Kind")
_LONGEST_NAME: Final = 255  # bytes of a file's name
# What NumPy raises for values that it cannot convert to numbers.
_NO_NUMBERS = (TypeError, ValueError, OverflowError, AttributeError, RuntimeError)
_INT64: Final = (-(2**63), 2**63 - 1)


def is_number(value: object) -> bool:
    """Return whether a value is a real number; booleans are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_number(
    name: str,
    value: object,
    low: float,
    high: float,
    must: str,
    *,
    ends: tuple[bool, bool] = (False, False),
) -> float:
    """Return a number between two bounds as a float, or raise InputError with the text `must`.

    `ends` are flags: whether the lower and the upper bound are allowed.

    Examples
    --------
    >>> check_number("level", np.float32(0.5), 0, 1, "between 0 and 1")
    0.5
    """
    if is_number(value):
        try:
            number = float(cast("float", value))
        except OverflowError:  # an integer that no float holds
            number = math.nan
        above = number >= low if ends[0] else number > low
        below = number <= high if ends[1] else number < high
        if above and below:  # NaN is neither
            return number
    raise InputError(f"{name} is {shown(value)}; it must be {must}.")


def check_random_state(random_state: object, name: str = "random_state") -> int:
    """Return a seed: an integer of 64 bits without a sign.

    Examples
    --------
    >>> check_random_state(7)
    7
    """
    return check_whole(name, random_state, lowest=0, highest=MOST_RANDOM_STATE)


def check_flag(name: str, value: object) -> bool:
    """Return a boolean as a Python bool, or raise InputError.

    Examples
    --------
    >>> check_flag("refit", np.bool_(False))
    False
    """
    return bool(check_kind(name, value, (bool, np.bool_), "True or False"))


def check_choice(name: str, value: object, allowed: Collection[str]) -> str:
    """Return one of the allowed words, or raise InputError.

    Examples
    --------
    >>> check_choice("threshold", "rank", ("rank", "score"))
    'rank'
    """
    if isinstance(value, str) and value in allowed:
        return value
    raise InputError(f"{name} is {shown(value)}; choose one of {', '.join(allowed)}.")


def check_text(name: str, value: object) -> str:
    """Return a string, or raise InputError.

    Examples
    --------
    >>> check_text("name", "films")
    'films'
    """
    return check_kind(name, value, str, "a string")


def check_optional_text(name: str, value: object) -> str | None:
    """Return a string or None, or raise InputError."""
    return None if value is None else check_text(name, value)


def check_kind(
    name: str, value: object, kind: type[_Kind] | tuple[type[_Kind], ...], must: str
) -> _Kind:
    """Return an object of a class, or raise InputError with the text `must`.

    Examples
    --------
    >>> check_kind("data", {}, dict, "a dict")
    {}
    """
    if isinstance(value, kind):
        return value
    raise InputError(f"{name} is {shown(value)}; it must be {must}.")


def check_list(name: str, values: object, of: str) -> list[Any]:
    """Return values as a list; a string or a single value raises InputError.

    Examples
    --------
    >>> check_list("history", (50, 172), "item ids")
    [50, 172]
    """
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        try:
            return list(values)
        except TypeError:
            pass  # an array without dimensions, or a lazy frame
    raise InputError(f"{name} is {shown(values)}; it must be a list of {of}.")


def check_numbers(name: str, values: object, n_dimensions: int = 1) -> NDArray[np.float64]:
    """Return numbers as an array of floats, or raise InputError.

    Examples
    --------
    >>> check_numbers("scores", [1, 2.5])
    array([1. , 2.5])
    """
    array = _as_array(values)
    if array is not None and array.ndim == n_dimensions and array.dtype.kind in "biufO":
        try:
            return np.ascontiguousarray(array, dtype=np.float64)
        except _NO_NUMBERS:
            pass
    what = "a list of numbers" if n_dimensions == 1 else "a table of numbers"
    raise InputError(f"{name} is {shown(values)}; it must be {what}.")


def check_wholes(
    name: str, values: object, low: int = _INT64[0], high: int = _INT64[1], n_dimensions: int = 1
) -> NDArray[np.int64]:
    """Return integers from `low` to `high` as an array, or raise InputError.

    Examples
    --------
    >>> check_wholes("offsets", [0, 2, 3])
    array([0, 2, 3])
    """
    if (
        isinstance(values, np.ndarray)
        and values.dtype == np.int64
        and values.ndim == n_dimensions
        and (low, high) == _INT64
    ):
        return values  # the common case: arrays of surerec itself
    array = _as_array(values)
    if array is None or array.ndim != n_dimensions or (array.size and array.dtype.kind not in "iu"):
        what = "a list of integers" if n_dimensions == 1 else "a table of integers"
        raise InputError(f"{name} is {shown(values)}; it must be {what}.")
    if array.size and (int(array.min()) < low or int(array.max()) > high):
        wrong = int(array.min()) if int(array.min()) < low else int(array.max())
        raise InputError(f"{name} has {shown(wrong)}; values must be from {low:,} to {high:,}.")
    return array.astype(np.int64, copy=False)


def check_mask(name: str, values: object, size: int) -> NDArray[np.bool_]:
    """Return `size` booleans as an array, or raise InputError.

    Examples
    --------
    >>> check_mask("chosen", [True, False], 2)
    array([ True, False])
    """
    array = _as_array(values)
    if array is None or array.shape != (size,) or (size and array.dtype != np.bool_):
        raise InputError(f"{name} is {shown(values)}; it must be a list of {size:,} booleans.")
    return array.astype(np.bool_, copy=False)


def check_code(name: str, code: object, n: int) -> int:
    """Return a code from 0 to n − 1, or raise InputError.

    Examples
    --------
    >>> check_code("user", np.int64(3), 10)
    3
    """
    return check_whole(name, code, lowest=0, highest=n - 1)


def check_codes(name: str, codes: object, n: int) -> NDArray[np.int64]:
    """Return codes from 0 to n − 1 as an array, or raise InputError: kernels check no bounds.

    Examples
    --------
    >>> check_codes("users", [3, 1], 10)
    array([3, 1])
    """
    array = check_wholes(name, codes)
    # Negative codes are the largest unsigned ones, so one pass is enough.
    if array.size and int(np.maximum.reduce(array.view(np.uint64))) >= n:
        wrong = int(array.min()) if array.min() < 0 else int(array.max())
        raise InputError(f"{name} has {wrong}; codes must be from 0 to {n - 1:,}.")
    return array


def check_path(name: str, path: object) -> Path:
    """Return a path that is valid on a file system, or raise InputError.

    Examples
    --------
    >>> check_path("folder", "films").name
    'films'
    """
    if isinstance(path, (str, os.PathLike)):
        try:
            raw = os.fsencode(path)
            made = Path(os.fsdecode(path))
        except (UnicodeEncodeError, TypeError, ValueError):
            raw, made = b"\0", Path()
        if raw and b"\0" not in raw and max(map(len, raw.split(b"/"))) <= _LONGEST_NAME:
            return made
    raise InputError(f"{name} is {shown(path)}; it must be a path.")


def _as_array(values: object) -> NDArray[Any] | None:
    if isinstance(values, (str, bytes)):
        return None
    try:
        return np.asarray(values)
    except _NO_NUMBERS:
        return None
