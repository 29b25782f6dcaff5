"""The measure "learned": its scorer, its training and its saved state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import one_thread
from surerec.measures._folds import folds_of
from surerec.measures._scorer import Contribution, Measure, Scorer
from surerec.measures.als import AlsSettings, Factorisation
from surerec.measures.learned._features import FeatureQuery, Features, extras_of
from surerec.measures.learned._model import LearnedModel, used_extras
from surerec.measures.learned._ridge import ForwardRidge, Ridge
from surerec.measures.learned._sequence import STRENGTHS, SequentialRidge
from surerec.measures.learned._training import contributions
from surerec.measures.learned._trees import Trees, read_trees, write_trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.measures._query import Query
    from surerec.precedence import PrecedenceStatistics

_SCHEMAS: Final = {
    "fold_of": ArraySchema("int8", ("n_users",), low=-1, below="n_folds"),
    "ridge": ArraySchema("float64", ("n_ridge", "n_ridge")),
}
_FORWARD: Final = {
    name: ArraySchema("float64", ("n_forward", "n_forward"))
    for name in ("forward_inverse", "forward_weights")
}
_SEQUENCE: Final = {
    "inverse": ArraySchema("float32", ("n_sequence", "n_sequence")),
    "weights": ArraySchema("float32", ("n_sequence", "n_sequence")),
    "outputs": ArraySchema("int64", ("n_sequence",), low=0),
}
_SEQUENCES: Final = {
    f"sequence_{k}_{name}": schema
    for k in range(len(STRENGTHS))
    for name, schema in _SEQUENCE.items()
}
_FACTORS: Final = "als_"


class LearnedScorer(Scorer):
    """Scores by a trained model over precedence statistics; see :class:`surerec.measures.Scorer`.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        Precedence counts with profiles.
    learned : LearnedModel
        Model trained on these statistics or on earlier ones.
    ridge : Ridge, optional
        Ridge regression on the same profiles, to share between scorers; fitted by default.
    sequence : sequence of SequentialRidge, optional
        Sequential ridge regressions; fitted by default if the model uses them.
    forward : ForwardRidge, optional
        Ridge regression from past to future; fitted by default if the model uses it.
    factors : Factorisation, optional
        Matrix factorisation; trained by default if the model uses it.

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
        sequence: Sequence[SequentialRidge] = (),
        forward: ForwardRidge | None = None,
        factors: Factorisation | None = None,
    ) -> None:
        names = learned.feature_names
        extras = extras_of(names)
        self.statistics = statistics
        self.learned = learned
        if factors is None and "matrix factorisation" in extras:
            # Users are assigned to the same folds as for the trees.
            settings = AlsSettings(
                folds=int(learned.params["n_folds"]),
                random_state=int(learned.params["random_state"]),
            )
            factors = Factorisation.train(statistics.counted, settings)
        self._features = Features(statistics, ridge, extras, forward, factors, sequence)
        folds = [read_trees(text, len(names)) for text in learned.folds]
        self._trees = [Trees.of(trees) for trees in folds]
        self._used_extras = [used_extras(trees, names) for trees in folds]
        # Written again from checked trees: LightGBM does not validate the text that it reads.
        self._texts = [write_trees(trees, names) for trees in folds]

    @property
    def ridge(self) -> Ridge:
        """The ridge regression, to share with other scorers of these statistics."""
        return self._features.ridge

    def on(self, statistics: PrecedenceStatistics) -> LearnedScorer:
        """Return the same model on other counts of the same profiles, without training."""
        own = self._features
        return LearnedScorer(
            statistics,
            self.learned,
            ridge=own.ridge,
            sequence=own.sequence,
            forward=own.forward,
            factors=own.factors,
        )

    @property
    def name(self) -> str:
        """Name of the measure."""
        return "learned"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Return the log-odds of every item that it is consumed within the horizon.

        Users to leave out are left out of all counts, and scored by the trees of their own fold.
        """
        return next(self._score([query]))

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries, on this thread."""
        starts = range(0, len(queries), self.at_once)
        with one_thread():
            return np.stack(
                [row for at in starts for row in self._score(queries[at : at + self.at_once])]
            )

    def _score(self, queries: Sequence[Query]) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of each query; ridge regressions score all queries together."""
        n_items = self.statistics.n_items
        for query in queries:
            query.within(n_items, self.statistics.n_user_codes)
        folds = [self.learned.fold_for(query.users, query.history) for query in queries]
        feature_queries = [
            FeatureQuery(query.history, query.users, self._used_extras[fold])
            for query, fold in zip(queries, folds, strict=True)
        ]
        found = self._features.of_many(feature_queries)
        for query, fold, features in zip(queries, folds, found, strict=True):
            n_known = n_items - len(self.statistics.unknown_without(query.users))
            scores = np.full(n_items, self.learned.base(fold, len(query.history), n_known))
            self._trees[fold].add_to(scores, features)
            yield scores

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fold of each user; neither trees nor factors were trained on its users."""
        folds, factors = folds_of(self.learned.fold_of, users), self._features.factors
        if factors is None:
            return folds
        # On newer data, factors are trained again, and their folds differ from those of the trees.
        both = (folds + 1) * (factors.settings.folds + 1) + folds_of(factors.fold_of, users) + 1
        return np.asarray(both - 1)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],  # noqa: ARG002  # other measures need it
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return the probability that an item is consumed within the horizon."""
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)))  # the logistic function without overflow

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Return the contribution of each feature to the score of one item, strongest first.

        Contributions are log-odds relative to the average training example (TreeSHAP).
        """
        column = np.array([item], dtype=np.int64)
        values = self._features.of(query.history, without=query.users, columns=column)[:, 0]
        fold = self.learned.fold_for(query.users, query.history)
        shap = contributions(self._texts[fold], values)[:-1]
        described = self._features.descriptions.values()
        found = zip(described, values.tolist(), shap.tolist(), strict=True)
        return tuple(
            sorted((Contribution(*each) for each in found), key=lambda each: -abs(each.by))
        )

    def about(self, query: Query) -> str:
        """Return a sentence on the components of the trees of the user's fold."""
        return self.learned.about(self.learned.fold_for(query.users, query.history))

    def state(self) -> State:
        """Return the saved state, with ridges and factors, so that loading trains nothing."""
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
        parts = [getattr(each, name) for each in features.sequence for name in _SEQUENCE]
        arrays |= dict(zip(_SEQUENCES, parts, strict=False))
        found = State(arrays, {**texts, "settings": json.dumps(settings)})
        if features.factors is not None:
            found |= features.factors.state().under(_FACTORS)
        return found


class LearnedMeasure(Measure):
    """Boosted trees trained on what other users consumed next.

    Parameters
    ----------
    learned : LearnedModel, optional
        A trained model, used as it is. Its folds go by user codes. With a model from other data,
        only users who are in neither data set are surely scored by trees that were not trained on
        them.
    random_state : int, default=0
        Seed of the training.
    horizon, window
        The period to predict; see :meth:`LearnedModel.train`.
    """

    name = "learned"
    stored = "learned"
    grows = True
    stays = "trees, ridge regressions, factors and item statistics other than counts"

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
        """Train on these statistics, or use the given model."""
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
        """Keep the trees, for users under their present codes."""
        assert isinstance(scorer, LearnedScorer)  # noqa: S101  # the result of `fit`
        learned = scorer.learned
        if earlier_users is not None:
            learned = learned.renumbered(earlier_users)
        return LearnedScorer(statistics, learned)

    def grown(self, scorer: Scorer, statistics: PrecedenceStatistics) -> Scorer:
        """Keep the trained model on counts that have grown."""
        assert isinstance(scorer, LearnedScorer)  # noqa: S101  # the result of `fit`
        newer = statistics.grown_from(scorer.statistics)
        return scorer.on(newer)

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Load the trained model without training."""
        counted = statistics.counted  # the state belongs to the counts before any growth
        of_factors, (arrays, texts) = state.split(_FACTORS)
        try:
            settings = json.loads(texts["settings"])
            intercepts = [float(value) for value in settings["intercepts"]]
            feature_names = [str(name) for name in settings["feature_names"]]
            params = dict(settings["params"])
            has_horizon = _check_horizon(params, len(intercepts))
            _check_components(params, len(intercepts))
        except (TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError("the settings are not those of a learned measure") from error
        if not intercepts or not np.isfinite(intercepts).all() or not has_horizon:
            raise ValueError("the settings are not those of a learned measure")
        folds = [texts[_text(fold)] for fold in range(len(intercepts))]
        extras = extras_of(feature_names)
        has_forward, has_sequence = "past to future" in extras, "sequence" in extras
        sizes = check_arrays(
            "a learned measure",
            _SCHEMAS | (_SEQUENCES if has_sequence else {}) | (_FORWARD if has_forward else {}),
            arrays,
            n_users=counted.n_users,
            n_folds=len(intercepts),
        )
        ridges = [sizes[name] for name in ("n_ridge", "n_sequence", "n_forward") if name in sizes]
        if (
            not all(0 < n <= counted.n_items for n in ridges)
            or {*texts} != {"settings", *map(_text, range(len(intercepts)))}
            or of_factors.is_empty is ("matrix factorisation" in extras)
        ):
            raise ValueError("they are not those of a learned measure")
        learned = LearnedModel(folds, arrays["fold_of"], feature_names, intercepts, params)
        return LearnedScorer(
            statistics,
            learned,
            sequence=_sequential(arrays) if has_sequence else (),
            ridge=Ridge(arrays["ridge"]),
            forward=ForwardRidge(*(arrays[name] for name in _FORWARD)) if has_forward else None,
            factors=None if of_factors.is_empty else Factorisation.from_state(of_factors, counted),
        )


def _sequential(arrays: Mapping[str, NDArray[Any]]) -> list[SequentialRidge]:
    found = []
    for k, decay in enumerate(STRENGTHS):
        inverse, weights, outputs = (arrays[f"sequence_{k}_{name}"] for name in _SEQUENCE)
        found.append(SequentialRidge(inverse, weights, outputs, decay))
    return found


def _check_horizon(params: dict[str, Any], n_folds: int) -> bool:
    """Return whether the stored horizon is valid, and convert its numbers."""
    horizon = float(params["horizon"])
    if params.get("n_next") is None:
        params["horizon"] = horizon
        return 0 < horizon < 1
    n_next = params["n_next"] = [float(each) for each in params["n_next"]]
    return len(n_next) == n_folds and all(0 < each < np.inf for each in (horizon, *n_next))


def _check_components(params: dict[str, Any], n_folds: int) -> None:
    """Raise if the stored components are invalid."""
    params["components"] = [
        {
            "selected": [str(name) for name in each["selected"]],
            "gains": {str(name): float(gain) for name, gain in each["gains"].items()},
        }
        for each in params["components"]
    ]
    if len(params["components"]) != n_folds:
        raise ValueError("the components are not those of the folds")


def _text(fold: int) -> str:
    return f"fold_{fold}"
