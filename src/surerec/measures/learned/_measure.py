"""A measure learned from other users' futures: boosted trees, one model for each fold of users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_whole
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.errors import InputError, TooFewUsersError
from surerec.measures._folds import check_enough, deal, fold_for, folds_of
from surerec.measures.als import AlsSettings, Factorisation
from surerec.measures.learned._examples import (
    Examples,
    Sampling,
    Strangers,
    TrainedFuture,
    log_odds,
    make_examples,
)
from surerec.measures.learned._features import EXTRAS, Features, in_words
from surerec.measures.learned._growing import INGREDIENTS, LARGE, SMALL, Kept, ask, grow_best
from surerec.measures.learned._trees import read_trees, write_trees
from surerec.precedence import count_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec._progress import Bar
    from surerec.interactions import Interactions
    from surerec.measures.learned._growing import Grown, Question
    from surerec.precedence import PrecedenceStatistics


_SHORTEST: Final = 5
"""Items of a profile at the least, to be trained on."""
_N_CUTS: Final = 2
N_FOLDS: Final = 4
"""Features that examples are made with know half of the users."""


@dataclass(frozen=True)
class LearnedModel:
    """What was learned of which items follow a profile; it needs no statistics to be kept.

    Users are dealt into folds. Model k is trained on the users outside fold k alone, so that
    nothing of a user of fold k is in it: it scores them. Its examples are made as they will be for
    new users: features know nothing of the user of an example, nor of anybody in fold k.

    Attributes
    ----------
    folds : list of str
        LightGBM's text of the model of each fold.
    fold_of : array of int8
        The fold of each user, by their code when it was trained; −1 for one who was not there,
        whom any model may score.
    feature_names : list of str
        What the trees see, in order.
    intercepts : list of float
        What is added to the trees of each fold.
    params : dict
        How it was trained.

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
        n_users: int = 2700,
        negatives: int = 90,
        ingredients: Sequence[str] | None = None,
        random_state: int = 0,
    ) -> LearnedModel:
        """Train on what users took after a part of their profile.

        Parameters
        ----------
        statistics : PrecedenceStatistics
            The counts, made from profiles.
        horizon : float or int, default=0.4
            The share of a profile that is its future, or how many next items are.
        window : float, optional
            The days of the future, if it is one of the calendar.
        n_folds : int, default=4
            Into how many folds users are dealt. Each costs a training, and each two of them cost
            counts.
        n_users : int, default=2700
            How many users a model is trained on at the most, drawn at random.
        negatives : int, default=90
            How many items that the user never took stand for all of them, at each cut.
        ingredients : sequence of str, optional
            What every fold has beside the usual features, of ``INGREDIENTS``; by default each fold
            keeps those by which users who are set aside gain.
        random_state : int, default=0
            The same seed on the same profiles learns the same.

        Raises
        ------
        InputError
            If there are too few users to learn from, or LightGBM is not installed.
        """
        future = TrainedFuture(horizon, window)
        profiles = statistics.require_profiles("the learned measure needs profiles")
        n_folds = check_whole("n_folds", n_folds, lowest=3)
        most_users = check_whole("n_users", n_users)
        sampling = Sampling(
            future,
            _N_CUTS,
            check_whole("negatives", negatives),
            check_whole("random_state", random_state, lowest=0),
        )
        given = None if ingredients is None else Kept.given(ingredients)
        fold_of = deal(statistics.n_users, n_folds, random_state)
        n_each = min(most_users, statistics.n_users)
        with progress("Learning", total=n_folds * (n_each + SMALL.most + LARGE.most)) as advance:
            gathered = _gather(statistics, profiles, fold_of, most_users, sampling, given, advance)
            advance.describe(f"Learning: trees of {n_folds} folds")
            grown = list(
                run_blocks(lambda each: grow_best(*each, given, random_state, advance), gathered)
            )
        names = _used(grown)
        folds = [_numbered(each.text, names) for each in grown]
        intercepts = [each.intercept for each in grown]
        params: dict[str, Any] = {
            "horizon": horizon,
            "n_folds": n_folds,
            "n_users": n_users,
            "negatives": negatives,
            "random_state": random_state,
            "ingredients": [each.kept.to_dict() for each in grown],
            "given": given is not None,
        }
        if not future.is_share:
            # Of the others' futures alone, as all that scores somebody is.
            n_next = [
                future.mean_length(profiles, np.flatnonzero(fold_of != fold))
                for fold in range(n_folds)
            ]
            params |= {"window": window, "n_next": n_next}
        return cls(folds, fold_of, names, intercepts, params)

    def fold_for(self, users: Sequence[int], history: NDArray[np.integer]) -> int:
        """Return the fold whose model may score users: theirs, or any for a new user."""
        return fold_for(self.fold_of, users, history, len(self.folds))

    def base(self, fold: int, history_length: int, n_items: int) -> float:
        """Return what is added to the trees of a fold: the log-odds if all items were alike.

        A future of the horizon's share is as long as ``horizon / (1 − horizon)`` pasts; another is
        as long as it was in training.
        """
        if self.params.get("n_next") is not None:
            n_next = self.params["n_next"][fold]
        else:
            horizon = self.params["horizon"]
            n_next = history_length * horizon / (1 - horizon)
        n_others = max(n_items - history_length - n_next, 0.0)
        return self.intercepts[fold] + log_odds(n_next, n_others)

    def about(self, fold: int) -> str:
        """Return which ingredients the trees of a fold have, and what those not kept had gained."""
        tried = self.params["ingredients"][fold]
        kept, gains = tried["kept"], tried["gains"]
        if self.params.get("given"):
            return f"Its trees were grown with {', '.join(kept) or 'the usual features alone'}."
        if not gains:
            return "Too few users were set aside to try other ingredients than the usual."
        words = [
            f"{name} ({'kept' if name in kept else 'left out'}: {abs(gains[name]):.1%} "
            f"{'better' if gains[name] > 0 else 'worse'})"
            for name in INGREDIENTS
            if name in gains
        ]
        return (
            f"Its trees were tried on users set aside, by their sets' sizes and the precision "
            f"of their first ten items, with {', '.join(words)}."
        )

    def renumbered(self, earlier_codes: NDArray[np.integer]) -> LearnedModel:
        """Return the same for users under other codes.

        Parameters
        ----------
        earlier_codes : array of int
            For each new code the one at training, −1 for somebody who was not there.
        """
        fold_of = folds_of(self.fold_of, earlier_codes.astype(np.int64)).astype(np.int8)
        return replace(self, fold_of=fold_of)


def _gather(
    statistics: PrecedenceStatistics,
    interactions: Interactions,
    fold_of: NDArray[np.int8],
    most_users: int,
    sampling: Sampling,
    given: Kept | None,
    advance: Bar,
) -> list[tuple[Examples, list[Question]]]:
    """Draw examples for the trees of each fold, and ask for users who are set aside.

    For each two folds, features are made of the users of neither. They know nobody of the two: the
    users of one give examples to the trees of the other.
    """
    n_folds = int(fold_of.max(initial=-1)) + 1
    lengths = np.diff(interactions.offsets)
    chosen = [
        _draw(
            np.flatnonzero((lengths >= _SHORTEST) & (fold_of != fold)), most_users, sampling, fold
        )
        for fold in range(n_folds)
    ]
    examples: list[list[Examples]] = [[] for _ in range(n_folds)]
    asked: list[list[Question]] = [[] for _ in range(n_folds)]
    pairs = list(combinations(range(n_folds), 2))
    for place, pair in enumerate(pairs, start=1):
        advance.describe(f"Learning: pair {place} of {len(pairs)}")
        others = interactions.only(np.repeat(~np.isin(fold_of, pair), lengths))
        counted = count_like(statistics, others)
        strangers = Strangers.of(_features(counted, given, sampling.random_state), interactions)
        for trees, fold in (pair, pair[::-1]):
            users = chosen[trees][fold_of[chosen[trees]] == fold]
            drawn = sampling.among(len(chosen[trees]))
            examples[trees] += make_examples(strangers, users, drawn, advance)
            if given is None:
                asked[trees] += ask(strangers, users, drawn, n_folds - 1)
    return [
        (Examples.joined(_some(parts)), questions)
        for parts, questions in zip(examples, asked, strict=True)
    ]


def _draw(
    users: NDArray[np.int64], most_users: int, sampling: Sampling, fold: int
) -> NDArray[np.int64]:
    """Draw the users whom the trees of a fold learn from."""
    check_enough(len(users), _SHORTEST)
    return np.sort(
        np.random.default_rng((sampling.random_state, fold)).permutation(users)[:most_users]
    )


def _features(counted: PrecedenceStatistics, given: Kept | None, random_state: int) -> Features:
    """Return features of all ingredients that are tried or given."""
    factors = None
    if given is None or "matrix factorisation" in given.names:
        try:  # one set of factors on all users, which may score anybody else
            factors = Factorisation.train_whole(counted, AlsSettings(random_state=random_state))
        except InputError:  # too few users, or implicit is not installed
            factors = None
    return Features(counted, extras=tuple(EXTRAS), factors=factors)


def _some(parts: list[Examples]) -> list[Examples]:
    if not parts:
        raise TooFewUsersError(
            "Nothing can be learned here: no item is shared by enough users. Give more users, or "
            "leave out items that hardly anybody consumed."
        )
    return parts


def _used(grown: list[Grown]) -> list[str]:
    """Return the features that must be computed: those of ingredients that any fold kept."""
    extras = [each for each in EXTRAS if any(each in one.kept.names for one in grown)]
    return [*in_words(extras)]


def _numbered(text: str, names: list[str]) -> str:
    """Return trees over all features that are offered as trees over some."""
    offered = [*in_words(tuple(EXTRAS))]
    if offered == names:
        return text
    places = [names.index(name) if name in names else -1 for name in offered]
    return write_trees([tree.among(places) for tree in read_trees(text)], names)
