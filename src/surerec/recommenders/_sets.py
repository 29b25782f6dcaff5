"""A recommendation set: items with their p-values, and what is promised, in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec.conformal import entry_confidence, highest_confidence, in_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = [
    "Assessment",
    "RecommendationSet",
    "result_columns",
    "result_frame",
]

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Assessment:
    """What a recommender thinks of every item, for one person."""

    candidates: NDArray[np.int64]
    """Codes of the items outside the known profile."""
    score: NDArray[np.float64]
    """How well each candidate conforms; it orders those of equal p-value."""
    shown: Callable[[NDArray[np.intp]], NDArray[np.float64]]
    """Gives it for some places in the paper's unit, higher for what conforms more."""
    counts: NDArray[np.int64] | None = None
    """p-values as counts of `levels`; None without a calibration."""
    levels: int = 1
    smoothed: NDArray[np.float64] | None = None
    """p-values with ties broken at random, where that is wished."""
    n_calibration: int = 0

    @property
    def p_values(self) -> NDArray[np.float64]:
        """The p-value of each candidate; NaN without a calibration."""
        if self.smoothed is not None:
            return self.smoothed
        if self.counts is None:
            return np.full(len(self.candidates), np.nan)
        return self.counts / self.levels

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set; NaN without a calibration."""
        if self.smoothed is not None or self.counts is None:
            return 1 - self.p_values
        return entry_confidence(self.counts, self.levels)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out; smoothed p-values know none."""
        return 1.0 if self.smoothed is not None else highest_confidence(self.n_calibration)

    def everything_qualifies(self, significance: float | None) -> bool:
        """Tell whether ε is below the smallest p-value that so many calibration items can give."""
        if significance is None:
            return False
        return significance + _TOLERANCE < 1 - self.highest_confidence

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Tell which candidates are in the set."""
        if self.smoothed is not None:
            return self.smoothed > significance + _TOLERANCE
        assert self.counts is not None  # noqa: S101  # asked only of calibrated recommenders
        return in_set(self.counts, self.levels, significance)

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Give the places of the candidates in the set (or of all), best first.

        By p-value, then conformity, then popularity, which is the order of the codes.
        """
        if significance is None:
            return np.lexsort((self.candidates, -self.score))
        inside = np.flatnonzero(self.included(significance))
        keys = (self.candidates[inside], -self.score[inside], -self.p_values[inside])
        return inside[np.lexsort(keys)]


@dataclass(frozen=True, repr=False)
class RecommendationSet:
    """The items recommended to one person, with what is promised.

    Made by the recommenders' ``recommend``.

    Attributes
    ----------
    significance : float or None
        ε; None where no confidence was asked for.
    guarantee : str
        What is promised, in words, with its assumption.
    full_size : int
        Items in the set before it was cut to ``k`` or some were excluded.
    n_candidates : int
        Items that were up for recommendation.
    highest_confidence : float
        The highest confidence at which this profile can leave anything out.
    everything_qualifies : bool
        Whether the confidence is beyond that, so that every item is in the set.
    ignored : tuple
        Ids of the history that nobody in the data has taken.
    """

    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    """The columns of the frame, with items as codes; the frame is made when it is asked for."""
    item_ids: pl.Series = field(repr=False)
    titles: pl.Series | None = field(repr=False)
    history: NDArray[np.int64] = field(repr=False)
    significance: float | None
    guarantee: str
    full_size: int
    n_candidates: int
    highest_confidence: float
    everything_qualifies: bool
    ignored: tuple[Any, ...]

    @cached_property
    def used(self) -> tuple[Any, ...]:
        """Ids of the history that counted, in order."""
        return tuple(self.item_ids.gather(self.history).to_list())

    @property
    def confidence(self) -> float | None:
        """1 − ε."""
        return None if self.significance is None else round(1 - self.significance, 12)

    def to_frame(self) -> pl.DataFrame:
        """Give ``item_id``, ``rank``, ``score``, ``p_value``, ``entry_confidence``, ``title``."""
        return self._frame

    @cached_property
    def _frame(self) -> pl.DataFrame:
        return result_frame(self.columns, self.item_ids, self.titles)

    @property
    def items(self) -> list[Any]:
        """The ids, best first."""
        return self._frame[Columns.Item].to_list()

    def __len__(self) -> int:
        return len(self.columns[Columns.Item])

    def __repr__(self) -> str:
        at = "" if self.confidence is None else f" at confidence {self.confidence:g}"
        cut = "" if len(self) == self.full_size else f", cut from {self.full_size:,}"
        return f"RecommendationSet({len(self):,} of {self.n_candidates:,} items{at}{cut})"


def result_columns(assessment: Assessment, order: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Give the columns of a result, with items as codes."""
    return {
        Columns.Item: assessment.candidates[order],
        Columns.Rank: np.arange(1, len(order) + 1),
        Columns.Score: assessment.shown(order),
        Columns.PValue: assessment.p_values[order],
        Columns.EntryConfidence: assessment.entry_confidences[order],
    }


def result_frame(
    columns: Mapping[str, NDArray[Any]], item_ids: pl.Series, titles: pl.Series | None = None
) -> pl.DataFrame:
    """Make the frame of a result, with the items' own ids."""
    codes = columns[Columns.Item]
    frame = pl.DataFrame({**columns, Columns.Item: item_ids.gather(codes)})
    if titles is None:
        return frame
    return frame.with_columns(titles.gather(codes).alias(Columns.Title))
