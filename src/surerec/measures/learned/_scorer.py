"""The learned measure as a scorer over statistics, how it is fitted, and what is saved of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import one_thread
from surerec.measures._folds import folds_of
from surerec.measures._scorer import Contribution, Measure, Scorer
from surerec.measures.als import AlsSettings, Factorisation
from surerec.measures.learned._features import EXTRAS, Asked, Features, extras_of
from surerec.measures.learned._growing import contributions
from surerec.measures.learned._measure import LearnedModel
from surerec.measures.learned._ridge import ForwardRidge, Ridge
from surerec.measures.learned._trees import Trees, read_trees, write_trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.measures._query import Query
    from surerec.measures.learned._trees import Tree
    from surerec.precedence import PrecedenceStatistics

_SCHEMAS: Final = {
    "fold_of": ArraySchema("int8", ("n_users",), low=-1, below="n_folds"),
    "ridge": ArraySchema("float64", ("n_ridge", "n_ridge")),
}
_FORWARD: Final = {
    name: ArraySchema("float64", ("n_forward", "n_forward"))
    for name in ("forward_inverse", "forward_weights")
}
_FACTORS: Final = "als_"


class LearnedScorer(Scorer):
    """A learned measure over precedence statistics; see :class:`surerec.measures.Scorer`.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts, made from profiles.
    learned : LearnedModel
        What was learned, from these statistics or from earlier ones.
    ridge : Ridge, optional
        Of the same profiles, where several scorers share it; by default it is fitted here.
    forward : ForwardRidge, optional
        The same of the ridge from past to future, where its features were kept.
    factors : Factorisation, optional
        The same of the matrix factorisation.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.measures.learned import LearnedModel
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> statistics = sr.count_precedence(films)
    >>> scorer = LearnedScorer(statistics, LearnedModel.train(statistics))
    >>> scores = scorer.score(np.array([3, 1, 4]))
    >>> scores.shape, bool((scorer.value(scores, 3, 200) < 1).all())
    ((60,), True)
    """

    leaves_users_out = True
    checked = True
    unit = "log-odds"
    at_once = 64

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        learned: LearnedModel,
        *,
        ridge: Ridge | None = None,
        forward: ForwardRidge | None = None,
        factors: Factorisation | None = None,
    ) -> None:
        names = learned.feature_names
        extras = extras_of(names)
        self.statistics = statistics
        self.learned = learned
        if factors is None and "matrix factorisation" in extras:
            # For each fold of users, dealt as those of the trees are.
            how = AlsSettings(
                folds=int(learned.params["n_folds"]),
                random_state=int(learned.params["random_state"]),
            )
            factors = Factorisation.train(statistics.counted, how)
        self._features = Features(statistics, ridge, extras, forward, factors)
        folds = [read_trees(text, len(names)) for text in learned.folds]
        self._trees = [Trees.of(trees) for trees in folds]
        self._looked_at = [_looked_at(trees, names) for trees in folds]
        # Written anew: LightGBM does not look where a text leads it.
        self._texts = [write_trees(trees, names) for trees in folds]

    @property
    def ridge(self) -> Ridge:
        """The ridge regression behind it, to share with other scorers of these statistics."""
        return self._features.ridge

    def on(self, statistics: PrecedenceStatistics) -> LearnedScorer:
        """Return the same on other counts of the same profiles: nothing is learned again."""
        made = self._features
        return LearnedScorer(
            statistics, self.learned, ridge=made.ridge, forward=made.forward, factors=made.factors
        )

    @property
    def name(self) -> str:
        """What reports call it."""
        return "learned"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item: the log-odds that it is taken next, within the horizon.

        A user to leave out is left out of all counts, and scored by the trees that never saw them.
        """
        return next(self._score([query]))

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries, in this thread."""
        starts = range(0, len(queries), self.at_once)
        with one_thread():
            return np.stack(
                [row for at in starts for row in self._score(queries[at : at + self.at_once])]
            )

    def _score(self, queries: Sequence[Query]) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of each query; what ridges expect is found together."""
        n_items = self.statistics.n_items
        for query in queries:
            query.within(n_items, self.statistics.n_user_codes)
        folds = [self.learned.fold_for(query.users, query.history) for query in queries]
        asked = [
            Asked(query.history, query.users, self._looked_at[fold])
            for query, fold in zip(queries, folds, strict=True)
        ]
        found = self._features.of_many(asked)
        for query, fold, features in zip(queries, folds, found, strict=True):
            n_known = n_items - len(self.statistics.unknown_without(query.users))
            scores = np.full(n_items, self.learned.base(fold, len(query.history), n_known))
            self._trees[fold].add_to(scores, features)
            yield scores

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fold of each user, of which neither trees nor factors have seen anybody."""
        folds, factors = folds_of(self.learned.fold_of, users), self._features.factors
        if factors is None:
            return folds
        # The same, but that on newer data factors are trained anew and everybody is dealt.
        both = (folds + 1) * (factors.settings.folds + 1) + folds_of(factors.fold_of, users) + 1
        return np.asarray(both - 1)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],  # noqa: ARG002  # as other measures need it
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Turn scores into the probability that the item is taken within the horizon."""
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)))  # the logistic curve, never overflowing

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Return what moved the score of one item: each feature in words, its value, what it moved.

        In log-odds against the average training example, the strongest first (TreeSHAP).
        """
        column = np.array([item], dtype=np.int64)
        values = self._features.of(query.history, without=query.users, columns=column)[:, 0]
        fold = self.learned.fold_for(query.users, query.history)
        moved = contributions(self._texts[fold], values)[:-1]
        words = self._features.in_words.values()
        found = zip(words, values.tolist(), moved.tolist(), strict=True)
        return tuple(
            sorted((Contribution(*each) for each in found), key=lambda each: -abs(each.by))
        )

    def about(self, query: Query) -> str:
        """Return which ingredients the trees of the user's fold have, and why."""
        return self.learned.about(self.learned.fold_for(query.users, query.history))

    def state(self) -> State:
        """Return what is saved, ridges and factors included: opening it learns nothing again."""
        learned, features = self.learned, self._features
        settings = {
            "feature_names": learned.feature_names,
            "intercepts": learned.intercepts,
            "params": learned.params,
        }
        texts = {_text(fold): text for fold, text in enumerate(learned.folds)}
        arrays: dict[str, NDArray[Any]] = {
            "fold_of": learned.fold_of,
            "ridge": features.ridge.inverse,
        }
        if (forward := features.forward) is not None:
            arrays |= dict(zip(_FORWARD, (forward.inverse, forward.weights), strict=True))
        found = State(arrays, {**texts, "settings": json.dumps(settings)})
        if features.factors is not None:
            found |= features.factors.state().under(_FACTORS)
        return found


def _looked_at(trees: Sequence[Tree], names: Sequence[str]) -> tuple[str, ...]:
    """Return the ingredients by whose features some tree splits."""
    split = {names[feature] for tree in trees for feature in tree.features}
    return tuple(each for each, more in EXTRAS.items() if not split.isdisjoint(more))


class LearnedMeasure(Measure):
    """Trees trained on other users' futures.

    Parameters
    ----------
    learned : LearnedModel, optional
        What was learned before, to be used as it is. Its folds are of users by code: if it was
        learned from other data, only people who were in neither are surely scored by what was not
        learned from them.
    random_state : int, default=0
        Of the training.
    horizon, window
        The future to train for; see :meth:`LearnedModel.train`.
    """

    name = "learned"
    stored = "learned"
    grows = True
    stays = "trees, ridges, factors and what else is known of items"

    def __init__(
        self,
        learned: LearnedModel | None = None,
        *,
        random_state: int = 0,
        horizon: float = 0.4,
        window: float | None = None,
    ) -> None:
        self.learned = learned
        self.horizon = horizon
        self.window = window
        self.random_state = random_state
        self.refits = learned is None

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Train on these statistics, or take what was learned before."""
        learned = self.learned or LearnedModel.train(
            statistics, horizon=self.horizon, window=self.window, random_state=self.random_state
        )
        return LearnedScorer(statistics, learned)

    def update(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,
    ) -> Scorer:
        """Keep the trees, under the codes by which users go now."""
        assert isinstance(scorer, LearnedScorer)  # noqa: S101  # as `fit` made it
        learned = scorer.learned
        if earlier_users is not None:
            learned = learned.renumbered(earlier_users)
        return LearnedScorer(statistics, learned)

    def grown(self, scorer: Scorer, statistics: PrecedenceStatistics) -> Scorer:
        """Keep all that was learned, on counts that have grown."""
        assert isinstance(scorer, LearnedScorer)  # noqa: S101  # as `fit` made it
        newer = statistics.grown_from(scorer.statistics)
        return scorer.on(newer)

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Read back what was learned, so that opening a model learns nothing again."""
        counted = statistics.counted  # what grows has the state of what it grew from
        of_factors, (arrays, texts) = state.split(_FACTORS)
        try:
            settings = json.loads(texts["settings"])
            intercepts = [float(value) for value in settings["intercepts"]]
            feature_names = [str(name) for name in settings["feature_names"]]
            params = dict(settings["params"])
            is_future = _check_future(params, len(intercepts))
            _check_ingredients(params, len(intercepts))
        except (TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError("the settings are not those of a learned measure") from error
        if not intercepts or not np.isfinite(intercepts).all() or not is_future:
            raise ValueError("the settings are not those of a learned measure")
        folds = [texts[_text(fold)] for fold in range(len(intercepts))]
        extras = extras_of(feature_names)
        has_forward = "past to future" in extras
        sizes = check_arrays(
            "a learned measure",
            _SCHEMAS | (_FORWARD if has_forward else {}),
            arrays,
            n_users=counted.n_users,
            n_folds=len(intercepts),
        )
        ridges = [sizes[name] for name in ("n_ridge", "n_forward") if name in sizes]
        if (
            not all(0 < n <= counted.n_items for n in ridges)
            or {*texts} != {"settings", *map(_text, range(len(intercepts)))}
            or of_factors.is_empty is ("matrix factorisation" in extras)
        ):
            raise ValueError("they are not those of a learned measure")
        return LearnedScorer(
            statistics,
            LearnedModel(folds, arrays["fold_of"], feature_names, intercepts, params),
            ridge=Ridge(arrays["ridge"]),
            forward=ForwardRidge(*(arrays[name] for name in _FORWARD)) if has_forward else None,
            factors=None if of_factors.is_empty else Factorisation.from_state(of_factors, counted),
        )


def _check_future(params: dict[str, Any], n_folds: int) -> bool:
    """Return whether the future that it was trained for is one, and make numbers of it."""
    horizon = float(params["horizon"])
    if params.get("n_next") is None:
        params["horizon"] = horizon
        return 0 < horizon < 1
    n_next = params["n_next"] = [float(each) for each in params["n_next"]]
    return len(n_next) == n_folds and all(0 < each < np.inf for each in (horizon, *n_next))


def _check_ingredients(params: dict[str, Any], n_folds: int) -> None:
    """Refuse ingredients that are none."""
    params["ingredients"] = [
        {
            "kept": [str(name) for name in each["kept"]],
            "gains": {str(name): float(gain) for name, gain in each["gains"].items()},
        }
        for each in params["ingredients"]
    ]
    if len(params["ingredients"]) != n_folds:
        raise ValueError("the ingredients are not those of the folds")


def _text(fold: int) -> str:
    return f"fold_{fold}"
