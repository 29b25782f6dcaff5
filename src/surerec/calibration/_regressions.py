"""Logistic regressions for the probability of an item, and of hits in a short list.

One rate per bin is calibrated over all items of the bin, but not at the top of the lists: users
with long histories have many items in a bin, far down their lists, and consume more of them. A
regression with separate terms for rank and history length is calibrated at each rank as well.

For a short list, the probability of hits is calibrated by Venn–Abers on top of a regression.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from surerec.conformal import CalibratedProbability, venn_abers
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._calibration_users import CalibrationUsers
    from surerec.calibration._ranking import Bins

FOLDS: Final = 10
"""A calibration user's own probabilities come from the users of the other folds."""

_ANCHORS: Final = (1.0, 2.0, 4.0)  # the effect of log rank is linear between these ranks
_TOP: Final = 10.0  # the next anchor; each further one is √10 times as large
_N_KNOTS: Final = 5  # anchors of the binned value
_FIRST: Final = 30  # each bin is one cell down to about this many items per user
_POOLED: Final = 4  # bins per cell below
_SLOPES: Final = 0.1  # ridge penalty of linear effects
_BENDS: Final = 0.3  # ridge penalty of changes of slope
_STEPS: Final = 60
_CLOSE: Final = 1e-9
_Z: Final = 1.959963984540054  # for 95% intervals
MOST_HITS: Final = 3
"""Lists have the probabilities of at least one, two and three hits."""
Weights: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]"
"""Coefficients fitted on even users, odd users and all users, each with the intercept."""

_HALVES: Final = (slice(0, None, 2), slice(1, None, 2))
_HIT_STEPS: Final = 25
_RIDGE: Final = 1e-3  # keeps the fit finite if all users, or none, have a hit


class _Cells(NamedTuple):
    """Items of one user in one bin, or in a few neighbouring bins."""

    users: NDArray[np.int64]
    counts: NDArray[np.float64]
    hits: NDArray[np.float64]
    log_ranks: NDArray[np.float64]
    values: NDArray[np.float64]

    def only(self, chosen: NDArray[np.bool_]) -> _Cells:
        """Return the chosen cells."""
        return self._replace(**{name: part[chosen] for name, part in self._asdict().items()})


@dataclass(frozen=True, eq=False)
class ItemCurve:
    """A logistic regression on calibration users' items, with cluster-robust standard errors.

    Parameters
    ----------
    bins : Bins
        Bins of the items.
    counts, hits : array of int, n_users × n_bins
        For each user, the candidates in each bin, and how many were consumed.
    n_known : array of int
        The length of each user's history.

    Notes
    -----
    The interval of an item is a 95% confidence interval of the rate at which new users consume
    items of this rank and bin after a history of this length, under the regression. Its standard
    error treats all items of a calibration user as one observation. Users who chose the bins must
    not be among the calibration users.

    Examples
    --------
    >>> from surerec.calibration import Bins
    >>> bins = Bins(np.array([1.0, 0.0, 0.0]), np.log([0.1, 0.4]))
    >>> counts, hits = np.tile([10, 4, 1], (40, 1)), np.tile([1, 2, 1], (40, 1))
    >>> curve = ItemCurve(bins, counts, hits, np.full(40, 7))
    >>> found = curve.predict(np.array([2, 1, 0]), np.array([1, 3, 9]), np.array([7]))
    >>> found.probability.round(1).tolist()
    [1.0, 0.5, 0.1]
    """

    bins: Bins
    counts: NDArray[np.integer]
    hits: NDArray[np.integer]
    n_known: NDArray[np.int64]
    _fits: dict[int | None, _Fit] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.counts.shape != self.hits.shape or not self.counts.any():
            raise InputError("There are no calibration cases to fit a probability on.")

    @property
    def n_users(self) -> int:
        """Number of users in the fit."""
        return len(self.counts)

    def predict(
        self,
        bins: NDArray[np.int64],
        ranks: NDArray[np.int64],
        n_known: NDArray[np.int64],
        owners: NDArray[np.int64] | None = None,
        *,
        without: int | None = None,
    ) -> CalibratedProbability:
        """Return the probabilities of items, never rising down a list, and their intervals.

        Parameters
        ----------
        bins, ranks : array of int
            Bin and rank of each item; the items of a list follow each other, best first.
        n_known : array of int
            The length of the history for each list.
        owners : array of int, optional
            The list that each item is in; by default all are in one.
        without : int, optional
            A calibration user to leave out, with their fold, so that their own outcomes have no
            effect.
        """
        if owners is None:
            owners = np.zeros(len(bins), dtype=np.int64)
        fit = self._fit(None if without is None else without % FOLDS)
        odds, errors = fit.log_odds(bins, ranks, n_known, owners)
        low, high = _expit(odds - _Z * errors), _expit(odds + _Z * errors)
        return CalibratedProbability(_expit(odds), low, high)

    def rates(
        self,
        bins: NDArray[np.int64],
        ranks: NDArray[np.int64],
        n_known: int,
        *,
        without: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the probabilities of one list as :meth:`predict` does, without intervals."""
        fit = self._fit(None if without is None else without % FOLDS)
        one = np.zeros(len(bins), dtype=np.int64)
        return _expit(fit.log_odds(bins, ranks, np.array([n_known]), one, with_errors=False)[0])

    def spreads(
        self,
        bins: NDArray[np.int64],
        ranks: NDArray[np.int64],
        n_known: int,
        groups: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return the standard errors of sums of one list's probabilities, as vectors.

        The length of a vector is the standard error that the sampling of calibration users gives
        the sum; for the sum of several lists, add the vectors.

        Parameters
        ----------
        bins, ranks, n_known
            As in :meth:`predict`.
        groups : array of bool, n_groups × n_items
            The items of each sum.
        """
        fit = self._fit(None)
        found = self.predict(bins, ranks, np.array([n_known])).probability
        known = np.full(len(bins), np.log(max(n_known, 1)))
        design = fit.design(known, np.log(ranks), fit.middles[bins])
        return np.asarray((groups * (found * (1 - found))) @ design @ fit.root)

    def _fit(self, fold: int | None) -> _Fit:
        if fold not in self._fits:
            middles = _middles(self.bins.edges)
            cells = _cells(middles, self.counts, self.hits)
            known = np.log(np.maximum(self.n_known, 1))[cells.users]
            if fold is None:
                self._fits[fold] = _Fit.blank(middles, cells, known).fitted(cells, known)
            else:
                kept = cells.users % FOLDS != fold
                self._fits[fold] = self._fit(None).fitted(cells.only(kept), known[kept])
        return self._fits[fold]


@dataclass(frozen=True, eq=False)
class _Fit:
    """The knots, which do not depend on what was consumed, and the coefficients."""

    middles: NDArray[np.float64]
    """The representative value of each bin."""
    anchors: NDArray[np.float64]
    """Knots of log rank."""
    knots: NDArray[np.float64]
    """Knots of the value."""
    units: tuple[float, float, float, float]
    """Mean and standard deviation of log history length, and of values."""
    weights: NDArray[np.float64]
    root: NDArray[np.float64]
    """Square root of the covariance of the weights."""
    _ranks: list[NDArray[np.float64]] = field(default_factory=list, init=False)

    @classmethod
    def blank(cls, middles: NDArray[np.float64], cells: _Cells, known: NDArray[np.float64]) -> _Fit:
        """Return a fit without coefficients; knots weigh ranks on a logarithmic scale."""
        mass = cells.counts * np.exp(-cells.log_ranks)
        last = max(float(np.exp(cells.log_ranks.max())), 2.0)
        further = _TOP * np.sqrt(10) ** np.arange(12)
        ranks = [rank for rank in (*_ANCHORS, *further) if rank < last / 1.5]
        order = np.argsort(cells.values)
        heights = np.cumsum(mass[order]) / mass.sum()
        knots = np.interp(np.linspace(0.02, 0.98, _N_KNOTS), heights, cells.values[order])
        units = *_unit(known, mass), *_unit(cells.values, mass)
        anchors, nothing = np.log([*ranks, last]), np.empty(0)
        return cls(middles, anchors, np.unique(knots), units, nothing, nothing)

    def design(
        self,
        known: NDArray[np.float64],
        log_ranks: NDArray[np.float64],
        values: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return a row of features (history, rank, value) for each item or cell."""
        ranked = self._by_rank(log_ranks)
        history = self._by_history(known)
        return np.hstack((history, history[:, 1:2] * ranked[:, :1], ranked, self._by_value(values)))

    def _by_history(self, known: NDArray[np.float64]) -> NDArray[np.float64]:
        length = (known - self.units[0]) / self.units[1]
        return np.column_stack((np.ones(len(length)), length, length**2))

    def _by_rank(self, log_ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack((log_ranks - np.log(_TOP), _hats(log_ranks, self.anchors)))

    def _by_value(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack(
            ((values - self.units[2]) / self.units[3], _hats(values, self.knots))
        )

    def fitted(self, cells: _Cells, known: NDArray[np.float64]) -> _Fit:
        """Fit by Newton's method, starting from the current coefficients."""
        design = self.design(known, cells.log_ranks, cells.values)
        n_weights = design.shape[1]
        ridge = np.full(n_weights, _BENDS)
        slopes = [1, 2, 3, 4, 5 + len(self.anchors)]
        ridge[slopes] = _SLOPES
        ridge[0] = 0.0
        # Half a hit and half a miss in total keep the fit finite if all items, or none, are hits.
        total = cells.counts.sum()
        counts = cells.counts * (1 + 1 / total)
        hits = cells.hits + 0.5 * cells.counts / total
        weights = self.weights if len(self.weights) else np.zeros(n_weights)
        reached = _likelihood(design, weights, counts, hits, ridge)
        for _ in range(_STEPS):
            rates = _expit(design @ weights)
            information = _gram(design, counts * rates * (1 - rates))
            bread = information + np.diag(ridge)
            slope = (design * (hits - counts * rates)[:, None]).sum(axis=0) - ridge * weights
            step = np.linalg.lstsq(bread, slope, rcond=None)[0]
            while (found := _likelihood(design, weights + step, counts, hits, ridge)) < (
                reached - _CLOSE * abs(reached)
            ):
                step /= 2
            weights, reached = weights + step, found
            if np.abs(step).max() < _CLOSE:
                break
        rates = _expit(design @ weights)
        users, place = np.unique(cells.users, return_inverse=True)
        scores = np.zeros((len(users), n_weights))
        np.add.at(scores, place, design * (cells.hits - cells.counts * rates)[:, None])
        inverse = np.linalg.pinv(bread, hermitian=True)
        # Correct for residuals that are smaller than errors with few users.
        free = max(len(users) - float(np.trace(inverse @ information)), len(users) / 4)
        squares, axes = np.linalg.eigh(_gram(scores, np.ones(len(scores))))
        root = inverse @ (axes * np.sqrt(np.maximum(squares, 0.0) * len(users) / free))
        return _Fit(self.middles, self.anchors, self.knots, self.units, weights, root)

    def log_odds(
        self,
        bins: NDArray[np.int64],
        ranks: NDArray[np.int64],
        n_known: NDArray[np.int64],
        owners: NDArray[np.int64],
        *,
        with_errors: bool = True,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the log odds of items, never rising down a list, and their standard errors."""
        history = self._by_history(np.log(np.maximum(n_known, 1)))
        by_history, slopes = _times(history, self._both[:3]), history[:, 1:2] * self._both[3]
        by_rank = self._rank_table(int(ranks.max(initial=1)))
        by_bin = self._by_bin
        n_parts = by_bin.shape[1] if with_errors else 1
        odds, errors = np.empty(len(bins)), np.empty(len(bins))
        _look_up(bins, ranks, owners, by_history, slopes, by_rank, by_bin, n_parts, odds, errors)
        return odds, errors

    @cached_property
    def _both(self) -> NDArray[np.float64]:
        """The coefficients and the root, side by side."""
        return np.column_stack((self.weights, self.root))

    def _rank_table(self, n: int) -> NDArray[np.float64]:
        """Return, for at least n ranks, the log rank and the terms that it adds."""
        table = self._ranks[-1] if self._ranks else np.empty((0, 0))
        if len(table) < n:
            features = self._by_rank(np.log(np.arange(1.0, n + 1)))
            added = _times(features, self._both[4 : 5 + len(self.anchors)])
            table = np.hstack((features[:, :1], added))
            self._ranks[:] = [table]  # another thread may have set a shorter one
        return table

    @cached_property
    def _by_bin(self) -> NDArray[np.float64]:
        return self._by_value(self.middles) @ self._both[5 + len(self.anchors) :]


def _expit(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)))


@njit(nogil=True, cache=True)
def _gram(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum ``w · xᵀx`` over rows in order, as BLAS rounds differently by number of threads."""
    n = rows.shape[1]
    found = np.zeros((n, n))
    for row in range(len(rows)):
        for i in range(n):
            part = weights[row] * rows[row, i]
            for j in range(i + 1):
                found[i, j] += part * rows[row, j]
    return found + np.tril(found, -1).T


@njit(nogil=True, cache=True)
def _look_up(
    bins: NDArray[np.int64],
    ranks: NDArray[np.int64],
    owners: NDArray[np.int64],
    by_history: NDArray[np.float64],
    slopes: NDArray[np.float64],
    by_rank: NDArray[np.float64],
    by_bin: NDArray[np.float64],
    n_parts: int,
    odds: NDArray[np.float64],
    errors: NDArray[np.float64],
) -> None:
    """Sum the terms of history, rank and bin into log odds and standard errors.

    The first part is the log odds; the other parts are those of the error.
    """
    for row in range(len(bins)):
        owner, rank, place = owners[row], ranks[row] - 1, bins[row]
        log_rank = by_rank[rank, 0]
        found = by_history[owner, 0] + slopes[owner, 0] * log_rank
        found += by_rank[rank, 1] + by_bin[place, 0]
        squares = 0.0
        for part in range(1, n_parts):
            one = by_history[owner, part] + slopes[owner, part] * log_rank
            one += by_rank[rank, part + 1] + by_bin[place, part]
            squares += one * one
        if row and owners[row - 1] == owner:
            found = min(found, odds[row - 1])
        odds[row], errors[row] = found, np.sqrt(squares)


def _times(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply matrices so that each row is exactly as if alone, unlike BLAS."""
    found: NDArray[np.float64] = left[:, :1] * right[0]
    for column in range(1, len(right)):
        found += left[:, column : column + 1] * right[column]
    return found


def _cells(
    middles: NDArray[np.float64], counts: NDArray[np.integer], hits: NDArray[np.integer]
) -> _Cells:
    """Pool the lower bins, and return the non-empty cells with their mean log rank.

    A user's candidates keep their order, so the ranks in a bin follow from the counts above it.
    """
    from scipy.special import gammaln  # noqa: PLC0415  # slow to import

    above = np.cumsum(counts[:, ::-1].mean(axis=0))[::-1]
    n_low = int(np.count_nonzero(above > _FIRST))
    starts = np.concatenate((np.arange(0, n_low, _POOLED), np.arange(n_low, len(middles))))
    n, k = (np.add.reduceat(some.astype(np.float64), starts, axis=1) for some in (counts, hits))
    values = np.add.reduceat(counts * middles, starts, axis=1)
    last = np.cumsum(n[:, ::-1], axis=1)[:, ::-1]
    users, places = np.nonzero(n)
    count, last = n[users, places], last[users, places]
    log_ranks = (gammaln(last + 1) - gammaln(last - count + 1)) / count
    return _Cells(users, count, k[users, places], log_ranks, values[users, places] / count)


def _middles(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middle of each bin; the edge for the outer bins."""
    if not len(edges):
        return np.zeros(1)
    return np.concatenate((edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]))


def _hats(values: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the hat function of each knot: 1 at the knot, 0 from its neighbours on."""
    return np.column_stack([np.interp(values, knots, one) for one in np.eye(len(knots))])


def _unit(values: NDArray[np.float64], mass: NDArray[np.float64]) -> tuple[float, float]:
    mean = float(np.average(values, weights=mass))
    deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=mass)))
    return mean, deviation if deviation > _CLOSE else 1.0


def _likelihood(
    design: NDArray[np.float64],
    weights: NDArray[np.float64],
    counts: NDArray[np.float64],
    hits: NDArray[np.float64],
    ridge: NDArray[np.float64],
) -> float:
    odds = design @ weights
    terms = hits * odds - counts * np.logaddexp(0, odds)
    return float(terms.sum() - ridge @ weights**2 / 2)


def list_features(
    n_known: NDArray[np.int64], values: NDArray[np.floating], masses: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return the features of users' short lists, one row per user.

    They are the history length, the mean value of the list's items, and their share of all scores.
    """
    return np.column_stack((np.log1p(n_known), values, masses)).astype(np.float64)


def list_hits(
    users: CalibrationUsers,
    ranks: NDArray[np.float64],
    lengths: NDArray[np.int64],
    features: NDArray[np.float64],
    places: NDArray[np.int64],
    learned: dict[tuple[int, int, int], Weights],
) -> CalibratedProbability:
    """Return the probabilities of at least one, two and three hits in users' lists, 3 × users.

    Uncalibrated numbers of hits get NaN.

    Parameters
    ----------
    users : CalibrationUsers
        The calibration users.
    ranks : array of float, n_users × 1 to 3
        Ranks of the best-ranked items that each of them consumed.
    lengths : array of int
        Length of each list of a user's best items, 1 to 100.
    features : array of float
        What :func:`list_features` returns for that length, one row per user.
    places : array of int
        Place of each user among the calibration users; −1 for none.
    learned : dict
        Weights of earlier calls with the same calibration users; new ones are added.
    """
    shape = MOST_HITS, len(lengths)
    found = CalibratedProbability(*(np.full(shape, np.nan) for _ in range(3)))
    fold_of = np.where(places < 0, -1, places % FOLDS)
    folds = np.arange(len(users)) % FOLDS
    for length in np.unique(lengths):
        known = list_features(
            users.n_known, users.values[:, length - 1], users.masses[:, length - 1]
        )
        for fold in np.unique(fold_of[lengths == length]):
            mine = (lengths == length) & (fold_of == fold)
            others = folds != fold
            for n_hits in range(ranks.shape[1]):
                key, hit = (int(length), int(fold), n_hits), ranks[others, n_hits] <= length
                if key not in learned:
                    learned[key] = learn_weights(known[others], hit)
                hits = hit_probabilities(known[others], hit, features[mine], learned[key])
                for whole, part in zip(found, hits, strict=True):
                    whole[n_hits, mine] = part
    for part in found:
        np.minimum.accumulate(part, axis=0, out=part)  # two hits are at most as likely as one
    return found


def learn_weights(features: NDArray[np.float64], hit: NDArray[np.bool_]) -> Weights:
    """Return logistic regressions on each half of the users, and on all users."""
    known, _ = _scaled(features, features[:0])
    if len(known) < len(_HALVES):
        raise InputError(
            "The probability of a hit needs at least two calibration users. Add users."
        )
    first, second = (_logistic(known[half], hit[half]) for half in _HALVES)
    return first, second, _logistic(known, hit)


def hit_probabilities(
    features: NDArray[np.float64],
    hit: NDArray[np.bool_],
    new: NDArray[np.float64],
    weights: Weights | None = None,
) -> CalibratedProbability:
    """Return the probability of a hit for each new row of features.

    The bounds are calibrated whatever the features are. A logistic regression on one half of the
    calibration users turns the features into a score, and the other half turns that into two
    Venn–Abers probabilities. The halves then swap, and both results are averaged. The probability
    is that of a logistic regression on all users, clipped to the bounds; merging the bounds alone
    would lean to 1/2 with few similar users. `weights` come from :func:`learn_weights`, if known.
    """
    *of_halves, of_all = learn_weights(features, hit) if weights is None else weights
    known, scaled = _scaled(features, new)
    answers = []
    for learned, calibrate in zip(of_halves, _HALVES[::-1], strict=True):
        slopes = learned[:-1]
        answers.append(venn_abers(known[calibrate] @ slopes, hit[calibrate], scaled @ slopes))
    low, high = (
        np.mean([getattr(each, end) for each in answers], axis=0) for end in ("low", "high")
    )
    probability = 1 / (1 + np.exp(-(scaled @ of_all[:-1] + of_all[-1])))
    return CalibratedProbability(np.clip(probability, low, high), low, high)


def _scaled(
    features: NDArray[np.float64], new: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both, standardised by the first; constant features are dropped."""
    scale = features.std(axis=0)
    kept = scale > 0
    mean = features[:, kept].mean(axis=0)
    return (features[:, kept] - mean) / scale[kept], (new[:, kept] - mean) / scale[kept]


def _logistic(features: NDArray[np.float64], hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return coefficients by Newton's method; the intercept is last and hardly penalised."""
    design = np.column_stack((features, np.ones(len(features))))
    weights = np.zeros(design.shape[1])
    ridge = np.full(len(weights), _RIDGE * len(hit))
    ridge[-1] = _RIDGE
    for _ in range(_HIT_STEPS):
        rates = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (hit - rates) - ridge * weights
        curvature = (design.T * (rates * (1 - rates))) @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        weights += step
        if np.abs(step).max() < 1e-8:  # noqa: PLR2004
            break
    return weights
