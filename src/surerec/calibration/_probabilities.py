"""Calibration on users' held-out interactions, for sets and probabilities.

Probabilities are calibrated on one scale for all users' candidates. Some of the calibration users
choose it from a few. For each of these users we know whether it would have been chosen without
them, so no user's own outcomes affect their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec.calibration._ranking import Bins, edges_of, observe, scale
from surerec.calibration._regressions import FOLDS, MOST_HITS, ItemCurve
from surerec.conformal import CalibratedProbability

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.calibration._held_out import Cases
    from surerec.calibration._ranking import Outcomes, Ranking
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

FEWEST_USERS: Final = 20
"""Fewest calibration users for probabilities."""

COMPARED: Final = (0.1, 0.2, 0.3, 0.5)
"""The ε at which set sizes by rank and by learned threshold are compared."""

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
    "sizes": ArraySchema("float64", (2, len(COMPARED)), low=0),
}
_CHOOSING: Final = 4  # one in four calibration users chooses the scale
_MOST_SHAPING: Final = 300
_MOST_SHARES: Final = 1 << 25  # candidates' shares in memory while a scale is chosen
_SHARE_AND_RANK: Final = (
    (1.0, 0.1),
    (1.0, 0.25),
    (1.0, 0.0),
    (1.0, 0.5),
    (1.0, 1.0),
    (0.0, 1.0),
)
_KNOWN: Final = (0.0, 1.0, 0.5)
SCALES: Final = np.array([(*two, known) for two, known in product(_SHARE_AND_RANK, _KNOWN)])
"""Possible scales: weights of share, rank and known items."""

_AS_GOOD: Final = 1.001
"""The first scale within this factor of the smallest loss is chosen.

Otherwise single users could decide between near ties.
"""

_TOP: Final = 1000  # best items that choose a scale
_SHOWN: Final = 10  # the items that most users see, which weigh as much as all together
_LEAST: Final = 1e-4  # lowest rate, so that a left-out hit has a finite loss
_GAIN: Final = 0.01  # a learned threshold must save 1%, as the choosing users do not calibrate it
_FEWEST_COMPARED: Final = 50  # choosing users, as fewer cannot tell which sets are smaller
_COARSE: Final = 2  # bins are wider by this factor when few users choose


@dataclass(frozen=True, eq=False)
class ItemProbabilities:
    """Calibration users' candidates by bin, and how many of them they consumed.

    Attributes
    ----------
    weights, edges : array of float
        Parameters of the bins; see :class:`surerec.calibration.Bins`.
    counts, hits : array of int32, n_users × n_bins
        Each calibration user's candidates by bin, and how many of them they consumed.
    n_known : array of int
        The length of each calibration user's history.
    chooses : array of bool
        One in four users, who chose the scale and where tests begin. The others calibrate.
    swayed : array of bool
        Users without whom another scale would have been chosen. They get no probabilities.
    hit_ranks : array of float, n_users × 3
        Ranks of the three best-ranked items that each consumed; infinite if fewer.
    begin : array of int, of one number
        Time of a temporal split, in microseconds since 1970; −1 for a per-user split.
    sizes : array of float, 2 × 4
        Mean set sizes of the choosing users by rank and by learned threshold; 0 if not compared.
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
    sizes: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, len(COMPARED))))

    @classmethod
    def of(cls, outcomes: Outcomes, plan: Choice) -> ItemProbabilities:
        """Build it from outcomes that were counted by the chosen bins."""
        assert outcomes.counts is not None  # noqa: S101  # counted by bins
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
        """The bins of candidates."""
        return Bins(self.weights, self.edges)

    @cached_property
    def _testing(self) -> NDArray[np.intp]:
        return np.flatnonzero(~self.chooses)

    @cached_property
    def curve(self) -> ItemCurve:
        """The regression on the users who did not choose the scale."""
        mine = self._testing
        return ItemCurve(self.bins, self.counts[mine], self.hits[mine], self.n_known[mine])

    def probabilities(
        self, shares: NDArray[np.float64], n_known: int, place: int | None = None
    ) -> CalibratedProbability:
        """Return the probabilities of one user's best items, without that user's own outcomes.

        Parameters
        ----------
        shares : array of float
            The items' shares, best first.
        n_known : int
            The length of the history.
        place : int, optional
            The user's place among the calibration users, if any.
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
        """Return the probabilities of the best items of several users.

        Parameters
        ----------
        shares, ranks, owners : array
            One value per item, user by user and best first.
        n_known, places : array of int
            History length of each user, and place among the calibration users, or −1.
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
        """Whether probabilities differ within the lists of calibration users."""
        lists = [np.repeat(np.arange(self.bins.n), row)[::-1] for row in self.counts[:FEWEST_USERS]]
        found = [
            self.curve.predict(bins, np.arange(1, len(bins) + 1), self.n_known[[user]]).probability
            for user, bins in enumerate(lists)
        ]
        return any(each[0] > each[-1] for each in found if len(each))

    @property
    def unit(self) -> Literal["rank", "learned"]:
        """The threshold unit with the smaller sets of choosing users; rank if these are few."""
        by_rank, learned = np.log(self.sizes + 1).mean(axis=1)
        enough = self.chooses.sum() >= _FEWEST_COMPARED
        return "learned" if enough and learned < by_rank - _GAIN else "rank"

    def without(self, place: int) -> ItemProbabilities:
        """Return them without one calibration user."""
        by_user = ("counts", "hits", "n_known", "chooses", "swayed", "hit_ranks")
        return replace(
            self, **{name: np.delete(getattr(self, name), place, axis=0) for name in by_user}
        )

    def bins_of(self, ranking: Ranking, n_known: int, n_items: int) -> NDArray[np.int64]:
        """Return the bin of each item; −1 for items that are no candidates."""
        bins = np.full(n_items, -1, dtype=np.int64)
        bins[ranking.items] = self.bins.of(ranking.shares, n_known)
        return bins

    def state(self) -> State:
        """Return all arrays by name."""
        return State.of(self)

    @classmethod
    def from_state(cls, state: State, n_calibration: int) -> ItemProbabilities:
        """Load it; raise KeyError or ValueError if an array is invalid."""
        check_arrays("probabilities", _SCHEMAS, state.arrays, n_calibration=n_calibration)
        found = cls(**state.arrays)
        rises = (np.diff(found.edges) > 0).all()
        if not rises or (found.hits > found.counts).any() or found.chooses.all():
            raise ValueError("its probabilities are inconsistent")
        return found


@dataclass(frozen=True, eq=False)
class Choice:
    """The bins, and the users who chose them."""

    bins: Bins
    choosing: NDArray[np.int64]
    """Codes of users: one in four calibration users."""
    swayed: NDArray[np.int64]
    """Those without whom another scale would have been chosen."""


def choose(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    cases: Cases,
    *,
    allowed: NDArray[np.int64] | None = None,
    random_state: int = 0,
) -> Choice | None:
    """Return the bins that one in four calibration users choose; None with too few users.

    The scale has the smallest log loss on what these users consumed, or is the first that is nearly
    as good. The loss weighs the 1,000 best items of each user and the 10 best equally.

    Parameters
    ----------
    scorer, statistics, cases, allowed
        As in :func:`surerec.calibration.observe`.
    random_state : int, default=0
        Seed of the random choice of these users.
    """
    observed = partial(observe, scorer, statistics, allowed=allowed, keep_candidates=True)
    doing = "Scoring calibration users who choose a scale"
    return choose_among(
        cases.users,
        statistics.n_items,
        lambda some: observed(cases[some], doing=doing),
        random_state,
    )


def choose_among(
    users: NDArray[np.int64],
    n_items: int,
    observed: Callable[[NDArray[np.intp]], Outcomes],
    random_state: int,
) -> Choice | None:
    """Return what :func:`choose` does; `observed` returns the outcomes of some of the users."""
    if len(users) < FEWEST_USERS:
        return None
    chosen = np.random.default_rng((random_state, 4)).permutation(len(users))[
        : len(users) // _CHOOSING
    ]
    shaping = chosen[: max(2, min(_MOST_SHAPING, _MOST_SHARES // max(n_items, 1)))]
    outcomes = observed(np.sort(shaping))
    if not len(outcomes):
        return None
    shares, n_known = outcomes.candidate_shares, outcomes.n_known
    assert shares is not None  # noqa: S101  # keep_candidates=True
    hits = np.zeros(shares.shape, dtype=bool)
    known = np.isfinite(outcomes.ranks)
    hits[outcomes.owners[known], outcomes.ranks[known].astype(np.int64) - 1] = True
    every, shown = np.stack([_losses(weights, shares, hits, n_known) for weights in SCALES], axis=1)
    losses = every / every.min(axis=0) + shown / shown.min(axis=0)
    # The first scale that is nearly as good as the best.
    by_user = np.argmax(losses <= _AS_GOOD * losses.min(axis=0), axis=0)
    best, swayed = int(by_user[-1]), by_user[:-1] != by_user[-1]
    values = scale(SCALES[best], np.where(shares > 0, shares, 1.0), n_known[:, None])
    bins = Bins(SCALES[best], edges_of(values[shares > 0], len(shares)))
    return Choice(bins, users[chosen], outcomes.cases.users[swayed])


def _first_hits(outcomes: Outcomes) -> NDArray[np.float64]:
    order = np.lexsort((outcomes.ranks, outcomes.owners))
    owners, ranks = outcomes.owners[order], outcomes.ranks[order]
    begins = np.searchsorted(owners, np.arange(len(outcomes)))
    nth = np.arange(len(owners)) - begins[owners]
    found = np.full((len(outcomes), MOST_HITS), np.inf)
    first = nth < MOST_HITS
    found[owners[first], nth[first]] = ranks[first]
    return found


def _losses(
    weights: NDArray[np.float64],
    shares: NDArray[np.float64],
    hits: NDArray[np.bool_],
    n_known: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log losses without each user, then with all; of all items and the 10 best."""
    top = shares[:, :_TOP]
    there = top > 0
    values = scale(weights, np.where(there, top, 1.0), n_known[:, None])
    edges = edges_of(values[there], len(top))[::_COARSE]
    bins = np.searchsorted(edges, values, side="right")
    consumed = there & hits[:, :_TOP]
    first = np.arange(top.shape[1]) < _SHOWN
    n, k, n_first, k_first = (
        _of_others(bins, some, len(edges) + 1)
        for some in (there, consumed, there & first, consumed & first)
    )
    rate = np.clip(k / np.maximum(n, 1), _LEAST, 1 - _LEAST)
    yes, no = np.log(rate), np.log1p(-rate)
    every = -(k * yes + (n - k) * no).sum(axis=1) / n.sum(axis=1)
    shown = -(k_first * yes + (n_first - k_first) * no).sum(axis=1) / n_first.sum(axis=1)
    return every, shown


def _of_others(
    bins: NDArray[np.int64], chosen: NDArray[np.bool_], n_bins: int
) -> NDArray[np.float64]:
    """Count the chosen by bin without each user, then with all."""
    shape = len(bins), n_bins
    flat = bins + np.arange(len(bins))[:, None] * n_bins
    own = np.bincount(flat[chosen], minlength=shape[0] * n_bins).reshape(shape)
    others = own.sum(axis=0) - np.concatenate((own, np.zeros((1, n_bins))))
    return np.asarray(others, dtype=np.float64)
