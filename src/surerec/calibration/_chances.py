"""What is kept of calibration users for the probability of each item, and for short lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec.calibration._item_curve import FOLDS, ItemCurve
from surerec.calibration._shaping import choose_bins
from surerec.conformal import CalibratedProbability
from surerec.futures import Bins, observe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.futures import Cases, Outcomes, Ranking
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

FEWEST_USERS: Final = 20
"""With fewer calibration users there are no probabilities."""
MOST_HITS: Final = 3
"""A list is told the chance of at least one hit, two, or so many."""

_SCHEMAS: Final = {
    "weights": ArraySchema("float64", (3,), low=0, holds="finite"),
    "edges": ArraySchema("float64", ("n_edges",), holds="finite"),
    "counts": ArraySchema("int32", ("n_calibration", "n_edges+1")),
    "hits": ArraySchema("int32", ("n_calibration", "n_edges+1"), low=0),
    "n_known": ArraySchema("int64", ("n_calibration",), low=0),
    "chooses": ArraySchema("bool", ("n_calibration",)),
    "swayed": ArraySchema("bool", ("n_calibration",)),
    "hit_ranks": ArraySchema("float64", ("n_calibration", MOST_HITS), low=1),
    "begin": ArraySchema("int64", (1,), low=-1),
}
_CHOOSING: Final = 4  # one in so many calibration users chooses
_MOST_SHAPING: Final = 300
_MOST_SHARES: Final = 1 << 25  # candidates' shares held at once to choose a scale by


@dataclass(frozen=True, eq=False)
class ItemChances:
    """Calibration users' candidates by bin, and which of them they took.

    Attributes
    ----------
    weights, edges : array of float
        Of the bins; see :class:`surerec.futures.Bins`.
    counts, hits : array of int32, n_users × n_bins
        Each calibration user's candidates by bin, and how many of them they took.
    n_known : array of int
        The length of each calibration user's history.
    chooses : array of bool
        Who chose the scale, and chooses where tests begin: one in four. The others calibrate.
    swayed : array of bool
        Who tipped the choice of the scale, and is therefore told no probability.
    hit_ranks : array of float, n_users × 3
        The ranks of the first three items that each took; infinite where there are fewer.
    begin : array of int, of one number
        When the calendar was cut, in microseconds since 1970; −1 where each profile was.
    """

    weights: NDArray[np.float64]
    edges: NDArray[np.float64]
    counts: NDArray[np.int32]
    hits: NDArray[np.int32]
    n_known: NDArray[np.int64]
    chooses: NDArray[np.bool_]
    swayed: NDArray[np.bool_]
    hit_ranks: NDArray[np.float64]
    begin: NDArray[np.int64]

    @classmethod
    def of(cls, outcomes: Outcomes, plan: Choice) -> ItemChances:
        """Take what is kept from outcomes that were counted by the bins of a choice."""
        assert outcomes.counts is not None  # noqa: S101  # so they were made
        assert outcomes.hits is not None  # noqa: S101
        users = outcomes.cases.users
        return cls(
            weights=plan.bins.weights,
            edges=plan.bins.edges,
            counts=outcomes.counts,
            hits=outcomes.hits,
            n_known=outcomes.n_known,
            chooses=np.isin(users, plan.choosing),
            swayed=np.isin(users, plan.swayed),
            hit_ranks=_first_hits(outcomes),
            begin=np.array([-1 if outcomes.cases.moment is None else outcomes.cases.moment]),
        )

    @cached_property
    def bins(self) -> Bins:
        """The bins."""
        return Bins(self.weights, self.edges)

    @cached_property
    def _testing(self) -> NDArray[np.intp]:
        return np.flatnonzero(~self.chooses)

    @cached_property
    def curve(self) -> ItemCurve:
        """The probability of items, from the users who did not choose the scale."""
        mine = self._testing
        return ItemCurve(self.bins, self.counts[mine], self.hits[mine], self.n_known[mine])

    def probabilities(
        self, shares: NDArray[np.float64], n_known: int, place: int | None = None
    ) -> CalibratedProbability:
        """Return the probabilities of one user's best items, without that user's own future.

        Parameters
        ----------
        shares : array of float
            The items' shares, best first.
        n_known : int
            The length of the history.
        place : int, optional
            Which of the calibration users it is, if any.
        """
        bins, ranks = self.bins.of(shares, n_known), np.arange(1, len(shares) + 1)
        without = None
        if place is not None and not self.chooses[place]:
            without = int(np.searchsorted(self._testing, place))
        return self.curve.predict(bins, ranks, np.array([n_known]), without=without)

    def probabilities_of_many(
        self,
        shares: NDArray[np.float64],
        ranks: NDArray[np.int64],
        owners: NDArray[np.int64],
        n_known: NDArray[np.int64],
        places: NDArray[np.int64],
    ) -> CalibratedProbability:
        """Return the same for the best items of several users.

        Parameters
        ----------
        shares, ranks, owners : array
            Of each item, user by user and best first.
        n_known, places : array of int
            Of each user the length of the history, and which calibration user it is, or −1.
        """
        bins = self.bins.of(shares, n_known[owners], ranks)
        tested = (places >= 0) & ~self.chooses[places]
        folds = np.where(tested, np.searchsorted(self._testing, places) % FOLDS, -1)
        found = np.empty((3, len(owners)))
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds[owners] == fold)
            found[:, rows] = self.curve.predict(
                bins[rows],
                ranks[rows],
                n_known,
                owners[rows],
                without=None if fold < 0 else int(fold),
            )
        return CalibratedProbability(*found)

    @cached_property
    def tells_items_apart(self) -> bool:
        """Whether some of the items in the lists of calibration users are likelier than others."""
        lists = [np.repeat(np.arange(self.bins.n), row)[::-1] for row in self.counts[:FEWEST_USERS]]
        found = [
            self.curve.predict(bins, np.arange(1, len(bins) + 1), self.n_known[[user]]).probability
            for user, bins in enumerate(lists)
        ]
        return any(said[0] > said[-1] for said in found if len(said))

    def bins_of(self, ranking: Ranking, n_known: int, n_items: int) -> NDArray[np.int64]:
        """Give the bin of every item, −1 for what is no candidate."""
        bins = np.full(n_items, -1, dtype=np.int64)
        bins[ranking.items] = self.bins.of(ranking.shares, n_known)
        return bins

    def state(self) -> State:
        """Return all arrays by name."""
        return State.of(self)

    @classmethod
    def from_state(cls, state: State, n_calibration: int) -> ItemChances:
        """Read it back; KeyError or ValueError if these are not its arrays."""
        check_arrays("probabilities", _SCHEMAS, state.arrays, n_calibration=n_calibration)
        found = cls(**state.arrays)
        rises = (np.diff(found.edges) > 0).all()
        if not rises or (found.hits > found.counts).any() or found.chooses.all():
            raise ValueError("its probabilities are not whole")
        return found


@dataclass(frozen=True, eq=False)
class Choice:
    """The bins, and by whom they were chosen."""

    bins: Bins
    choosing: NDArray[np.int64]
    """Users by code: one in four of those who calibrate."""
    swayed: NDArray[np.int64]
    """Those of them without whom it would have been another scale."""


def choose(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    cases: Cases,
    *,
    allowed: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> Choice | None:
    """Let one in four of the calibration users choose the bins; None if there are too few.

    Parameters
    ----------
    scorer, statistics, cases, allowed
        As :func:`surerec.futures.observe` takes them.
    seed : int, default=0
        Of who chooses.
    """
    if len(cases) < FEWEST_USERS:
        return None
    chosen = np.random.default_rng((seed, 4)).permutation(len(cases))[: len(cases) // _CHOOSING]
    shaping = chosen[: max(2, min(_MOST_SHAPING, _MOST_SHARES // max(statistics.n_items, 1)))]
    outcomes = observe(
        scorer,
        statistics,
        cases[np.sort(shaping)],
        keep_candidates=True,
        allowed=allowed,
        doing="Scoring calibration users who choose a scale",
    )
    if not len(outcomes):
        return None
    bins, swayed = choose_bins(outcomes)
    return Choice(bins, cases.users[chosen], outcomes.cases.users[swayed])


def _first_hits(outcomes: Outcomes) -> NDArray[np.float64]:
    order = np.lexsort((outcomes.ranks, outcomes.owners))
    owners, ranks = outcomes.owners[order], outcomes.ranks[order]
    begins = np.searchsorted(owners, np.arange(len(outcomes)))
    nth = np.arange(len(owners)) - begins[owners]
    found = np.full((len(outcomes), MOST_HITS), np.inf)
    first = nth < MOST_HITS
    found[owners[first], nth[first]] = ranks[first]
    return found
