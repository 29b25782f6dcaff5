"""The trained model of the measure "learned": boosted trees, cross-fitted over user folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_whole
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.errors import InputError, TooFewUsersError
from surerec.measures._folds import assign_folds, check_enough_users, fold_for, folds_of
from surerec.measures.als import AlsSettings, Factorisation
from surerec.measures.learned._examples import (
    Examples,
    Sampling,
    TrainingHorizon,
    TrainingUsers,
    log_odds,
    make_examples,
)
from surerec.measures.learned._features import EXTRAS, Features, describe_features
from surerec.measures.learned._training import (
    COMPONENTS,
    SelectedComponents,
    draw_validation_users,
    train_best,
)
from surerec.measures.learned._trees import read_trees, write_trees
from surerec.precedence import count_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec._progress import Bar
    from surerec.interactions import Interactions
    from surerec.measures.learned._training import TrainedTrees, ValidationUser
    from surerec.measures.learned._trees import Tree
    from surerec.precedence import PrecedenceStatistics


_SHORTEST: Final = 5
"""Items of the shortest profile that is trained on."""
N_FOLDS: Final = 4
"""With 4 folds, the features of examples are computed from half of the users."""
_MOST_USERS: Final = {False: 2700, True: 5400}
"""Users that a model is trained on; True is for a few next items."""
_TREES: Final = 5  # progress of a fold's trees; that of its examples for another fold is 1


@dataclass(frozen=True)
class LearnedModel:
    """Boosted trees that predict which items follow a profile; independent of the statistics.

    Each user is assigned to a fold. Model k is trained on the users outside fold k and scores the
    users of fold k. Its examples look as those of new users do: their features are computed without
    the user of the example and without the users of fold k.

    Attributes
    ----------
    folds : list of str
        LightGBM's model text of each fold.
    fold_of : array of int8
        Fold of each user, by the user's code; −1 for users who came after the training, whom the
        model of any fold may score.
    feature_names : list of str
        Features of the trees, in order.
    intercepts : list of float
        Intercept of each fold.
    params : dict
        Parameters and results of the training.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> learned = LearnedModel.train(sr.count_precedence(films))
    >>> len(learned.folds), learned.feature_names[0]
    (4, 'count')
    """

    folds: list[str]
    fold_of: NDArray[np.int8]
    feature_names: list[str]
    intercepts: list[float]
    params: dict[str, Any]

    @classmethod
    def train(
        cls,
        statistics: PrecedenceStatistics,
        *,
        horizon: float = 0.4,
        window: float | None = None,
        n_folds: int = N_FOLDS,
        n_users: int | None = None,
        negatives: int = 90,
        components: Sequence[str] | None = None,
        random_state: int = 0,
    ) -> LearnedModel:
        """Train on what users consumed after a part of their profile.

        Parameters
        ----------
        statistics : PrecedenceStatistics
            The counts, made from profiles.
        horizon : float or int, default=0.4
            What to predict: the last share of a profile, or a number of next items.
        window : float, optional
            Length of the predicted period in days, for a temporal horizon.
        n_folds : int, default=4
            Number of user folds. Each fold is one training, and each pair of folds is counted once.
        n_users : int, optional
            Maximum number of users that a model is trained on, drawn at random. The default is
            2,700, or 5,400 for a few next items: as each has fewer examples, the cost is similar.
        negatives : int, default=90
            Number of sampled items per split that the user did not consume.
        components : sequence of str, optional
            Optional components of every fold, from ``COMPONENTS``. By default, those for next items
            if the horizon is a few of them; otherwise those that its validation users gain by.
        random_state : int, default=0
            Seed; the same seed and the same profiles give the same model.

        Raises
        ------
        InputError
            If there are too few users to train on, or if LightGBM is not installed.
        """
        target = TrainingHorizon(horizon, window)
        profiles = statistics.require_profiles("the learned measure needs profiles")
        n_folds = check_whole("n_folds", n_folds, lowest=3)
        if n_users is None:
            n_users = _MOST_USERS[target.is_short]
        most_users = check_whole("n_users", n_users)
        sampling = Sampling(
            target,
            check_whole("negatives", negatives),
            check_whole("random_state", random_state, lowest=0),
        )
        selected = SelectedComponents.of(components, is_short=target.is_short)
        fold_of = assign_folds(statistics.n_users, n_folds, random_state)
        # Of each pair of folds, counts and the examples of either fold; of each fold, trees.
        total = 3 * n_folds * (n_folds - 1) / 2 + _TREES * n_folds
        with progress("Training", total) as advance:
            drawn = _draw_examples(
                statistics, profiles, fold_of, most_users, sampling, selected, advance
            )

            def train(fold: int) -> TrainedTrees:
                def describe(doing: str) -> None:
                    advance.describe(f"Training: {doing} (fold {fold + 1} of {n_folds})")

                return train_best(*drawn[fold], selected, random_state, describe)

            results = run_blocks(train, range(n_folds))
            trained = [*advance.through(results, n_folds, _TREES * n_folds)]
        offered = [*describe_features(selected.offered)]
        extras = used_extras([tree for each in trained for tree in read_trees(each.text)], offered)
        names = [*describe_features(extras)]
        folds = [_renumber_features(each.text, offered, names) for each in trained]
        intercepts = [each.intercept for each in trained]
        params: dict[str, Any] = {
            "horizon": horizon,
            "n_folds": n_folds,
            "n_users": n_users,
            "negatives": negatives,
            "random_state": random_state,
            "components": [each.selected.to_dict(extras) for each in trained],
            "given": selected.are_given,
        }
        if not target.is_share:
            # From other folds only, as all that scores a user is.
            n_next = [
                target.mean_length(profiles, np.flatnonzero(fold_of != fold))
                for fold in range(n_folds)
            ]
            params |= {"window": window, "n_next": n_next}
        return cls(folds, fold_of, names, intercepts, params)

    def fold_for(self, users: Sequence[int], history: NDArray[np.integer]) -> int:
        """Return the fold whose model may score these users: their own, or any for a new user."""
        return fold_for(self.fold_of, users, history, len(self.folds))

    def base(self, fold: int, history_length: int, n_items: int) -> float:
        """Return the value to add to the trees of a fold: the log-odds if all items were alike.

        A horizon that is a share has ``horizon / (1 − horizon)`` times the items of the history.
        Any other horizon has as many items as in training.
        """
        if self.params.get("n_next") is not None:
            n_next = self.params["n_next"][fold]
        else:
            horizon = self.params["horizon"]
            n_next = history_length * horizon / (1 - horizon)
        n_others = max(n_items - history_length - n_next, 0.0)
        return self.intercepts[fold] + log_odds(n_next, n_others)

    def about(self, fold: int) -> str:
        """Return a sentence on the components of a fold's trees and the gains of those tried."""
        trial = self.params["components"][fold]
        selected, gains = trial["selected"], trial["gains"]
        if self.params.get("given"):
            return f"The trees were trained with {', '.join(selected) or 'the basic features'}."
        if not gains:
            return "There were too few validation users to try optional components."
        words = [
            f"{name} ({'selected' if name in selected else 'not selected'}: {abs(gains[name]):.1%} "
            f"{'better' if gains[name] > 0 else 'worse'})"
            for name in COMPONENTS
            if name in gains
        ]
        return (
            "Optional components were compared on validation users, by set size and by the "
            f"precision of the first ten items: {', '.join(words)}."
        )

    def renumbered(self, earlier_codes: NDArray[np.integer]) -> LearnedModel:
        """Return the same model for users under other codes.

        Parameters
        ----------
        earlier_codes : array of int
            For each new code the code at training; −1 for a user who was not there.
        """
        fold_of = folds_of(self.fold_of, earlier_codes.astype(np.int64)).astype(np.int8)
        return replace(self, fold_of=fold_of)


def _draw_examples(
    statistics: PrecedenceStatistics,
    interactions: Interactions,
    fold_of: NDArray[np.int8],
    most_users: int,
    sampling: Sampling,
    selected: SelectedComponents,
    advance: Bar,
) -> list[tuple[Examples, list[ValidationUser]]]:
    """Draw examples and validation users for the trees of each fold.

    For each pair of folds, features are computed from the users of the other folds. The users of
    each fold of the pair then give examples to the trees of the other one.
    """
    n_folds = int(fold_of.max(initial=-1)) + 1
    lengths = np.diff(interactions.offsets)
    chosen = [
        _draw_users(
            np.flatnonzero((lengths >= _SHORTEST) & (fold_of != fold)), most_users, sampling, fold
        )
        for fold in range(n_folds)
    ]
    examples: list[list[Examples]] = [[] for _ in range(n_folds)]
    validation: list[list[ValidationUser]] = [[] for _ in range(n_folds)]
    pairs = list(combinations(range(n_folds), 2))
    for place, pair in enumerate(pairs, start=1):
        advance.describe(f"Training: examples of pair {place} of {len(pairs)}")
        others = interactions.only(np.repeat(~np.isin(fold_of, pair), lengths))
        counted = count_like(statistics, others)
        features = _features(counted, selected.offered, sampling.random_state)
        advance(1)
        training_users = TrainingUsers.of(features, interactions)
        for trees, fold in (pair, pair[::-1]):
            users = chosen[trees][fold_of[chosen[trees]] == fold]
            drawn = sampling.for_users(len(chosen[trees]))
            examples[trees] += make_examples(training_users, users, drawn, advance)
            if not selected.are_given:
                validation[trees] += draw_validation_users(
                    training_users, users, drawn, n_folds - 1
                )
    if not all(examples):
        raise TooFewUsersError(
            "The measure 'learned' cannot be trained: no item is shared by enough users. Pass data "
            "of more users, or leave out rare items."
        )
    return [
        (Examples.joined(parts), users) for parts, users in zip(examples, validation, strict=True)
    ]


def _draw_users(
    users: NDArray[np.int64], most_users: int, sampling: Sampling, fold: int
) -> NDArray[np.int64]:
    """Draw the users that the trees of a fold are trained on."""
    check_enough_users(len(users), _SHORTEST)
    return np.sort(
        np.random.default_rng((sampling.random_state, fold)).permutation(users)[:most_users]
    )


def _features(
    counted: PrecedenceStatistics, extras: tuple[str, ...], random_state: int
) -> Features:
    """Build features with all components that are tried or given."""
    factors = None
    if "matrix factorisation" in extras:
        try:  # one set of factors on all these users, which may score any other user
            factors = Factorisation.train_whole(counted, AlsSettings(random_state=random_state))
        except InputError:  # too few users, or implicit is not installed
            factors = None
    return Features(counted, extras=extras, factors=factors)


def used_extras(trees: Sequence[Tree], names: Sequence[str]) -> tuple[str, ...]:
    """Return the components whose features some tree splits by, of trees over named features."""
    split = {names[feature] for tree in trees for feature in tree.features}
    return tuple(each for each, more in EXTRAS.items() if not split.isdisjoint(more))


def _renumber_features(text: str, offered: list[str], names: list[str]) -> str:
    """Return trees over the offered features as trees over the named ones."""
    if offered == names:
        return text
    places = [names.index(name) if name in names else -1 for name in offered]
    return write_trees([tree.renumbered(places) for tree in read_trees(text)], names)
