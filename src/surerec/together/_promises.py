"""What can be promised to a group, as a table: the group is the unit that loses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from surerec._arguments import check_choice
from surerec.calibration import Promise
from surerec.conformal import RiskCurve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.together._outcomes import GroupOutcomes


class GroupPromise(Promise):
    """A promise whose unit is a group: what it loses as its set grows.

    A new one is a class like this, and a row in :data:`GROUP_PROMISES`.

    Attributes
    ----------
    whose : str
        Whose items count, in words.
    largest : int
        The largest groups that surerec forms itself for which it is offered: in larger ones hardly
        any item is taken by so many.
    """

    horizon = 0.4
    whose: ClassVar[str] = "any member"
    largest: ClassVar[int] = 8

    @property
    def who_takes(self) -> str:
        """Whose items count, with its verb."""
        return f"{self.whose} {'take' if self.whose.endswith('s') else 'takes'}"

    def takers_needed(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give how many members must take an item for it to count, by the size of the group."""
        return np.ones_like(sizes)

    def curve_of(self, outcomes: GroupOutcomes) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Give what groups lose as their sets grow, and which groups: those with such an item."""
        owners, ranks, takers = outcomes.by_item
        counts = takers >= self.takers_needed(outcomes.sizes)[owners]
        groups, units = np.unique(owners[counts], return_inverse=True)
        return self.curve(ranks[counts], units, len(groups)), groups

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Lose an equal share with each such item that is left out."""
        return RiskCurve.of_shares(entries, owners, n_users)

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say it; see :class:`surerec.calibration.Promise`."""
        return (
            f"Of items new to every member that {self.who_takes} next ({future}), "
            f"at most {100 * significance:.4g}% is left out on average over {people} who take such "
            "an item"
        )

    def title(self, future: str) -> str:  # noqa: ARG002  # the same for every future
        """Give a few words for reports."""
        return f"missed of what {self.who_takes}"


class AnyTakes(GroupPromise):
    """Of what any member takes next, at most a share ε is left out."""

    name = prefix = kind = "any"


class MostTake(GroupPromise):
    """Of what more than half of the members take next, at most a share ε is left out."""

    name = prefix = kind = "most"
    whose = "more than half of the members"
    largest = 4

    def takers_needed(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the least number that is more than half."""
        return sizes // 2 + 1


class AllTake(GroupPromise):
    """Of what all members take next, at most a share ε is left out."""

    name = prefix = kind = "all"
    whose = "all members"
    largest = 2

    def takers_needed(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ask for everybody."""
        return sizes


class WorstServed(GroupPromise):
    """The worst-served member misses at most a share ε of theirs, on average over groups."""

    name = prefix = kind = "worst"
    whose = "the worst-served member"

    def curve_of(self, outcomes: GroupOutcomes) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Lose, with each set, as much as the member who misses the largest share."""
        order = np.lexsort((outcomes.ranks, outcomes.owners))
        found = np.unique(outcomes.owners[order], return_index=True, return_counts=True)
        groups, starts, lengths = found
        losses = np.empty(len(order))
        for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True):
            member = outcomes.places[order[start:stop]]
            taken = np.bincount(member)
            let_in = (member[:, None] == np.flatnonzero(taken)[None]).cumsum(axis=0)
            missed = (1 - let_in / taken[taken > 0]).max(axis=1)
            losses[start:stop] = -np.diff(missed, prepend=1.0)
        units = np.repeat(np.arange(len(groups)), lengths)
        return RiskCurve(outcomes.ranks[order], losses, units, len(groups)), groups

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say it; see :class:`surerec.calibration.Promise`."""
        return (
            f"The worst-served member misses at most {100 * significance:.4g}% of items new to "
            f"every member that they take next ({future}), on average over {people} who take such "
            "an item"
        )

    def title(self, future: str) -> str:  # noqa: ARG002
        """Give a few words for reports."""
        return "missed by the worst-served member"


class _Hit(GroupPromise):
    """With probability 1 − ε at least one such item is in the list."""

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Lose all as long as no such item is let in."""
        return RiskCurve.of_first(entries, owners, n_users)

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say it; see :class:`surerec.calibration.Promise`."""
        return (
            f"At least one item new to every member that {self.who_takes} next ({future}) is in "
            f"this set with probability at least {1 - significance:.4g}, over {people} who take "
            "such an item"
        )

    def title(self, future: str) -> str:  # noqa: ARG002
        """Give a few words for reports."""
        return f"no hit of what {self.who_takes}"


class HitAny(_Hit, AnyTakes):
    """With probability 1 − ε at least one item that any member takes is in the list."""

    name = prefix = kind = "hit-any"


class HitAll(_Hit, AllTake):
    """With probability 1 − ε at least one item that all members take is in the list."""

    name = prefix = kind = "hit-all"


GROUP_PROMISES: Final[Mapping[str, GroupPromise]] = {
    promise.name: promise
    for promise in (AnyTakes(), MostTake(), AllTake(), WorstServed(), HitAny(), HitAll())
}
"""The promises over groups by name; a row more is a promise more, everywhere."""


def find_group_promise(promise: str | GroupPromise) -> GroupPromise:
    """Look a promise over groups up by name, or take it as it is.

    Examples
    --------
    >>> find_group_promise("all").largest
    2
    """
    if isinstance(promise, GroupPromise):
        return promise
    return GROUP_PROMISES[check_choice("together", promise, GROUP_PROMISES)]
