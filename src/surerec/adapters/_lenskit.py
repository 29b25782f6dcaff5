"""Adapter of LensKit pipelines, queried by a history or by a user of the training data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import lenskit
import numpy as np
from lenskit.data import ItemList, Vocabulary, from_interactions_df
from lenskit.training import TrainingOptions

from surerec.adapters._adapter import Adapter, Factors, ItemItem, ids_of, own_ids
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Form, Ids
    from surerec.interactions import Interactions

_BY_HISTORY: Final = frozenset(
    {"EASEScorer", "ImplicitMFScorer", "ItemKNNScorer", "PopScorer", "SLIMScorer"}
)
"""Scorers that use the history of a query only, as the tests confirm.

UserKNNScorer is not among them: queried by id, it leaves out the user's own training row.
"""
_BY_USER: Final = frozenset(
    {
        *("BaseRec", "BiasedSVDScorer", "FlexMFScorerBase", "FunkSVDScorer", "HPFScorer"),
        *("LightGCNScorer", "NMFScorer"),
        "BiasedMFScorer",  # it folds in ratings only, which a history does not have
    }
)
"""Scorers that cannot score a history; for others, a trained pipeline is tried."""
_SEED: Final = 0  # of a copy's training; LensKit's default is not reproducible
_FEW: Final = 5


class LensKitAdapter(Adapter):
    """Adapter of a LensKit pipeline, by its component ``scorer`` or the arrays of it.

    Users of the fit are queried by id if the scorer keeps something of each, or needs ratings. A
    history is queried without an id, so that only the history scores it.
    """

    can_fit = True
    is_partial = True

    def __init__(self, model: Any, items: Ids = None, users: Ids = None) -> None:
        if not isinstance(model, lenskit.Pipeline) or model.node("scorer", missing=None) is None:
            raise InputError(
                f"{type(model).__name__} of LensKit cannot score items. Pass a pipeline with a "
                "component 'scorer', such as lenskit.topn_pipeline(scorer)."
            )
        self.model = model
        scorer = model.component("scorer")
        self.knows_users = not _scores_by(scorer, _BY_HISTORY) or _needs_user(scorer)
        self.folds_in = not _scores_by(scorer, _BY_USER) and not _needs_user(scorer)
        own = _vocabulary(model, "item")
        if own is not None:
            self.form = as_form(scorer)
            self.items, self.users = own, _vocabulary(model, "user")
            self.folds_in = self.folds_in and self.scores_a_history()
            self.items = own_ids(own, items, self.name)
            if users is not None and self.users is None:
                self.users = ids_of(users, None, "user", self.name)
        elif items is not None:  # the catalogue for the training of a copy
            self.items = ids_of(items, None, "item", self.name)

    @property
    def own_name(self) -> str:
        """Name of the pipeline, or of the class of its scorer."""
        return self.model.name or type(self.model.component("scorer")).__name__

    def check_fitted(self) -> None:
        """Raise if the pipeline has no vocabulary."""
        if _vocabulary(self.model, "item") is None:
            raise NotFittedError(
                f"The pipeline {self.name} is not trained. Train it, or use "
                "wrap(pipeline).fit(interactions), which trains a copy."
            )

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return the scores of users of the training data, by id."""
        assert self.users is not None  # noqa: S101  # rows need users
        return self._query(self.users.ids.gather(rows).to_list())

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Return the scores of the arrays, or query the pipeline without a user id."""
        if self.form is not None:
            return super().score_histories(histories)
        ids = self.catalogue.ids
        return self._query([ItemList(ids.gather(each).to_list()) for each in histories])

    def _query(self, queries: Sequence[Any]) -> NDArray[np.floating]:
        ids = self.catalogue.ids.to_numpy()
        items, found = ItemList(ids), np.full((len(queries), len(ids)), np.nan)
        for row, query in enumerate(queries):
            scored = lenskit.score(self.model, query, items)
            if not np.array_equal(scored.ids(), ids):
                raise InputError(
                    f"The component 'scorer' of {self.name} returned other items than requested, "
                    "or in another order. Return the items of the query in order."
                )
            scores = scored.scores()
            if scores is not None:
                found[row] = scores
        return found

    def scores_a_history(self) -> bool:
        """Return whether the pipeline scores a history, by a trial."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = self.score_histories([np.arange(min(_FEW, len(self.catalogue)))])
        except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return False  # a custom scorer that needs more than items
        return bool(np.isfinite(scores).any())

    def fitted_on(self, known: Interactions) -> Self:
        """Train a clone, which has no trained state."""
        model = self.model.clone()
        rows = known.to_frame().rename({"datetime": "timestamp"})
        data = from_interactions_df(rows.to_pandas(), items=known.items.ids.to_list())
        try:
            model.train(data, TrainingOptions(rng=_SEED))
        except (KeyError, ValueError, RuntimeError) as error:
            raise InputError(
                f"A copy of {self.name} cannot be trained on interactions without ratings: "
                f"{error}. Train the pipeline yourself, and calibrate it with "
                "wrap(pipeline).calibrate."
            ) from error
        items = _vocabulary(model, "item") or known.items
        users = IdMap(known.users.ids.gather(np.flatnonzero(np.diff(known.offsets))), noun="user")
        fresh = self.around(model, as_form(model.component("scorer")), items, users)
        fresh.folds_in = self.folds_in and fresh.scores_a_history()
        return fresh


def _scores_by(scorer: Any, names: frozenset[str]) -> bool:
    return any(each.__name__ in names for each in type(scorer).__mro__)


def as_form(scorer: Any) -> Form | None:
    """Return a trained scorer as arrays if its scores are sums over a history; else None."""
    if _needs_user(scorer):
        return None
    if _is(scorer, "EASEScorer") or _is(scorer, "SLIMScorer"):
        return ItemItem(scorer.weights)
    if _is(scorer, "PopScorer"):
        return ItemItem.constant(scorer.item_scores_)
    if _is(scorer, "ImplicitMFScorer"):
        items, config = scorer.item_embeddings, scorer.config
        return Factors(items[:0], items, (config.user_reg, 1.0 + config.weight))
    return None


def _is(scorer: Any, name: str) -> bool:
    return type(scorer).__name__ == name and type(scorer).__module__.startswith("lenskit.")


def _needs_user(scorer: Any) -> bool:
    """Return whether the scorer is configured to use ratings or stored user embeddings."""
    config = getattr(scorer, "config", None)
    return bool(
        getattr(config, "feedback", "") == "explicit"
        or getattr(config, "use_ratings", False)
        or getattr(config, "user_embeddings", None) == "prefer"
    )


def _vocabulary(pipeline: Any, kind: Literal["item", "user"]) -> IdMap | None:
    """Return the items or users that a pipeline was trained on, if it keeps them."""
    side = {"item": "col_vocabulary", "user": "row_vocabulary"}[kind]
    for name in ("scorer", *pipeline.component_names()):
        component = pipeline.component(name)
        lookup = getattr(component, "interactions", None)  # history lookup
        for place, attribute in ((component, f"{kind}s"), (component, f"{kind}s_"), (lookup, side)):
            found = getattr(place, attribute, None)
            if isinstance(found, Vocabulary):
                return ids_of(found.ids().tolist(), None, kind, "LensKit")
    return None
