"""Rankings of groups: how they are made of the members', and how calibration groups fared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from surerec._arguments import check_choice, check_offsets
from surerec._progress import progress
from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import run_blocks
from surerec.calibration import codes_in
from surerec.conformal import RiskCurve
from surerec.recommenders._query import Group, places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

FORMED: Final = ("random", "similar")
"""How surerec forms groups by itself."""
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


def values_of(ranks: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Turn ranks among n candidates into values that compare between users: from 1 down to 0.

    By the logarithm, ``1 − log rank / log n``: between first and tenth lies as much as between the
    tenth and the hundredth.

    Examples
    --------
    >>> values_of(np.array([1.0, 10, 100]), 100).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.asarray(1 - np.log(ranks) / np.log(max(n, 2)))


@dataclass(frozen=True)
class Aggregation:
    """How one ranking for a group is made of its members' rankings.

    Parameters
    ----------
    name : str
        As the parameter ``aggregation`` has it.
    words : str
        What it does, in words.
    score : callable
        Returns the group's value of every candidate, higher is better, from the members' values,
        members × candidates; see :func:`values_of`.
    """

    name: str
    words: str
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values.mean(axis=0))


AGGREGATIONS: Final[Mapping[str, Aggregation]] = {
    each.name: each
    for each in (
        Aggregation("average", "the members' mean value", _mean),
        Aggregation(
            "least-misery", "the value to the least satisfied member", partial(np.min, axis=0)
        ),
        Aggregation(
            "most-pleasure", "the value to the most satisfied member", partial(np.max, axis=0)
        ),
    )
}
"""The aggregations by name; a row more is an aggregation more, everywhere."""


def find_aggregation(aggregation: str | Aggregation) -> Aggregation:
    """Return an aggregation by name, or the given one.

    Examples
    --------
    >>> find_aggregation("least-misery").score(np.array([[0.9, 0.5], [0.1, 0.4]])).tolist()
    [0.1, 0.4]
    """
    if isinstance(aggregation, Aggregation):
        return aggregation
    return AGGREGATIONS[check_choice("aggregation", aggregation, AGGREGATIONS)]


def group_ranks(
    aggregation: Aggregation,
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    group: Group,
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the members' ranks of every candidate, and the group's values and ranks, from 1.

    What is equal for the aggregation is told apart by the members' mean value, then by popularity.
    """
    own = group.ranks(scorer, statistics, candidates)
    values = values_of(own, len(candidates))
    found = aggregation.score(values)
    popularity = statistics.popularity_without(group.users, group.known)[candidates]
    # Rounded: sums that differ in the last bit only are the same sum in another order.
    order = np.lexsort((popularity, -values.mean(axis=0).round(12), -found.round(12)))
    return own, found, places_of(order)


def form_groups(
    cases: Cases, size: int, formed: str, folds: NDArray[np.int64], random_state: int
) -> list[NDArray[np.int64]]:
    """Divide cases into disjoint groups of one size, once over all of them.

    Who is left over, fewer than `size` in each fold, is in no group.

    Parameters
    ----------
    cases : Cases
        People with what is known of them. Their futures are not looked at.
    size : int
        How many members.
    formed : {"random", "similar"}
        At random; or around people drawn at random the most similar of those who are left, by the
        cosine of what is known of them.
    folds : array of int
        The fold of each case: groups lie within one, as nobody else can be left out together.
    random_state : int
        Of the draw.

    Returns
    -------
    list of arrays of int
        The places of the members among the cases.
    """
    chance = np.random.default_rng((random_state, size))
    groups: list[NDArray[np.int64]] = []
    for fold in np.unique(folds):
        some = chance.permutation(np.flatnonzero(folds == fold))
        if formed == "random":
            whole = some[: len(some) // size * size]
            groups += list(whole.reshape(-1, size))
        else:
            groups += _similar(cases, some, size)
    return groups


def _similar(cases: Cases, some: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    from scipy import sparse  # noqa: PLC0415  # slow to import, and seldom needed

    known = [cases.known(int(case)) for case in some]
    items = np.concatenate(known)
    ends = np.cumsum([0, *map(len, known)])
    shape = (len(some), cases.interactions.n_items)
    consumed = sparse.csr_matrix((np.ones(len(items)), items, ends), shape=shape)
    lengths = np.sqrt(np.maximum(np.diff(ends), 1))
    transposed = consumed.T.tocsc()
    free = np.ones(len(some), dtype=bool)
    groups = []
    for first in range(len(some)):
        if not free[first] or free.sum() < size:
            continue
        free[first] = False
        alike = (consumed[first] @ transposed).toarray().ravel() / lengths
        alike[~free] = -1.0
        near = np.argsort(-alike, kind="stable")[: size - 1]
        free[near] = False
        groups.append(some[np.concatenate(([first], near))])
    return groups


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
        _, first, consumers = np.unique(keys, axis=0, return_index=True, return_counts=True)
        return self.owners[first], self.ranks[first], consumers

    @cached_property
    def _curves(self) -> dict[str, tuple[RiskCurve, NDArray[np.int64]]]:
        return {}

    def curve(self, guarantee: GroupGuaranteeKind) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Return what groups lose as sets grow, and which groups these are; computed once."""
        if guarantee.name not in self._curves:
            self._curves[guarantee.name] = guarantee.curve_of(self)
        return self._curves[guarantee.name]

    def with_any_of(self, users: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the groups that one of these users is a member of."""
        owners = np.repeat(np.arange(len(self)), self.sizes)
        return np.unique(owners[np.isin(self.users, users)])

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
    aggregation: Aggregation,
    serving: PrecedenceStatistics | None = None,
) -> GroupOutcomes:
    """Score every group, and return where its members' held-out items are ranked.

    Parameters
    ----------
    scorer : Scorer
        What scores. It leaves the members of a group out together, or has learned nothing of
        their held-out interactions.
    statistics : PrecedenceStatistics
        What is known.
    cases : Cases
        Users' pasts and futures.
    groups : sequence of arrays of int
        The places of each group's members among the cases.
    aggregation : Aggregation
        What makes one ranking of theirs.
    serving : PrecedenceStatistics, optional
        Those whose codes name the members in the outcomes; by default `statistics`.
    """
    users, items = codes_in(statistics, cases.interactions)

    def one(places: NDArray[np.int64]) -> tuple[NDArray[np.float64], int]:
        group = Group(tuple(cases.query(int(case), users, items) for case in places))
        candidates = scorer.candidates(statistics, group.known, group.users)
        own, _, ranks = group_ranks(aggregation, scorer, statistics, group, candidates)
        place_of = np.full(statistics.n_items, -1)
        place_of[candidates] = np.arange(len(candidates))
        is_known = np.zeros(statistics.n_items, dtype=bool)
        is_known[group.known] = True
        rows = []
        for member, case in enumerate(places):
            # What nobody else knows has a code below 0 of its own, so that items stay apart.
            consumed = cases.future(int(case))
            consumed = consumed[~is_known[items[consumed]] | (items[consumed] < 0)]
            is_candidate = (items[consumed] >= 0) & (place_of[items[consumed]] >= 0)
            future = np.where(is_candidate, items[consumed], -1 - consumed)
            here = place_of[future]
            entries = np.where(future >= 0, np.stack((own[member, here], ranks[here])), np.inf)
            rows.append(np.vstack((np.full(len(future), member), future, entries)))
        return np.concatenate(rows, axis=1), len(candidates)

    def block(start: int) -> list[tuple[NDArray[np.float64], int]]:
        return [one(group) for group in groups[start : start + _GROUPS_AT_ONCE]]

    found: list[tuple[NDArray[np.float64], int]] = []
    with progress("Scoring groups", total=len(groups), unit="groups") as advance:
        for some in run_blocks(block, range(0, len(groups), _GROUPS_AT_ONCE)):
            found += some
            advance(len(some))
    rows = np.concatenate([np.empty((4, 0)), *(each for each, _ in found)], axis=1)
    members = np.concatenate([np.empty(0, dtype=np.int64), *groups])
    return GroupOutcomes(
        offsets=np.cumsum([0, *map(len, groups)]),
        users=codes_in(serving or statistics, cases.interactions)[0][cases.users[members]],
        owners=np.repeat(np.arange(len(groups)), [each.shape[1] for each, _ in found]),
        places=rows[0].astype(np.int64),
        items=rows[1].astype(np.int64),
        ranks=rows[3].copy(),
        own_ranks=rows[2].copy(),
        n_candidates=np.array([n for _, n in found], dtype=np.int64),
        period=np.array(cases[members].period() if len(members) else (0, 0)),
    )


@dataclass(frozen=True)
class GroupGuaranteeKind:
    """A guarantee whose unit is a group: what it loses as its set grows.

    Parameters
    ----------
    name : str
        What ``group_guarantee=`` calls it.
    whose : str
        Whose items count, in words.
    consumers_needed : callable
        Returns how many members must consume an item for it to count, by the size of the group.
    largest : int
        The largest groups that surerec forms itself for which it is offered: in larger ones hardly
        any item is consumed by so many.
    loses : {"share", "hit", "worst"}
        Whether an equal share is lost with each such item that is left out, everything if not one
        is in the set, or the share that the worst-served member misses of theirs.
    """

    name: str
    whose: str = "any member"
    consumers_needed: Callable[[NDArray[np.int64]], NDArray[np.int64]] = np.ones_like
    largest: int = 8
    loses: Literal["share", "hit", "worst"] = "share"

    @property
    def guarantees(self) -> str:
        """The kind of guarantee."""
        return "hit" if self.loses == "hit" else "recall"

    def curve_of(self, outcomes: GroupOutcomes) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Return what groups lose as their sets grow, and which groups: those with such an item."""
        if self.loses == "worst":
            return _worst_served(outcomes)
        owners, ranks, consumers = outcomes.by_item
        counts = consumers >= self.consumers_needed(outcomes.sizes)[owners]
        groups, units = np.unique(owners[counts], return_inverse=True)
        of = RiskCurve.of_first if self.loses == "hit" else RiskCurve.of_shares
        return of(ranks[counts], units, len(groups)), groups

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Return the guarantee in words, without the assumption and without a full stop."""
        who = f"{self.whose} {'take' if self.whose.endswith('s') else 'takes'}"
        missed, such = f"at most {100 * significance:.4g}%", f"over {people} who take such an item"
        if self.loses == "hit":
            return (
                f"At least one item new to every member that {who} next ({future}) is in this set "
                f"with probability at least {1 - significance:.4g}, {such}"
            )
        if self.loses == "worst":
            return (
                f"The worst-served member misses {missed} of items new to every member that they "
                f"take next ({future}), on average {such}"
            )
        return (
            f"Of items new to every member that {who} next ({future}), {missed} is left out on "
            f"average {such}"
        )


def _worst_served(outcomes: GroupOutcomes) -> tuple[RiskCurve, NDArray[np.int64]]:
    """Return, with each set, the loss of the member who misses the largest share."""
    order = np.lexsort((outcomes.ranks, outcomes.owners))
    found = np.unique(outcomes.owners[order], return_index=True, return_counts=True)
    groups, starts, lengths = found
    losses = np.empty(len(order))
    for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True):
        member = outcomes.places[order[start:stop]]
        consumed = np.bincount(member)
        let_in = (member[:, None] == np.flatnonzero(consumed)[None]).cumsum(axis=0)
        missed = (1 - let_in / consumed[consumed > 0]).max(axis=1)
        losses[start:stop] = -np.diff(missed, prepend=1.0)
    units = np.repeat(np.arange(len(groups)), lengths)
    return RiskCurve(outcomes.ranks[order], losses, units, len(groups)), groups


def _more_than_half(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return sizes // 2 + 1


GROUP_GUARANTEE_KINDS: Final[Mapping[str, GroupGuaranteeKind]] = {
    guarantee.name: guarantee
    for guarantee in (
        GroupGuaranteeKind("any"),
        GroupGuaranteeKind("most", "more than half of the members", _more_than_half, largest=4),
        GroupGuaranteeKind("all", "all members", np.positive, largest=2),
        GroupGuaranteeKind("worst", "the worst-served member", loses="worst"),
        GroupGuaranteeKind("hit-any", loses="hit"),
        GroupGuaranteeKind("hit-all", "all members", np.positive, largest=2, loses="hit"),
    )
}
"""The guarantees to groups by name; a row more is a guarantee more, everywhere."""
