"""Where a group's ranking had what its members took next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._checks import check_offsets
from surerec._progress import progress
from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import run_blocks
from surerec.calibration import codes_in
from surerec.together._aggregations import rank_together
from surerec.together._company import Company

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.together._aggregations import Aggregation

_GROUPS_AT_ONCE: Final = 4
_SCHEMAS: Final = {
    "offsets": ArraySchema("int64", ("n_groups+1",)),
    "users": ArraySchema("int64", ("n_members",), low=-1, below="n_users"),
    "owners": ArraySchema("int64", ("n_rows",), low=0, below="n_groups"),
    "places": ArraySchema("int64", ("n_rows",), low=0),
    "items": ArraySchema("int64", ("n_rows",)),
    "ranks": ArraySchema("float64", ("n_rows",), holds="numbers"),
    "own_ranks": ArraySchema("float64", ("n_rows",), holds="numbers"),
    "n_candidates": ArraySchema("int64", ("n_groups",)),
    "period": ArraySchema("int64", (2,)),
}


@dataclass(frozen=True, eq=False)
class GroupOutcomes:
    """Calibration groups, and where what their members took next had been ranked for the group.

    Attributes
    ----------
    offsets, users : array of int
        The members of group g are ``users[offsets[g]:offsets[g + 1]]``, by code; −1 for somebody
        whom the data do not know.
    owners, places, items : array of int
        For each item that a member took next and no member had taken before: which group, which of
        its members, and the item's code, below 0 for one that the model does not know.
    ranks, own_ranks : array of float
        Its rank for the group, and for that member alone; infinite if unknown.
    n_candidates : array of int
        How many items each group's ranking has.
    period : array of int
        The first and the last instant of the futures, in microseconds since 1970.
    """

    offsets: NDArray[np.int64]
    users: NDArray[np.int64]
    owners: NDArray[np.int64]
    places: NDArray[np.int64]
    items: NDArray[np.int64]
    ranks: NDArray[np.float64]
    own_ranks: NDArray[np.float64]
    n_candidates: NDArray[np.int64]
    period: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many members each group has."""
        return np.diff(self.offsets)

    @cached_property
    def by_item(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Each group's items once: whose they are, their ranks, and how many members took them."""
        keys = np.stack((self.owners, self.items), axis=1)
        _, first, takers = np.unique(keys, axis=0, return_index=True, return_counts=True)
        return self.owners[first], self.ranks[first], takers

    @cached_property
    def _groups_of(self) -> dict[int, int]:
        owners = np.repeat(np.arange(len(self)), self.sizes)
        pairs = zip(self.users.tolist(), owners.tolist(), strict=True)
        return {user: group for user, group in pairs if user >= 0}

    def with_any_of(self, users: tuple[int, ...]) -> set[int]:
        """Give the groups that one of these users is a member of."""
        return {self._groups_of[user] for user in users if user in self._groups_of}

    def state(self) -> State:
        """Return all arrays by name."""
        return State.of(self)

    @classmethod
    def from_state(cls, state: State, n_users: int) -> GroupOutcomes:
        """Read it back; KeyError or ValueError if these are not its arrays."""
        check_arrays("a calibration on groups", _SCHEMAS, state.arrays, n_users=n_users)
        found = cls(**state.arrays)
        check_offsets(found.offsets, len(found.users))
        if (found.sizes < 1).any() or (found.places >= found.sizes[found.owners]).any():
            raise ValueError("its groups are not whole")
        return found


def observe_groups(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    cases: Cases,
    groups: Sequence[NDArray[np.int64]],
    *aggregations: Aggregation,
    serving: PrecedenceStatistics | None = None,
) -> tuple[GroupOutcomes, ...]:
    """Score every group, and see where its members' held-out items are ranked.

    Parameters
    ----------
    scorer : Scorer
        What scores. It leaves the members of a group out together, or has learned nothing of
        their held-out interactions.
    statistics : PrecedenceStatistics
        What is known.
    cases : Cases
        People's pasts and futures.
    groups : sequence of arrays of int
        The places of each group's members among the cases.
    *aggregations : Aggregation
        What makes one ranking of theirs; outcomes come for each of them.
    serving : PrecedenceStatistics, optional
        Those whose codes name the members in the outcomes; by default `statistics`.
    """
    users, items = codes_in(statistics, cases.interactions)
    asks_joint = any(each.joint for each in aggregations)

    def one(group: NDArray[np.int64]) -> tuple[NDArray[np.float64], int]:
        company = Company(tuple(cases.query(int(case), users, items) for case in group))
        candidates = scorer.candidates(statistics, company.known, company.users)
        popularity = statistics.popularity_without(company.users, company.known)[candidates]
        ranks = company.ranks(scorer, statistics, candidates)
        joint = company.joint_ranks(scorer, statistics, candidates) if asks_joint else None
        together = np.stack(
            [
                rank_together(each, ranks, joint if each.joint else None, popularity)[1]
                for each in aggregations
            ]
        )
        place_of = np.full(statistics.n_items, -1)
        place_of[candidates] = np.arange(len(candidates))
        is_known = np.zeros(statistics.n_items, dtype=bool)
        is_known[company.known] = True
        rows = []
        for member, case in enumerate(group):
            # What nobody else knows has a code below 0 of its own, so that items stay apart.
            taken = cases.future(int(case))
            taken = taken[~is_known[items[taken]] | (items[taken] < 0)]
            is_candidate = (items[taken] >= 0) & (place_of[items[taken]] >= 0)
            future = np.where(is_candidate, items[taken], -1 - taken)
            seen = future >= 0
            here = place_of[future]
            entries = np.concatenate((ranks[member][None, here], together[:, here]))
            names = np.stack((np.full(len(future), member), future)).astype(np.float64)
            rows.append(np.concatenate((names, np.where(seen, entries, np.inf))))
        return np.concatenate(rows, axis=1), len(candidates)

    def block(start: int) -> list[tuple[NDArray[np.float64], int]]:
        return [one(group) for group in groups[start : start + _GROUPS_AT_ONCE]]

    found: list[tuple[NDArray[np.float64], int]] = []
    with progress("Scoring groups", total=len(groups), unit="groups") as advance:
        for some in run_blocks(block, range(0, len(groups), _GROUPS_AT_ONCE)):
            found += some
            advance(len(some))
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    lengths = [rows.shape[1] for rows, _ in found]
    nothing = np.empty((3 + len(aggregations), 0))
    places, codes, own, *together = np.concatenate([nothing, *(r for r, _ in found)], axis=1)
    members = np.concatenate([np.empty(0, dtype=np.int64), *groups])
    first = GroupOutcomes(
        offsets=np.concatenate(([0], np.cumsum(sizes))),
        users=codes_in(serving or statistics, cases.interactions)[0][cases.users[members]],
        owners=np.repeat(np.arange(len(groups)), lengths),
        places=places.astype(np.int64),
        items=codes.astype(np.int64),
        ranks=together[0].copy(),
        own_ranks=own.copy(),
        n_candidates=np.array([n for _, n in found], dtype=np.int64),
        period=np.array(cases[members].period() if len(members) else (0, 0)),
    )
    return first, *(replace(first, ranks=ranks.copy()) for ranks in together[1:])
