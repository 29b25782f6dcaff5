"""Matrix factorisation of implicit feedback (ALS), cross-fitted over folds of users."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from surerec._arguments import check_number, check_whole
from surerec._progress import progress
from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import available_threads
from surerec.errors import InputError
from surerec.measures._folds import assign_folds, check_enough_users, fold_for, folds_of
from surerec.measures._scorer import Contribution, Measure, Scorer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures._query import Query
    from surerec.precedence import PrecedenceStatistics

__all__ = ["AlsMeasure", "AlsScorer", "AlsSettings", "Factorisation"]

_TILE = 1024  # columns: their sums stay in the first-level cache
_SHORTEST: Final = 2
"""Items of the shortest profile that is trained on."""
_SCHEMAS: Final = {
    "items": ArraySchema("float32", ("n_folds", "n_factors", "n_items"), holds="finite"),
    "grams": ArraySchema("float64", ("n_folds", "n_factors", "n_factors"), holds="finite"),
    "fold_of": ArraySchema("int8", ("n_users",), low=-1, below="n_folds"),
}
_DAMAGED: Final = "The item factors are damaged: no user can be folded in. Train the model again."
_ROUNDING: Final = 1e-6  # of a product of 32-bit numbers on any machine


@dataclass(frozen=True)
class AlsSettings:
    """Settings of the factorisation and its training.

    The defaults were chosen on half of the users of MovieLens 100K.

    Examples
    --------
    >>> AlsSettings(factors=32).alpha
    5.0
    """

    factors: int = 64
    """Number of factors of an item or a user."""
    regularization: float = 30.0
    """λ of the ridge regression, the same for each user and item."""
    alpha: float = 5.0
    """Consumed items have the weight 1 + α, others 1."""
    iterations: int = 15
    """Number of alternations between user factors and item factors."""
    folds: int = 5
    """Number of user folds; each is one training."""
    random_state: int = 0
    """Seed; the same seed and the same profiles give the same factors."""

    def __post_init__(self) -> None:
        for name, lowest in (("factors", 1), ("iterations", 1), ("folds", 2), ("random_state", 0)):
            check_whole(name, getattr(self, name), lowest=lowest)
        check_number("regularization", self.regularization, 0, math.inf, "a number above 0")
        must = "a number of at least 0"
        check_number("alpha", self.alpha, 0, math.inf, must, ends=(True, False))


@njit(nogil=True, cache=True)
def factor(matrix: NDArray[np.float64]) -> bool:
    """Replace the lower triangle of a matrix by its Cholesky factor; False if it has none."""
    n = len(matrix)
    for i in range(n):
        for j in range(i + 1):
            found = matrix[i, j]
            for k in range(j):
                found -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = found / matrix[j, j]
            elif found > 0.0:  # False for NaN as well
                matrix[i, i] = np.sqrt(found)
            else:
                return False
    return True


@njit(nogil=True, cache=True)
def solve(lower: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Solve ``L Lᵀ x = b`` in place of b."""
    n = len(lower)
    for i in range(n):
        found = right[i]
        for k in range(i):
            found -= lower[i, k] * right[k]
        right[i] = found / lower[i, i]
    for i in range(n - 1, -1, -1):
        found = right[i]
        for k in range(i + 1, n):
            found -= lower[k, i] * right[k]
        right[i] = found / lower[i, i]


@njit(nogil=True, cache=True)
def factor_of_history(
    consumed: NDArray[np.float32],
    gram: NDArray[np.float64],
    regularization: float,
    alpha: float,
    lower: NDArray[np.float64],
) -> bool:
    """Write the Cholesky factor of ``YᵀY + α Σ y yᵀ + λI`` over the items of a history.

    `consumed` has one row of factors per item; False if there is no Cholesky factor.
    """
    n = len(gram)
    for i in range(n):
        for j in range(i + 1):
            lower[i, j] = gram[i, j]
        lower[i, i] += regularization
    wide = np.empty(n)
    for k in range(len(consumed)):
        for i in range(n):
            wide[i] = consumed[k, i]
        for i in range(n):
            weight, row = alpha * wide[i], lower[i]
            for j in range(np.uint64(i + 1)):
                row[j] += weight * wide[j]
    return factor(lower)


@njit(nogil=True, cache=True)
def fold_in(
    consumed: NDArray[np.float32],
    gram: NDArray[np.float64],
    regularization: float,
    alpha: float,
    user: NDArray[np.float64],
) -> bool:
    """Write the factors of a user with a history; False if there is no solution.

    They solve ``(YᵀY + Yᵀ(C − I)Y + λI) x = YᵀC p`` (Hu, Koren and Volinsky, 2008, Eq. 4).
    `consumed` has the factors of each item of the history.
    """
    n = len(gram)
    lower = np.empty((n, n))
    user[:] = 0.0
    if not factor_of_history(consumed, gram, regularization, alpha, lower):
        return False
    for k in range(len(consumed)):
        for i in range(n):
            user[i] += (1.0 + alpha) * consumed[k, i]
    solve(lower, user)
    return True


@njit(nogil=True, cache=True)
def score_items(
    items: NDArray[np.float32], user: NDArray[np.float64], scores: NDArray[np.float64]
) -> None:
    """Write the product of every item's factors with the user's."""
    n_items = items.shape[1]
    scores[:] = 0.0
    for begin in range(0, n_items, _TILE):
        end = min(begin + _TILE, n_items)
        tile, n = scores[begin:end], len(items)
        # Four rows are read per access to a sum, and added in their order.
        for i in range(0, n - n % 4, 4):
            first, second = items[i, begin:end], items[i + 1, begin:end]
            third, fourth = items[i + 2, begin:end], items[i + 3, begin:end]
            one, two, three, four = user[i], user[i + 1], user[i + 2], user[i + 3]
            for j in range(np.uint64(len(tile))):
                tile[j] = (
                    ((tile[j] + one * first[j]) + two * second[j]) + three * third[j]
                ) + four * fourth[j]
        for i in range(n - n % 4, n):
            row, weight = items[i, begin:end], user[i]
            for j in range(np.uint64(len(tile))):
                tile[j] += weight * row[j]


def _implicit() -> tuple[Any, Any]:
    try:
        import threadpoolctl  # noqa: PLC0415  # comes with implicit
        from implicit.cpu.als import (  # noqa: PLC0415  # an extra, and slow to import
            AlternatingLeastSquares,
        )
    except ImportError as error:
        raise InputError(
            "implicit is not installed; the measure 'als' needs it for training. Install it with: "
            "pip install 'surerec[als]'."
        ) from error
    return AlternatingLeastSquares, threadpoolctl


def _train_items(
    profiles: Interactions, settings: AlsSettings, fold: int, advance: Callable[[float], None]
) -> NDArray[np.float32]:
    """Return the factors of every item (columns), trained on these profiles only."""
    from scipy import sparse  # noqa: PLC0415  # slow to import, and not needed by other measures

    alternating, threadpoolctl = _implicit()
    ones = np.ones(profiles.n_rows, dtype=np.float32)
    consumed = sparse.csr_matrix(
        (ones, profiles.item_codes.astype(np.int32), profiles.offsets),
        shape=(profiles.n_users, profiles.n_items),
    )
    # One BLAS thread sums in a fixed order. The threads of implicit solve whole rows, so that their
    # number does not change the result.
    with threadpoolctl.threadpool_limits(1, "blas"):
        model = alternating(
            factors=settings.factors,
            regularization=settings.regularization,
            alpha=1.0 + settings.alpha,  # implicit's alpha is the whole weight of a consumed item
            iterations=settings.iterations,
            num_threads=available_threads(),
            random_state=np.random.default_rng((settings.random_state, fold)),
        )
        model.fit(consumed, show_progress=False, callback=lambda *_: advance(1))
    return np.ascontiguousarray(model.item_factors.T, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Factorisation:
    """Item factors for each fold of users, trained on the users outside it.

    User factors are not stored. They are solved for from the history and the item factors of the
    user's fold, which were not trained on that user.

    Attributes
    ----------
    items : array of float32, n_folds × n_factors × n_items
        Factors Y of each fold, one column per item; 0 for an item without consumers outside the
        fold.
    grams : array of float64, n_folds × n_factors × n_factors
        YᵀY of each fold.
    fold_of : array of int8
        Fold of each user by code; −1 for a new user.
    settings : AlsSettings
        Settings of the training.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> found = Factorisation.train(sr.count_precedence(films), AlsSettings(factors=8))
    >>> history = np.array([7, 2])
    >>> found.items.shape, found.user_factors(found.fold_for((3,), history), history).shape
    ((5, 8, 60), (8,))
    """

    items: NDArray[np.float32]
    grams: NDArray[np.float64]
    fold_of: NDArray[np.int8]
    settings: AlsSettings

    @classmethod
    def train(
        cls, statistics: PrecedenceStatistics, settings: AlsSettings | None = None
    ) -> Factorisation:
        """Train on profiles, once per fold.

        Parameters
        ----------
        statistics : PrecedenceStatistics
            Precedence counts with profiles.
        settings : AlsSettings, optional
            Settings of the training.

        Raises
        ------
        InputError
            If there are too few users to train on, or if implicit is not installed.
        """
        settings = settings or AlsSettings()
        fold_of = assign_folds(statistics.n_users, settings.folds, settings.random_state)
        return cls._train(statistics, settings, fold_of, settings.folds)

    @classmethod
    def train_whole(cls, statistics: PrecedenceStatistics, settings: AlsSettings) -> Factorisation:
        """Train one set of factors on all users, for new users only."""
        return cls._train(statistics, settings, np.full(statistics.n_users, -1, np.int8), 1)

    @classmethod
    def _train(
        cls,
        statistics: PrecedenceStatistics,
        settings: AlsSettings,
        fold_of: NDArray[np.int8],
        n_folds: int,
    ) -> Factorisation:
        profiles = statistics.require_profiles("the measure 'als' needs profiles")
        _implicit()  # raises early if it is not installed
        items = np.empty((n_folds, settings.factors, statistics.n_items), np.float32)
        with progress("Factorising", total=n_folds * settings.iterations) as advance:
            for fold, factors in enumerate(items):
                others = profiles.without_users(np.flatnonzero(fold_of == fold))
                enough = int((np.diff(others.offsets) >= _SHORTEST).sum())
                check_enough_users(enough, _SHORTEST)
                factors[:] = _train_items(others, settings, fold, advance)
        wide = items.astype(np.float64)
        return cls(items, np.matmul(wide, wide.transpose(0, 2, 1)), fold_of, settings)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.items.shape[2])

    def fold_for(self, users: Sequence[int], history: NDArray[np.integer]) -> int:
        """Return the fold whose factors may score these users: their own, or any for a new user."""
        return fold_for(self.fold_of, users, history, len(self.items))

    @cached_property
    def _by_item(self) -> NDArray[np.float32]:
        """Transposed factors, so that those of one item are contiguous."""
        return np.ascontiguousarray(self.items.transpose(0, 2, 1))

    def user_factors(self, fold: int, history: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the factors of a user with a history, by the item factors of a fold."""
        user = np.empty(self.items.shape[1])
        weights = self.settings.regularization, self.settings.alpha
        consumed = self._by_item[fold][history]
        if not fold_in(consumed, self.grams[fold], *weights, user):
            raise InputError(_DAMAGED)
        return user

    def score(self, fold: int, history: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the predicted preference for every item of a user with a history."""
        scores = np.empty(self.n_items)
        score_items(self.items[fold], self.user_factors(fold, history), scores)
        return scores

    def similarity(self, fold: int, history: NDArray[np.int64], item: int) -> NDArray[np.float64]:
        """Return the similarity of one item to each item of a history: ``y_iᵀ (YᵀCY + λI)⁻¹ y_j``.

        The score is 1 + α times their sum.
        """
        factors, n_factors = self.items[fold], self.items.shape[1]
        lower, solved = np.empty((n_factors, n_factors)), factors[:, item].astype(np.float64)
        weights = self.settings.regularization, self.settings.alpha
        consumed = self._by_item[fold][history]
        if not factor_of_history(consumed, self.grams[fold], *weights, lower):
            raise InputError(_DAMAGED)
        solve(lower, solved)
        return np.asarray(solved @ factors[:, history].astype(np.float64))

    def state(self) -> State:
        """Return the saved factors and settings."""
        arrays = {name: getattr(self, name) for name in _SCHEMAS}
        return State(arrays, {"settings": json.dumps(asdict(self.settings))})

    @classmethod
    def from_state(cls, state: State, statistics: PrecedenceStatistics) -> Factorisation:
        """Load saved factors; KeyError or ValueError if the state is invalid."""
        try:
            settings = AlsSettings(**json.loads(state.texts["settings"]))
        except (InputError, TypeError) as error:
            raise ValueError("they are not the settings of a matrix factorisation") from error
        check_arrays(
            "a matrix factorisation",
            _SCHEMAS,
            state.arrays,
            n_folds=settings.folds,
            n_factors=settings.factors,
            n_items=statistics.n_items,
            n_users=statistics.n_users,
        )
        found = cls(**state.arrays, settings=settings)
        if state.texts.keys() != {"settings"} or not all(
            _belongs(gram, items, settings)
            for gram, items in zip(found.grams, found.items, strict=True)
        ):
            raise ValueError("they are not those of a matrix factorisation")
        return found


def _belongs(
    gram: NDArray[np.float64], factors: NDArray[np.float32], settings: AlsSettings
) -> bool:
    """Return whether a matrix is YᵀY of these factors and allows folding in."""
    wide = factors.astype(np.float64)
    tolerance = _ROUNDING * max(float(np.abs(gram).max(initial=0.0)), 1e-300)
    if not np.allclose(gram, wide @ wide.T, rtol=0.0, atol=tolerance):
        return False
    return bool(factor(gram + settings.regularization * np.eye(len(gram))))


class AlsScorer(Scorer):
    """Predicted preference of a user for every item; see :class:`surerec.measures.Scorer`.

    A user to leave out is folded in by the item factors of the user's fold.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        Statistics that the factors were trained on.
    factors : Factorisation
        Trained factors.

    Examples
    --------
    >>> import numpy as np
    >>> import surerec as sr
    >>> from surerec.measures.als import AlsSettings, Factorisation
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> statistics = sr.count_precedence(films)
    >>> scorer = AlsScorer(statistics, Factorisation.train(statistics, AlsSettings(factors=8)))
    >>> scorer.score(np.array([3, 1, 4])).shape
    (60,)
    """

    leaves_users_out = True
    checked = True
    unit = "preference"

    def __init__(self, statistics: PrecedenceStatistics, factors: Factorisation) -> None:
        if factors.n_items != statistics.n_items:
            raise InputError(
                f"The factors are of {factors.n_items:,} items and the data have "
                f"{statistics.n_items:,}. Train the model again on these data."
            )
        self.statistics = statistics
        self.factors = factors

    @property
    def name(self) -> str:
        """Name of the measure."""
        return "als"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item: about 1 for items that the user will consume, about 0 for others.

        Uses the history and factors that were trained without the users to leave out.
        """
        return self.factors.score(self.factors.fold_for(query.users, query.history), query.history)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fold of each user; its factors were trained without its users."""
        return folds_of(self.factors.fold_of, users)

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Return what each item of the history adds to the score of one item, strongest first.

        The contributions add up to the score.
        """
        fold = self.factors.fold_for(query.users, query.history)
        profiles = self.statistics.interactions
        similarities = self.factors.similarity(fold, query.history, item).tolist()
        weight = 1.0 + self.factors.settings.alpha
        found = [
            Contribution(f"similarity to {profiles.title(consumed)}", value, weight * value)
            for consumed, value in zip(query.history.tolist(), similarities, strict=True)
        ]
        return tuple(sorted(found, key=lambda each: -abs(each.by)))

    def state(self) -> State:
        """Return the saved factors."""
        return self.factors.state()


class AlsMeasure(Measure):
    """Matrix factorisation of implicit feedback by alternating least squares.

    It is trained again on newer data, unlike the trees of the measure "learned", as new items have
    no factors before.

    Parameters
    ----------
    settings : AlsSettings, optional
        Settings of the training.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> small = AlsMeasure(AlsSettings(factors=8))
    >>> sr.PopulationConformal(small).fit(films).name_
    'recall-als'
    """

    name = "als"
    stored = "als"
    leaves_users_out = True

    def __init__(self, settings: AlsSettings | None = None) -> None:
        self.settings = settings or AlsSettings()

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Train on these statistics."""
        return AlsScorer(statistics, Factorisation.train(statistics, self.settings))

    def update(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,  # noqa: ARG002  # folds are assigned again
    ) -> Scorer:
        """Train again on newer statistics with the settings of the scorer."""
        assert isinstance(scorer, AlsScorer)  # noqa: S101  # the result of `fit`
        return AlsScorer(statistics, Factorisation.train(statistics, scorer.factors.settings))

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Load the factors without training."""
        return AlsScorer(statistics, Factorisation.from_state(state, statistics))
