"""What can be promised to a group, as a table: the group is the unit that loses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._arguments import check_choice
from surerec.calibration import Promise
from surerec.conformal import RiskCurve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from surerec.together._outcomes import GroupOutcomes


@dataclass(frozen=True)
class GroupPromise(Promise):
    """A guarantee whose unit is a group: what it loses as its set grows.

    Parameters
    ----------
    name : str
        What ``together=`` calls it.
    whose : str
        Whose items count, in words.
    takers_needed : callable
        Returns how many members must consume an item for it to count, by the size of the group.
    largest : int
        The largest groups that surerec forms itself for which it is offered: in larger ones hardly
        any item is consumed by so many.
    is_hit : bool
        Whether one such item in the set is enough; else an equal share is lost with each that is
        left out.
    """

    name: str
    whose: str = "any member"
    takers_needed: Callable[[NDArray[np.int64]], NDArray[np.int64]] = np.ones_like
    largest: int = 8
    is_hit: bool = False

    horizon = 0.4

    def __post_init__(self) -> None:
        """Be called the same in the names of recommenders and in tables."""
        for name in ("prefix", "kind"):
            object.__setattr__(self, name, self.name)

    @property
    def guarantees(self) -> str:
        """The kind of guarantee."""
        return "hit" if self.is_hit else "recall"

    @property
    def who_takes(self) -> str:
        """Whose items count, with its verb."""
        return f"{self.whose} {'take' if self.whose.endswith('s') else 'takes'}"

    def curve_of(self, outcomes: GroupOutcomes) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Return what groups lose as their sets grow, and which groups: those with such an item."""
        owners, ranks, takers = outcomes.by_item
        counts = takers >= self.takers_needed(outcomes.sizes)[owners]
        groups, units = np.unique(owners[counts], return_inverse=True)
        return self.curve(ranks[counts], units, len(groups)), groups

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Return what is lost as sets grow, of the ranks of such items."""
        of = RiskCurve.of_first if self.is_hit else RiskCurve.of_shares
        return of(entries, owners, n_users)

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Return the guarantee in words; see :class:`surerec.calibration.Promise`."""
        if self.is_hit:
            return (
                f"At least one item new to every member that {self.who_takes} next ({future}) is "
                f"in this set with probability at least {1 - significance:.4g}, over {people} who "
                "take such an item"
            )
        return (
            f"Of items new to every member that {self.who_takes} next ({future}), "
            f"at most {100 * significance:.4g}% is left out on average over {people} who take such "
            "an item"
        )

    def title(self, future: str) -> str:  # noqa: ARG002  # the same for every future
        """Return a few words for reports."""
        return f"{'no hit' if self.is_hit else 'missed'} of what {self.who_takes}"


class WorstServed(GroupPromise):
    """The worst-served member misses at most a share ε of theirs, on average over groups."""

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


def _more_than_half(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return sizes // 2 + 1


GROUP_PROMISES: Final[Mapping[str, GroupPromise]] = {
    promise.name: promise
    for promise in (
        GroupPromise("any"),
        GroupPromise("most", "more than half of the members", _more_than_half, largest=4),
        GroupPromise("all", "all members", np.positive, largest=2),
        WorstServed("worst", "the worst-served member"),
        GroupPromise("hit-any", is_hit=True),
        GroupPromise("hit-all", "all members", np.positive, largest=2, is_hit=True),
    )
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
