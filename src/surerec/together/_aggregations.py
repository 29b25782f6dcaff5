"""How one ranking for a group is made of its members' rankings, as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from surerec._arguments import check_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

APPROVED: Final = 0.1
"""The best tenth of the candidates is what a member approves of."""


def values_of(ranks: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Turn ranks among n candidates into values that compare between people: from 1 down to 0.

    By the logarithm, ``1 − log rank / log n``: between first and tenth lies as much as between the
    tenth and the hundredth.

    Examples
    --------
    >>> values_of(np.array([1.0, 10, 100]), 100).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.asarray(1 - np.log(ranks) / np.log(max(n, 2)))


class Aggregation(ABC):
    """Gives the group's value of every candidate; higher is better for the group.

    A new one is a class like this and a row in :data:`AGGREGATIONS`, or an object that is given.

    Attributes
    ----------
    name : str
        As the parameter ``aggregation`` has it.
    words : str
        What it does, in words.
    joint : bool
        Whether it is asked for one row, the values by the members' histories merged into one.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    joint: ClassVar[bool] = False

    @abstractmethod
    def score(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aggregate the members' values, members × candidates, see :func:`values_of`."""


class Average(Aggregation):
    """The mean of the members' values."""

    name = "average"
    words = "the members' mean value"

    def score(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the mean."""
        return np.asarray(values.mean(axis=0))


class LeastMisery(Aggregation):
    """The least satisfied member decides."""

    name = "least-misery"
    words = "the value to the least satisfied member"

    def score(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the least."""
        return np.asarray(values.min(axis=0))


class MostPleasure(Aggregation):
    """The most satisfied member decides."""

    name = "most-pleasure"
    words = "the value to the most satisfied member"

    def score(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the largest."""
        return np.asarray(values.max(axis=0))


class Approval(Aggregation):
    """How many members have it in a set of their own, which is their best tenth.

    A set at a confidence would be cut by the futures of the very people who calibrate the group.
    """

    name = "approval"
    words = "how many members have it among their own best tenth"

    def score(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Count them."""
        n = values.shape[1]
        least = values_of(np.ceil(APPROVED * np.array([n])), n)[0] - 1e-12
        return np.asarray((values >= least).sum(axis=0).astype(np.float64))


class JointProfile(Aggregation):
    """The members' histories are merged by time into one, which scores the items."""

    name = "joint-profile"
    words = "the value to one person who had taken all that the members took"
    joint = True

    def score(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the one row that there is."""
        found: NDArray[np.float64] = values[0]
        return found


AGGREGATIONS: Final[Mapping[str, Aggregation]] = {
    each.name: each
    for each in (Average(), LeastMisery(), MostPleasure(), Approval(), JointProfile())
}
"""The aggregations by name; a row more is an aggregation more, everywhere."""


def find_aggregation(aggregation: str | Aggregation) -> Aggregation:
    """Look an aggregation up by name, or take it as it is.

    Examples
    --------
    >>> find_aggregation("least-misery").score(np.array([[0.9, 0.5], [0.1, 0.4]])).tolist()
    [0.1, 0.4]
    """
    if isinstance(aggregation, Aggregation):
        return aggregation
    return AGGREGATIONS[check_choice("aggregation", aggregation, AGGREGATIONS)]


def rank_together(
    aggregation: Aggregation,
    members: NDArray[np.float64],
    joint: NDArray[np.float64] | None,
    popularity: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the group's value and rank of every candidate, from 1.

    What is equal for the aggregation is told apart by the members' mean value, then by popularity.

    Parameters
    ----------
    aggregation : Aggregation
        What makes one value of several.
    members : array of float, members × candidates
        Everybody's ranks.
    joint : array of float or None
        The ranks by the joint profile as one row, where the aggregation asks for them.
    popularity : array of int
        The candidates' places in the order of popularity.
    """
    n = members.shape[1]
    values = values_of(members, n)
    found = aggregation.score(values if joint is None else values_of(joint, n))
    # Rounded: sums that differ in the last bit only are the same sum in another order.
    order = np.lexsort((popularity, -values.mean(axis=0).round(12), -found.round(12)))
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    return found, ranks
