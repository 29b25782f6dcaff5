"""The model that is served: loaded whole, warmed up, swapped in one step."""

from __future__ import annotations

import gc
import hashlib
import json
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.calibration import Guarantee
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.errors import InputError, StaleModelWarning
from surerec.recommenders import load_all
from surerec.serving._search import TitleSearch
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import polars as pl

    from surerec.interactions import Interactions
    from surerec.recommenders import FittedModel


_SAMPLE_SIZE = 40
_SAMPLE_PRECISION = 0.2


@dataclass(frozen=True)
class ServedModel:
    """All that answers need; it never changes, so a request that holds one is never torn."""

    model_id: str
    models: Mapping[str, FittedModel]
    """What answers, by name; all of them share items, users and statistics."""
    card: Mapping[str, Any]
    """What clients may know of the model: no path, no version, nobody's id."""
    search: TitleSearch

    def answer(self, make: Callable[..., Any], *asked: Any) -> Any:
        """Give an answer made of one state of the model from beginning to end."""
        return make(self, *asked)

    def refresh(self) -> None:
        """Release what other processes have replaced, while nobody asks."""

    def check(self) -> None:
        """Check, without waiting, that what it needs to answer is whole."""

    def close(self) -> None:
        """Let go of what it has open."""

    @property
    def first(self) -> FittedModel:
        """Any of the models: they share items, users and statistics."""
        return next(iter(self.models.values()))

    @property
    def interactions(self) -> Interactions:
        """The profiles."""
        return self.first.statistics.interactions

    @property
    def genres(self) -> pl.Series | None:
        """The genres of each item by code, if they are known."""
        return self.interactions.genres

    @property
    def titles(self) -> pl.Series | None:
        """The title of each item by code, if there are any."""
        return self.interactions.titles


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
    return served_of(card, {name: each.model_ for name, each in recommenders.items()})


def served_of(card: Mapping[str, Any], models: Mapping[str, FittedModel]) -> ServedModel:
    """Return what answers need of fitted models, and the card of their folder."""
    for name, model in models.items():
        _warn_if_stale(name, model)
    search = search_of(next(iter(models.values())))
    return ServedModel(model_id(card), models, _public_card(card, models), search)


def search_of(model: FittedModel) -> TitleSearch:
    """Return the search among the items of a model."""
    return TitleSearch(model.items.ids, model.titles, model.statistics.popularity)


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


def _public_card(card: Mapping[str, Any], models: Mapping[str, FittedModel]) -> dict[str, Any]:
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
                "kind": model.kind,
                "headline": model.calibration.headline(DEFAULT_CONFIDENCE),
                "params": card["recommenders"][name]["params"],
                "gives_confidence": "confidence" in model.features,
                "gives_probabilities": "probability" in model.features,
                "promises_precision": "precision" in model.features,
                "lists": list(model.lists),
                "together": list(model.offers_together()),
                "group_sizes": list((model.groups and model.groups.sizes) or ()),
                "guarantee": _sample_guarantee(model),
            }
            for name, model in models.items()
        ],
    }


def _sample_guarantee(model: FittedModel) -> dict[str, Any]:
    """Return what is guaranteed to a user who consumed the most popular items.

    Asking, rather than a table of sentences here, lets every kind of recommender speak for itself;
    it also compiles or loads each kernel before the first request comes.
    """
    by_popularity = np.argsort(model.statistics.popularity)
    interactions = model.statistics.interactions
    usual = int(np.median(np.diff(interactions.offsets))) if interactions.n_users else _SAMPLE_SIZE
    most_popular = by_popularity[: max(1, min(_SAMPLE_SIZE, usual, len(by_popularity) // 2))]
    history = model.items.ids.gather(most_popular).to_list()
    asked: dict[str, Any] = (
        {"precision": _SAMPLE_PRECISION} if "precision" in model.features else {}
    )
    try:
        found = _sampled(model, history, asked)
    except InputError as error:  # a precision that cannot be reached here: that is said instead
        found = Guarantee(kind="precision", **asked).broken(str(error).rstrip("."))
    return {"history_length": len(history), **found.to_dict()}


def _sampled(model: FittedModel, history: list[Any], asked: dict[str, Any]) -> Guarantee:
    picks = model.recommend(history=history, **asked)
    picks.to_frame()  # as scores and p-values are found only when they are looked at
    if "confidence" in model.features:
        model.p_values(history=history)
    for user in model.statistics.interactions.users.suggested(1):
        model.recommend(user, **asked).to_frame()
        model.recommend_many([user], k=1, **asked)  # the batch has its own
    return picks.guarantee
