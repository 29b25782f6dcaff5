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
from surerec.measures._folds import check_enough, deal, fold_for, folds_of
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
"""Items of a profile at the least, to say anything of which go together."""
_SCHEMAS: Final = {
    "items": ArraySchema("float32", ("n_folds", "n_factors", "n_items"), holds="finite"),
    "grams": ArraySchema("float64", ("n_folds", "n_factors", "n_factors"), holds="finite"),
    "fold_of": ArraySchema("int8", ("n_users",), low=-1, below="n_folds"),
}
_ROUNDING: Final = 1e-6  # of a product of 32-bit numbers, wherever it was computed


@dataclass(frozen=True)
class AlsSettings:
    """How many factors, how they are held back, and how they are trained.

    The defaults were chosen on half of MovieLens 100K's users (docs/als.md).

    Examples
    --------
    >>> AlsSettings(factors=32).alpha
    5.0
    """

    factors: int = 64
    """Numbers that describe an item, or a person."""
    regularization: float = 30.0
    """What holds them back: λ of a ridge regression, the same for each person and item."""
    alpha: float = 5.0
    """What was taken counts 1 + α times as much as what was not."""
    iterations: int = 15
    """How often the factors of people and items are solved for, in turn."""
    folds: int = 5
    """Into how many folds users are dealt; each costs a training."""
    random_state: int = 0
    """The same seed on the same profiles gives the same factors."""

    def __post_init__(self) -> None:
        for name, lowest in (("factors", 1), ("iterations", 1), ("folds", 2), ("random_state", 0)):
            check_whole(name, getattr(self, name), lowest=lowest)
        check_number("regularization", self.regularization, 0, math.inf, "a number above 0")
        must = "a number of at least 0"
        check_number("alpha", self.alpha, 0, math.inf, must, ends=(True, False))


@njit(nogil=True, cache=True)
def factor(matrix: NDArray[np.float64]) -> bool:
    """Turn the lower triangle of a matrix into its Cholesky factor; False if it has none."""
    n = len(matrix)
    for i in range(n):
        for j in range(i + 1):
            found = matrix[i, j]
            for k in range(j):
                found -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = found / matrix[j, j]
            elif found > 0.0:  # False for what is not a number as well
                matrix[i, i] = np.sqrt(found)
            else:
                return False
    return True


@njit(nogil=True, cache=True)
def solve(lower: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Solve ``L Lᵀ x = b`` in the place of b."""
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

    `taken` has a row for each item; False if there is no factor.
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
    person: NDArray[np.float64],
) -> bool:
    """Write the factors of a person who took a history; False if they cannot be solved for.

    They solve ``(YᵀY + Yᵀ(C − I)Y + λI) x = YᵀC p`` (Hu, Koren and Volinsky, 2008, Eq. 4).
    `taken` has the factors of each item of the history.
    """
    n = len(gram)
    lower = np.empty((n, n))
    person[:] = 0.0
    if not factor_of_history(consumed, gram, regularization, alpha, lower):
        return False
    for k in range(len(consumed)):
        for i in range(n):
            person[i] += (1.0 + alpha) * consumed[k, i]
    solve(lower, person)
    return True


@njit(nogil=True, cache=True)
def score_items(
    items: NDArray[np.float32], person: NDArray[np.float64], scores: NDArray[np.float64]
) -> None:
    """Write every item's product with a person."""
    n_items = items.shape[1]
    scores[:] = 0.0
    for begin in range(0, n_items, _TILE):
        end = min(begin + _TILE, n_items)
        tile, n = scores[begin:end], len(items)
        # Four rows are read for each time that a sum is, and added in their order all the same.
        for i in range(0, n - n % 4, 4):
            first, second = items[i, begin:end], items[i + 1, begin:end]
            third, fourth = items[i + 2, begin:end], items[i + 3, begin:end]
            one, two, three, four = person[i], person[i + 1], person[i + 2], person[i + 3]
            for j in range(np.uint64(len(tile))):
                tile[j] = (
                    ((tile[j] + one * first[j]) + two * second[j]) + three * third[j]
                ) + four * fourth[j]
        for i in range(n - n % 4, n):
            row, weight = items[i, begin:end], person[i]
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
            "Training the measure 'als' needs implicit, which is not installed: "
            "pip install 'surerec[als]'."
        ) from error
    return AlternatingLeastSquares, threadpoolctl


def _train_items(
    profiles: Interactions, settings: AlsSettings, fold: int, advance: Callable[[float], None]
) -> NDArray[np.float32]:
    """Return the factors of every item, a column each, learned from these profiles alone."""
    from scipy import sparse  # noqa: PLC0415  # slow to import, and not needed by other measures

    alternating, threadpoolctl = _implicit()
    ones = np.ones(profiles.n_rows, dtype=np.float32)
    consumed = sparse.csr_matrix(
        (ones, profiles.item_codes.astype(np.int32), profiles.offsets),
        shape=(profiles.n_users, profiles.n_items),
    )
    # One thread of BLAS sums in one order; implicit's own threads solve whole rows, so that their
    # number changes nothing.
    with threadpoolctl.threadpool_limits(1, "blas"):
        model = alternating(
            factors=settings.factors,
            regularization=settings.regularization,
            alpha=1.0 + settings.alpha,  # implicit's is the whole weight of what was taken
            iterations=settings.iterations,
            num_threads=available_threads(),
            random_state=np.random.default_rng((settings.random_state, fold)),
        )
        model.fit(consumed, show_progress=False, callback=lambda *_: advance(1))
    return np.ascontiguousarray(model.item_factors.T, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Factorisation:
    """Item factors for each fold of users, trained on the users outside it.

    A person has no factors of their own: they are solved for from their history and the item
    factors of their fold, none of which was learned from them.

    Attributes
    ----------
    items : array of float32, n_folds × n_factors × n_items
        The factors Y of each fold, a column an item; 0 for an item that nobody outside the fold
        took.
    grams : array of float64, n_folds × n_factors × n_factors
        YᵀY of each fold.
    fold_of : array of int8
        The fold of each user by code; −1 for one who was not there at training.
    settings : AlsSettings
        How they were trained.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> found = Factorisation.train(sr.count_precedence(films), AlsSettings(factors=8))
    >>> history = np.array([7, 2])
    >>> found.items.shape, found.person(found.fold_for((3,), history), history).shape
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
        """Train on what users took, once for each fold.

        Parameters
        ----------
        statistics : PrecedenceStatistics
            The counts, made from profiles.
        settings : AlsSettings, optional
            How to train.

        Raises
        ------
        InputError
            If there are too few users to learn from, or implicit is not installed.
        """
        settings = settings or AlsSettings()
        fold_of = deal(statistics.n_users, settings.folds, settings.random_state)
        return cls._train(statistics, settings, fold_of, settings.folds)

    @classmethod
    def train_whole(cls, statistics: PrecedenceStatistics, settings: AlsSettings) -> Factorisation:
        """Train one set of factors on all users: it may score new users alone."""
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
        _implicit()  # refuse before any work where it is not installed
        items = np.empty((n_folds, settings.factors, statistics.n_items), np.float32)
        with progress("Factorising", total=n_folds * settings.iterations) as advance:
            for fold, room in enumerate(items):
                others = profiles.without_users(np.flatnonzero(fold_of == fold))
                enough = int((np.diff(others.offsets) >= _SHORTEST).sum())
                check_enough(enough, _SHORTEST)
                room[:] = _train_items(others, settings, fold, advance)
        wide = items.astype(np.float64)
        return cls(items, np.matmul(wide, wide.transpose(0, 2, 1)), fold_of, settings)

    @property
    def n_items(self) -> int:
        """Number of items that have factors."""
        return int(self.items.shape[2])

    def fold_for(self, users: Sequence[int], history: NDArray[np.integer]) -> int:
        """Return the fold whose factors may score users: theirs, or any for a new user."""
        return fold_for(self.fold_of, users, history, len(self.items))

    @cached_property
    def _by_item(self) -> NDArray[np.float32]:
        """The factors with a row an item: those of one are side by side, and read together."""
        return np.ascontiguousarray(self.items.transpose(0, 2, 1))

    def person(self, fold: int, history: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the factors of a person who took a history, by the item factors of a fold."""
        person = np.empty(self.items.shape[1])
        weights = self.settings.regularization, self.settings.alpha
        consumed = self._by_item[fold][history]
        if not fold_in(consumed, self.grams[fold], *weights, person):
            raise InputError("These factors are damaged: nobody can be folded in; train them anew.")
        return person

    def score(self, fold: int, history: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the preference for every item of a person who took a history."""
        scores = np.empty(self.n_items)
        score_items(self.items[fold], self.person(fold, history), scores)
        return scores

    def likeness(self, fold: int, history: NDArray[np.int64], item: int) -> NDArray[np.float64]:
        """Return what each item of a history says of one item: ``y_iᵀ (YᵀCY + λI)⁻¹ y_j``.

        Times 1 + α they add up to its score.
        """
        factors, n_factors = self.items[fold], self.items.shape[1]
        lower, wanted = np.empty((n_factors, n_factors)), factors[:, item].astype(np.float64)
        weights = self.settings.regularization, self.settings.alpha
        consumed = self._by_item[fold][history]
        if not factor_of_history(consumed, self.grams[fold], *weights, lower):
            raise InputError("These factors are damaged: nobody can be folded in; train them anew.")
        solve(lower, wanted)
        return np.asarray(wanted @ factors[:, history].astype(np.float64))

    def state(self) -> State:
        """Return what is saved of the factors."""
        arrays = {name: getattr(self, name) for name in _SCHEMAS}
        return State(arrays, {"settings": json.dumps(asdict(self.settings))})

    @classmethod
    def from_state(cls, state: State, statistics: PrecedenceStatistics) -> Factorisation:
        """Read them back; KeyError or ValueError if it is no such state."""
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
    """Return whether a matrix is YᵀY of these factors, and users can be folded in with it."""
    wide = factors.astype(np.float64)
    near = _ROUNDING * max(float(np.abs(gram).max(initial=0.0)), 1e-300)
    if not np.allclose(gram, wide @ wide.T, rtol=0.0, atol=near):
        return False
    return bool(factor(gram + settings.regularization * np.eye(len(gram))))


class AlsScorer(Scorer):
    """The preference of a person for every item, by factors; see :class:`surerec.measures.Scorer`.

    A user to leave out is folded in by the item factors that were trained without them.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        What the factors were trained on.
    factors : Factorisation
        What was learned from them.

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
                f"These factors are of {factors.n_items:,} items and the data have "
                f"{statistics.n_items:,}: train them anew."
            )
        self.statistics = statistics
        self.factors = factors

    @property
    def name(self) -> str:
        """What reports call it."""
        return "als"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item: about 1 for what a person surely takes, about 0 for what they do not.

        By the history alone, and factors that nobody to leave out had a part in.
        """
        return self.factors.score(self.factors.fold_for(query.users, query.history), query.history)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fold of each user, whose factors were trained without its users."""
        return folds_of(self.factors.fold_of, users)

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Return what each item of the history adds to the score of one item, the strongest first.

        They add up to the score.
        """
        fold = self.factors.fold_for(query.users, query.history)
        profiles = self.statistics.interactions
        alike = self.factors.likeness(fold, query.history, item).tolist()
        weight = 1.0 + self.factors.settings.alpha
        found = [
            Contribution(f"likeness to {profiles.title(consumed)}", value, weight * value)
            for consumed, value in zip(query.history.tolist(), alike, strict=True)
        ]
        return tuple(sorted(found, key=lambda each: -abs(each.by)))

    def state(self) -> State:
        """Return the factors."""
        return self.factors.state()


class AlsMeasure(Measure):
    """Matrix factorisation of who took what, by alternating least squares.

    It is trained again on newer data, unlike the learned measure's trees: factors belong to items,
    and an item that is new has none until then.

    Parameters
    ----------
    settings : AlsSettings, optional
        How to train.

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
        earlier_users: NDArray[np.integer] | None = None,  # noqa: ARG002  # dealt anew
    ) -> Scorer:
        """Train again on newer statistics, as the factors of the scorer were trained."""
        assert isinstance(scorer, AlsScorer)  # noqa: S101  # as `fit` made it
        return AlsScorer(statistics, Factorisation.train(statistics, scorer.factors.settings))

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Read the factors back, so that opening a model trains nothing."""
        return AlsScorer(statistics, Factorisation.from_state(state, statistics))
