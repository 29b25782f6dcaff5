"""Item factors trained on the users outside each fold, and people folded in by them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._progress import progress
from surerec._state import ArraySchema, State, check_arrays
from surerec.errors import InputError
from surerec.measures._folds import check_enough, deal, fold_for
from surerec.measures.als import _kernels as kernels
from surerec.measures.als._settings import AlsSettings
from surerec.measures.als._training import check_can_train, train_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.precedence import PrecedenceStatistics

_SHORTEST: Final = 2
"""Items of a profile at the least, to say anything of which go together."""
_SCHEMAS: Final = {
    "items": ArraySchema("float32", ("n_folds", "n_factors", "n_items"), holds="finite"),
    "grams": ArraySchema("float64", ("n_folds", "n_factors", "n_factors"), holds="finite"),
    "fold_of": ArraySchema("int8", ("n_users",), low=-1, below="n_folds"),
}
_ROUNDING: Final = 1e-6  # of a product of 32-bit numbers, wherever it was computed


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
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
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
        fold_of = deal(statistics.n_users, settings.folds, settings.seed)
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
        check_can_train()
        items = np.empty((n_folds, settings.factors, statistics.n_items), np.float32)
        with progress("Factorising", total=n_folds * settings.iterations) as advance:
            for fold, room in enumerate(items):
                others = profiles.without_users(np.flatnonzero(fold_of == fold))
                enough = int((np.diff(others.offsets) >= _SHORTEST).sum())
                check_enough(enough, _SHORTEST)
                room[:] = train_items(others, settings, fold, advance)
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
        """Give the factors of a person who took a history, by the item factors of a fold."""
        person = np.empty(self.items.shape[1])
        weights = self.settings.regularization, self.settings.alpha
        taken = self._by_item[fold][history]
        if not kernels.fold_in(taken, self.grams[fold], *weights, person):
            raise InputError("These factors are damaged: nobody can be folded in; train them anew.")
        return person

    def score(self, fold: int, history: NDArray[np.int64]) -> NDArray[np.float64]:
        """Give the preference for every item of a person who took a history."""
        scores = np.empty(self.n_items)
        kernels.score_items(self.items[fold], self.person(fold, history), scores)
        return scores

    def likeness(self, fold: int, history: NDArray[np.int64], item: int) -> NDArray[np.float64]:
        """Give what each item of a history says of one item: ``y_iᵀ (YᵀCY + λI)⁻¹ y_j``.

        Times 1 + α they add up to its score.
        """
        factors, n_factors = self.items[fold], self.items.shape[1]
        lower, wanted = np.empty((n_factors, n_factors)), factors[:, item].astype(np.float64)
        weights = self.settings.regularization, self.settings.alpha
        taken = self._by_item[fold][history]
        if not kernels.factor_of_history(taken, self.grams[fold], *weights, lower):
            raise InputError("These factors are damaged: nobody can be folded in; train them anew.")
        kernels.solve(lower, wanted)
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
    return bool(kernels.factor(gram + settings.regularization * np.eye(len(gram))))
