"""The one vocabulary of column names, as in RecTools, and how result frames are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping


class Columns:
    """Names of the columns that surerec reads and gives."""

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
    """Build a frame in which missing numbers are null: polars orders NaN above every number.

    Arrays may hold NaN. Series and lists are used as they are.

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
    # Series by series: polars starts threads for arrays of 1,000 rows, which take longer.
    series = {
        name: pl.Series(values, nan_to_null=True) if isinstance(values, np.ndarray) else values
        for name, values in columns.items()
    }
    return pl.DataFrame(series)
