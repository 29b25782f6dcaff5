"""Column names, the same as in RecTools, and builders of result frames and JSON rows."""

from __future__ import annotations

import math
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Columns:
    """Names of the columns of input and result frames."""

    User: Final = "user_id"
    Item: Final = "item_id"
    Weight: Final = "weight"
    Datetime: Final = "datetime"
    Title: Final = "title"
    Genres: Final = "genres"
    Rank: Final = "rank"
    Score: Final = "score"
    PValue: Final = "p_value"
    EntryConfidence: Final = "entry_confidence"
    Probability: Final = "probability"
    ProbabilityLow: Final = "probability_low"
    ProbabilityHigh: Final = "probability_high"
    Covered: Final = "covered"
    AtLeast: Final = "at_least_"
    ExpectedHits: Final = "expected_hits"


def frame_of(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Build a frame with null for missing numbers, because polars orders NaN above all numbers.

    NaN in arrays becomes null. Series and lists are used unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> frame_of({"probability": np.array([0.2, np.nan])}).filter(pl.col("probability") > 0.3)
    shape: (0, 1)
    ┌─────────────┐
    │ probability │
    │ ---         │
    │ f64         │
    ╞═════════════╡
    └─────────────┘
    """
    # Series by series: for arrays of 1,000 rows polars starts threads, which is slower.
    series = {
        name: pl.Series(values, nan_to_null=True) if isinstance(values, np.ndarray) else values
        for name, values in columns.items()
    }
    return pl.DataFrame(series)


def json_number(value: float) -> float | None:
    """Return a number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None


def json_values(values: Any) -> list[Any]:
    """Return an array or a series as a list for JSON, with None for numbers that are not finite.

    Examples
    --------
    >>> json_values(np.array([0.5, -np.inf])), json_values(pl.Series([None, 2.0]))
    ([0.5, None], [None, 2.0])
    """
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values.to_list()
    if isinstance(values, np.ndarray):
        all_finite = values.dtype.kind != "f" or bool(np.isfinite(values).all())
    else:
        all_finite = not values.dtype.is_float() or bool(values.is_finite().all())
    if all_finite:
        return found
    return [None if value is None else json_number(value) for value in found]


def json_rows(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return columns of equal length as rows.

    Examples
    --------
    >>> json_rows({"item_id": [7, 3], "rank": [1, 2]})
    [{'item_id': 7, 'rank': 1}, {'item_id': 3, 'rank': 2}]
    """
    rows = zip(*columns.values(), strict=True)
    # No Python loop: this is on the path of every response.
    return list(map(dict, map(zip, repeat(tuple(columns)), rows)))


def json_texts(texts: pl.Series | None, codes: Any) -> list[str | None]:
    """Return the titles or genres of item codes, None where unknown."""
    return [None] * len(codes) if texts is None else texts.gather(codes).to_list()
