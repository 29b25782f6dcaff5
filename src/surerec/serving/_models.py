"""The model that is served: loaded whole, warmed up, swapped in one step."""

from __future__ import annotations

import gc
import hashlib
import json
import warnings
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.conformal import significance_of
from surerec.errors import InputError, StaleModelWarning
from surerec.recommenders import load_all
from surerec.serving._search import TitleSearch
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.live import Live
    from surerec.measures import Query
    from surerec.recommenders import FittedModel, RecommendationSet, Recommender


_SAMPLE_SIZE = 40
_SAMPLE_PRECISION = 0.2
_STEERED: Final = frozenset({"confidence", "significance", "k", "exclude"})
"""What may be asked of a set whose promise is kept live; others choose among its items."""


@dataclass(frozen=True)
class ServedModel:
    """All that answers need; it never changes, so a request that holds one is never torn."""

    model_id: str
    recommenders: Mapping[str, Recommender]
    card: Mapping[str, Any]
    """What clients may know of the model: no path, no version, nobody's id."""
    search: TitleSearch
    live: Live | None = None
    """What takes events in, and keeps the promise as the world moves; None for other models."""

    def answer(self, make: Callable[..., Any], *asked: Any) -> Any:
        """Give an answer made of one state of the model from beginning to end."""
        return make(self, *asked)

    def recommend(self, recommender: Recommender, query: Query, **asked: Any) -> RecommendationSet:
        """Give a person's set, with the promise that is kept live if there is one for it."""
        if self.live is None or not asked.keys() <= _STEERED:
            found = recommender.recommend(query=query, **asked)
            return replace(found, guarantee=f"{found.guarantee}{self.not_steered}")
        return self.live.recommend(query=query, **asked)

    @property
    def not_steered(self) -> str:
        """What is said of an answer that events do not steer; nothing unless others are steered."""
        if self.live is None:
            return ""
        return f" This is as calibrated on {self.live.counted_[:10]}, not steered by events."

    def cut(self, confidence: float | None) -> float | None:
        """Give the ε to ask for so that sets are the steered ones; None if they are not."""
        if self.live is None:
            return None
        return self.live.cut(significance_of(confidence, None))

    def steered(self, confidences: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the confidences at which items enter sets as these are served."""
        if self.live is None:
            return confidences
        return np.asarray(1 - self.live.steering_.nominal(1 - confidences))

    def refresh(self) -> None:
        """Release what other processes have replaced, while nobody asks."""

    def close(self) -> None:
        """Let go of what it has open."""

    @property
    def first(self) -> Recommender:
        """Any of the recommenders: they share items, users and statistics."""
        return next(iter(self.recommenders.values()))

    @property
    def interactions(self) -> Interactions | None:
        """The profiles, if the model has them."""
        return self.first.statistics_.interactions

    @property
    def genres(self) -> pl.Series | None:
        """The genres of each item by code, if they are known."""
        return None if self.interactions is None else self.interactions.genres

    @property
    def titles(self) -> pl.Series | None:
        """The title of each item by code, if there are any."""
        return None if self.interactions is None else self.interactions.titles


class ModelHolder:
    """The current model, and the next one while it is being taken over.

    Parameters
    ----------
    model : ServedModel
        The first one.
    load : callable
        Gives the model of a folder.
    """

    def __init__(
        self, model: ServedModel, load: Callable[[Path], ServedModel] | None = None
    ) -> None:
        self.current = model
        self._load = load or load_served
        self._next: ServedModel | None = None

    def prepare(self, folder: Path, wanted: str) -> None:
        """Load what the folder holds now, beside what is served; it must be what is wanted."""
        model = self._load(folder)
        if model.model_id != wanted:
            raise InputError(f"The model in {folder} changed again while it was being taken over.")
        self._next = model

    def swap(self) -> None:
        """Serve what was prepared; requests under way keep the model that they began with.

        The old model's files are mapped until the last of these has ended.
        """
        if self._next is not None:
            self.current, self._next = self._next, None
            gc.collect()  # what compiling left behind may hold arrays of the old model

    def discard(self) -> None:
        """Release what was prepared: another worker could not."""
        self._next = None


def model_id(card: Mapping[str, Any]) -> str:
    """Give the id of what a folder holds, by its content: statistics and recommenders.

    Examples
    --------
    >>> card = {"files": {}, "recommenders": {}, "counts": {"users": 3}, "settings": {}}
    >>> model_id({**card, "updated": "today"}) == model_id({**card, "updated": "yesterday"})
    True
    >>> model_id({**card, "counts": {"users": 4}}) == model_id(card)
    False
    """
    content = {name: card[name] for name in ("counts", "files", "recommenders", "settings")}
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def load_served(folder: Path) -> ServedModel:
    """Give the model of a folder, memory-mapped, with every kernel it needs ready to run.

    Every byte is compared with its checksum, by each worker again: the disk may have failed since
    the supervisor looked, and a worker may start months later.

    Parameters
    ----------
    folder : path
        What ``save`` wrote.
    """
    while True:
        card = read_card(folder)
        recommenders = load_all(folder)
        if read_card(folder) == card:  # else a save came in between
            break
    if not recommenders:
        raise InputError(f"The model in {folder} has no recommender; `surerec fit` makes one.")
    return served_of(card, recommenders)


def served_of(card: Mapping[str, Any], recommenders: Mapping[str, Recommender]) -> ServedModel:
    """Give what answers need of loaded recommenders, and the card of their folder."""
    for name, recommender in recommenders.items():
        _warn_if_stale(name, recommender.model_)
    any_one = next(iter(recommenders.values()))
    statistics = any_one.statistics_
    titles = None if statistics.interactions is None else statistics.interactions.titles
    return ServedModel(
        model_id(card),
        recommenders,
        _public_card(card, recommenders),
        TitleSearch(any_one.items_.ids, titles, statistics.popularity),
    )


def _warn_if_stale(name: str, model: FittedModel) -> None:
    until = model.valid_until
    if until is not None and datetime.now(UTC) > until:
        warnings.warn(
            f"{name} was calibrated for the time up to {until:%Y-%m-%d}, and that was "
            f"{(datetime.now(UTC) - until).days:,} days ago: its guarantee may not hold any more. "
            "Recalibrate it with newer data (surerec recalibrate).",
            StaleModelWarning,
            stacklevel=2,
        )


def _public_card(
    card: Mapping[str, Any], recommenders: Mapping[str, Recommender]
) -> dict[str, Any]:
    data = card["data"] or {}
    return {
        "model": model_id(card),
        "format": card["format"],
        "format_version": card["format_version"],
        "created": card["created"],
        "updated": card["updated"],
        "data": data.get("name"),
        "counts": card["counts"],
        "settings": card["settings"],
        "recommenders": [
            {
                "name": name,
                "kind": type(recommender).__name__,
                "headline": recommender.headline(),
                "params": recommender.settings(),
                "gives_confidence": "confidence" in recommender.model_.features,
                "gives_probabilities": "probability" in recommender.model_.features,
                "promises_precision": "precision" in recommender.model_.features,
                "lists": list(recommender.lists_),
                "together": list(recommender.model_.offers_together()),
                "group_sizes": list(getattr(recommender, "group_sizes_", ())),
                "guarantee": _sample_guarantee(recommender),
            }
            for name, recommender in recommenders.items()
        ],
    }


def _sample_guarantee(recommender: Recommender) -> dict[str, Any]:
    """Give what is promised to somebody who took the most popular items.

    Asking, rather than a table of sentences here, lets every kind of recommender speak for itself;
    it also compiles or loads each kernel before the first request comes.
    """
    by_popularity = np.argsort(recommender.statistics_.popularity)
    interactions = recommender.statistics_.interactions
    usual = _SAMPLE_SIZE if interactions is None else int(np.median(np.diff(interactions.offsets)))
    most_popular = by_popularity[: max(1, min(_SAMPLE_SIZE, usual, len(by_popularity) // 2))]
    history = recommender.items_.ids.gather(most_popular).to_list()
    asked: dict[str, Any] = {}
    if "precision" in recommender.model_.features:
        asked["precision"] = _SAMPLE_PRECISION
    try:
        return _sampled(recommender, history, asked)
    except InputError as error:  # a precision that cannot be reached here: that is said instead
        return {"confidence": None, "history_length": len(history), "sentence": f"None: {error}"}


def _sampled(recommender: Recommender, history: list[Any], asked: dict[str, Any]) -> dict[str, Any]:
    picks = recommender.recommend(history=history, **asked)
    picks.to_frame()  # as scores and p-values are found only when they are looked at
    if "confidence" in recommender.model_.features:
        recommender.p_values(history=history)
    interactions = recommender.statistics_.interactions
    for user in [] if interactions is None else interactions.users.suggested(1):
        recommender.recommend(user, **asked).to_frame()
        recommender.recommend_many([user], k=1, **asked)  # the batch has its own
    return {
        "confidence": picks.confidence,
        "history_length": len(history),
        "sentence": picks.guarantee,
    }
