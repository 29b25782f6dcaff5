"""The one vocabulary of column names, as in RecTools."""

from __future__ import annotations

from typing import Final


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
    AtLeast: Final = "at_least_"
    ExpectedHits: Final = "expected_hits"
