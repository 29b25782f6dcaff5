"""Profiles and ids that are given as arrays, checked before any kernel sees them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import (
    check_flag,
    check_list,
    check_number,
    check_optional_text,
    check_text,
    check_wholes,
)
from surerec._checks import check_offsets, check_whole
from surerec._memory import available_memory, in_words
from surerec._shown import shown
from surerec.errors import InputError
from surerec.interactions._cells import whole_floats
from surerec.interactions._kernels import first_repeat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_MOST_CODES = 2**32 - 2
_PER_ITEM = 40  # bytes of memory at the peak, an item of the catalogue


def check_reading(
    *,
    columns: object,
    texts: Mapping[str, object],
    threshold: object,
    min_profile_length: object,
    skip_bad: object,
    n_rows: object,
) -> None:
    """Refuse settings of reading that are not what they must be."""
    if columns is not None:
        for column in check_list("columns", columns, "names of columns"):
            check_text("A name of columns", column)
    for name, text in texts.items():
        check_optional_text(name, text)
    if threshold is not None:
        check_number("threshold", threshold, -math.inf, math.inf, "a number, or None")
    check_whole("min_profile_length", min_profile_length)
    check_flag("skip_bad", skip_bad)
    if n_rows is not None:
        check_whole("n_rows", n_rows, lowest=0)


def given_ids(name: str, ids: Any, n: int | None = None) -> pl.Series:
    """Give ids as a column: whole numbers or texts, none twice; by default from 0 on."""
    if ids is None:
        return pl.Series(np.arange(n or 0))
    refused = InputError(f"{name} are {shown(ids)}; they must be a list of numbers or of texts.")
    if isinstance(ids, (str, bytes)) or not hasattr(ids, "__len__"):
        raise refused
    try:
        column = ids if isinstance(ids, pl.Series) else pl.Series(np.asarray(ids))
        if column.dtype == pl.Object:  # a column of pandas
            column = pl.Series(list(ids), strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise refused from None
    if column.dtype == pl.Null and not len(column):
        column = column.cast(pl.Int64)
    column = whole_floats(column)
    if not (column.dtype.is_integer() or column.dtype == pl.String) or column.null_count():
        if len(column):
            raise refused
        column = pl.Series(np.arange(0))
    if n is not None and len(column) != n:
        raise InputError(f"{name} are {len(column):,}, and there are {n:,} to name.")
    if column.n_unique() != len(column):
        raise InputError(f"{name} name two alike; each must be there once.")
    return column


def check_profiles(
    offsets: NDArray[np.int64], items: Any, n_items: int | None
) -> NDArray[np.uint32]:
    """Give the items of profiles, none of them twice in one; `n_items` is None if any may come."""
    codes = check_wholes("items", items, 0, _MOST_CODES if n_items is None else n_items - 1)
    try:
        check_offsets(offsets, len(codes))
    except (ValueError, IndexError):
        raise InputError(
            f"offsets must lead from 0 to the number of items, {len(codes):,}, and never back."
        ) from None
    n_codes = int(codes.max(initial=-1)) + 1 if n_items is None else n_items
    if _PER_ITEM * n_codes > available_memory():
        raise InputError(
            f"{n_codes:,} items need {in_words(_PER_ITEM * n_codes)} of memory, which is not free; "
            "number them from 0 without gaps."
        )
    taken = codes.astype(np.uint32)
    repeat = first_repeat(offsets, taken, np.full(n_codes, -1, dtype=np.int64))
    if repeat >= 0:
        raise InputError(f"The profile at place {repeat:,} has an item twice.")
    return taken


def check_times(offsets: NDArray[np.int64], times: Any, n_rows: int) -> NDArray[np.int64]:
    """Give times that never go back within a profile."""
    found = check_wholes("times", times)
    if len(found) != n_rows:
        raise InputError(f"times are {len(found):,}, and there are {n_rows:,} items taken.")
    goes_back = found[1:] < found[:-1]
    inner = offsets[(offsets > 0) & (offsets < n_rows)]
    goes_back[inner - 1] = False  # from one profile to the next
    if goes_back.any():
        raise InputError(
            f"times go back at place {int(np.argmax(goes_back)) + 1:,}: profiles must be in time "
            "order."
        )
    return found
