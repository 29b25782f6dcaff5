"""Group rankings: aggregations, calibration groups, and the guarantees for groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from surerec._arguments import check_choice, check_offsets
from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import for_each
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
"""Ways to form calibration groups."""
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
    """Convert ranks among n candidates to values between 1 (best) and 0: ``1 − log rank / log n``.

    On this logarithmic scale ranks 1 and 10 are as far apart as ranks 10 and 100.

    Examples
    --------
    >>> values_of(np.array([1.0, 10, 100]), 100).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.asarray(1 - np.log(ranks) / np.log(max(n, 2)))


@dataclass(frozen=True)
class Aggregation:
    """Combines the members' rankings into a group ranking.

    Parameters
    ----------
    name : str
        Value of the parameter ``aggregation``.
    words : str
        Description.
    score : callable
        Returns the group's value of each candidate (higher is better) from the members' values,
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
"""The aggregations by name. A new entry is available on all surfaces."""


def find_aggregation(aggregation: str | Aggregation) -> Aggregation:
    """Return an aggregation by name; an Aggregation is returned as it is.

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
    """Return the members' ranks of each candidate, and the group's values and ranks, from 1.

    The members' mean value breaks ties, then popularity.
    """
    own = group.ranks(scorer, statistics, candidates)
    values = values_of(own, len(candidates))
    found = aggregation.score(values)
    popularity = statistics.popularity_without(group.users, group.known)[candidates]
    # Rounded, because sums in another order differ in the last bit.
    order = np.lexsort((popularity, -values.mean(axis=0).round(12), -found.round(12)))
    return own, found, places_of(order)


def form_groups(
    cases: Cases, size: int, formed: str, folds: NDArray[np.int64], random_state: int
) -> list[NDArray[np.int64]]:
    """Divide cases into disjoint groups of one size; fewer than `size` per fold remain ungrouped.

    Parameters
    ----------
    cases : Cases
        Users with their histories. Held-out items are not used.
    size : int
        Number of members.
    formed : {"random", "similar"}
        At random; or around random users, with the most similar remaining users by the cosine of
        their histories.
    folds : array of int
        The training fold of each case. Groups lie within a fold, so that their members can be left
        out together.
    random_state : int
        Seed of the random choice.

    Returns
    -------
    list of arrays of int
        The positions of the members among the cases.
    """
    rng = np.random.default_rng((random_state, size))
    groups: list[NDArray[np.int64]] = []
    for fold in np.unique(folds):
        some = rng.permutation(np.flatnonzero(folds == fold))
        if formed == "random":
            whole = some[: len(some) // size * size]
            groups += list(whole.reshape(-1, size))
        else:
            groups += _similar(cases, some, size)
    return groups


def _similar(cases: Cases, some: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    from scipy import sparse  # noqa: PLC0415  # slow to import, rarely needed

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
    """Calibration groups, and the ranks of their members' held-out items for the group.

    Attributes
    ----------
    offsets, users : array of int
        The members of group g are ``users[offsets[g]:offsets[g + 1]]``, by code; −1 for unknown
        users.
    owners, places, items : array of int
        For each held-out item that is new to every member: the group, the position of the member
        who consumed it, and the item's code, negative if the model does not know it.
    ranks, own_ranks : array of float
        Its rank for the group, and for that member alone; infinite if unknown.
    n_candidates : array of int
        Number of items in each group's ranking.
    period : array of int
        The first and last time of the held-out interactions, in microseconds since 1970.
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
        """Number of members of each group."""
        return np.diff(self.offsets)

    @cached_property
    def by_item(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """The distinct items of each group: owners, ranks and numbers of consumers."""
        keys = np.stack((self.owners, self.items), axis=1)
        _, first, consumers = np.unique(keys, axis=0, return_index=True, return_counts=True)
        return self.owners[first], self.ranks[first], consumers

    @cached_property
    def _curves(self) -> dict[str, tuple[RiskCurve, NDArray[np.int64]]]:
        return {}

    def curve(self, guarantee: GroupGuaranteeKind) -> tuple[RiskCurve, NDArray[np.int64]]:
        """Return the risk curve of a guarantee and its groups; computed once."""
        if guarantee.name not in self._curves:
            self._curves[guarantee.name] = guarantee.curve_of(self)
        return self._curves[guarantee.name]

    def with_any_of(self, users: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the groups with at least one of these users."""
        owners = np.repeat(np.arange(len(self)), self.sizes)
        return np.unique(owners[np.isin(self.users, users)])

    def state(self) -> State:
        """Return all arrays by name."""
        return State.of(self)

    @classmethod
    def from_state(cls, state: State, n_users: int) -> GroupOutcomes:
        """Restore it from its state; raise KeyError or ValueError if they do not match."""
        check_arrays("a calibration on groups", _SCHEMAS, state.arrays, n_users=n_users)
        found = cls(**state.arrays)
        check_offsets(found.offsets, len(found.users))
        if (found.sizes < 1).any() or (found.places >= found.sizes[found.owners]).any():
            raise ValueError("its groups are incomplete")
        return found


def observe_groups(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    cases: Cases,
    groups: Sequence[NDArray[np.int64]],
    aggregation: Aggregation,
    serving: PrecedenceStatistics | None = None,
) -> GroupOutcomes:
    """Score each group, and return the ranks of its members' held-out items.

    Parameters
    ----------
    scorer : Scorer
        Leaves the members of a group out together, or was not trained on their held-out items.
    statistics : PrecedenceStatistics
        The statistics of the histories.
    cases : Cases
        Users' histories and held-out items.
    groups : sequence of arrays of int
        The positions of each group's members among the cases.
    aggregation : Aggregation
        Combines the members' rankings.
    serving : PrecedenceStatistics, optional
        The statistics whose user codes the outcomes have; by default `statistics`.
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
            # Unknown items have distinct negative codes, so that they stay apart.
            consumed = cases.future(int(case))
            consumed = consumed[~is_known[items[consumed]] | (items[consumed] < 0)]
            is_candidate = (items[consumed] >= 0) & (place_of[items[consumed]] >= 0)
            future = np.where(is_candidate, items[consumed], -1 - consumed)
            here = place_of[future]
            entries = np.where(future >= 0, np.stack((own[member, here], ranks[here])), np.inf)
            rows.append(np.vstack((np.full(len(future), member), future, entries)))
        return np.concatenate(rows, axis=1), len(candidates)

    found = for_each(one, groups, "Scoring groups", unit="groups", at_once=_GROUPS_AT_ONCE)
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
    """A guarantee for groups.

    Parameters
    ----------
    name : str
        Value of ``group_guarantee=``.
    whose : str
        The members who consume the items that count.
    consumers_needed : callable
        Returns the number of members who must consume an item, by the size of the group.
    largest : int
        The largest group size that surerec calibrates itself: in larger groups hardly any item
        has so many consumers.
    loses : {"share", "hit", "worst"}
        The loss: the share of such items outside the set; 1 if none is in the set; or the share
        that the worst-served member misses.
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
        """Return the risk curve of the groups with an item that counts, and these groups."""
        if self.loses == "worst":
            return _worst_served(outcomes)
        owners, ranks, consumers = outcomes.by_item
        counts = consumers >= self.consumers_needed(outcomes.sizes)[owners]
        groups, units = np.unique(owners[counts], return_inverse=True)
        of = RiskCurve.of_first if self.loses == "hit" else RiskCurve.of_shares
        return of(ranks[counts], units, len(groups)), groups

    def sentence(self, significance: float, future: str, covers: str) -> str:
        """Return the claim, without assumptions and full stop."""
        verb = "consume" if self.whose.endswith("s") else "consumes"
        items = f"the items new to every member, if any, that {self.whose} {verb} next ({future})"
        level = f"{100 * (1 - significance):.4g}%"
        if self.loses == "hit":
            return f"A hit with probability at least {level} over {covers}: one of {items}"
        worst = " for the worst-served member" if self.loses == "worst" else ""
        return (
            f"Recall of at least {level}{worst} on average over {covers}: the set contains at "
            f"least {level} of {items}"
        )


def _worst_served(outcomes: GroupOutcomes) -> tuple[RiskCurve, NDArray[np.int64]]:
    """Return the risk curve of the member who misses the largest share."""
    order = np.lexsort((outcomes.ranks, outcomes.owners))
    found = np.unique(outcomes.owners[order], return_index=True, return_counts=True)
    groups, starts, lengths = found
    losses = np.empty(len(order))
    for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True):
        member = outcomes.places[order[start:stop]]
        consumed = np.bincount(member)
        inside = (member[:, None] == np.flatnonzero(consumed)[None]).cumsum(axis=0)
        missed = (1 - inside / consumed[consumed > 0]).max(axis=1)
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
"""The guarantees for groups by name. A new entry is available on all surfaces."""
