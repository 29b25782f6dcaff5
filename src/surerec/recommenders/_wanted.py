"""What is wanted of a recommender, of everybody alike: how sure, how much, which items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Assessment
    from surerec.measures import Query


class Shown(NamedTuple):
    """What is shown of an assessment."""

    places: NDArray[np.intp]
    """Of the items that are shown, best first."""
    full_size: int
    """How many there are in the whole set."""
    is_whole: bool
    """Whether nothing of it was left out."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """Made by :meth:`surerec.recommenders.Recommender.wanted`, which checks it."""

    significance: float | None = None
    """ε; None for a recommender that has no confidence."""
    limit: int | None = None
    """The k best only."""
    min_probability: float | None = None
    """Only items at least so likely to be taken."""
    precision: float | None = None
    """The share of what is shown that is to be taken, where that is promised."""
    among: str | None = None
    """The name of the list that items are chosen from, on which the promise is calibrated."""
    allowed: NDArray[np.int64] | None = None
    """The only items that may be recommended, by code."""
    chances: bool = False
    """Whether to say how likely each list has one, two, three items that are taken."""
    excluded: NDArray[np.int64] | None = None
    """Items to leave out, by code."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is wanted but sets of all items at a confidence, or the best of them."""
        more = (self.min_probability, self.precision, self.among, self.allowed, self.excluded)
        return all(each is None for each in more) and not self.chances

    def limited(self, query: Query) -> Query:
        """Give a query that only the allowed items may answer."""
        if self.allowed is None:
            return query
        already = query.allowed
        both = self.allowed if already is None else np.intersect1d(self.allowed, already)
        return replace(query, allowed=both)

    def chosen(self, assessment: Assessment) -> tuple[NDArray[np.intp], int]:
        """Give the places of the items wanted, best first and not yet cut to the k best.

        And how many there are in the whole set.
        """
        order = assessment.ordered(self.significance)
        full_size = len(order)
        if self.min_probability is not None:
            assert assessment.chances is not None  # noqa: S101  # it was asked of one that has them
            # Who has no probabilities, as nobody like them calibrated, is shown nothing.
            order = order[assessment.chances(order).probability >= self.min_probability]
        if self.excluded is not None:
            order = order[~np.isin(assessment.candidates[order], self.excluded)]
        return order, full_size

    def sizes(self, assessment: Assessment) -> tuple[int, int] | None:
        """Give how many items are shown and how many are in the whole set, without their order.

        None where that takes the order, or where it could not be made later.
        """
        filters = self.min_probability is not None or self.excluded is not None
        if filters or self.significance is None or not assessment.lasts:
            return None
        full_size = assessment.size(self.significance)
        return (full_size if self.limit is None else min(self.limit, full_size)), full_size

    def shown(self, assessment: Assessment) -> Shown:
        """Give what is shown of an assessment: the items wanted, cut to the k best."""
        order, full_size = self.chosen(assessment)
        places = order[: self.limit]
        return Shown(places, full_size, is_whole=len(places) == full_size)


def check_fraction(name: str, value: object) -> float:
    """Give a number between 0 and 1, both excluded, or refuse it by its name.

    Examples
    --------
    >>> check_fraction("min_probability", 0.2)
    0.2
    """
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0 < float(value) < 1:  # type: ignore[arg-type]
        percent = float(value) / 100 if number else 0.0  # type: ignore[arg-type]
        hint = f"; did you mean {percent:g}?" if 0.01 < percent < 1 else "."  # noqa: PLR2004
        raise InputError(f"{name} is {value!r}; it must be a number between 0 and 1{hint}")
    return float(value)  # type: ignore[arg-type]
