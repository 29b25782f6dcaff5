"""The served model: loaded and warmed up before it replaces the previous one."""

from __future__ import annotations

import gc
import hashlib
import json
import unicodedata
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec.calibration import Guarantee
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.errors import InputError, StaleModelWarning, StoreError
from surerec.live import Live, LiveFolder
from surerec.recommenders import load_all
from surerec.serving._telemetry import BY_USER_DAY, EVALUATED, HEAVIEST, OBSERVED, USER_DAYS
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.recommenders import FittedModel


_SAMPLE_SIZE = 40
_SAMPLE_PRECISION = 0.2


class TitleSearch:
    """An index of titles for search.

    Parameters
    ----------
    ids : polars.Series
        Item ids, by code.
    titles : polars.Series or None
        Title of each item; items with a null title are found by their id.
    popularity : array of int
        Popularity rank of each item, 0 for the most popular.

    Examples
    --------
    >>> titles = pl.Series(["Alien", "Amélie", "Star Wars"])
    >>> search = TitleSearch(pl.Series([7, 3, 5]), titles, popularity=np.array([2, 1, 0]))
    >>> search.find("ame", 5), search.find("wars st", 5), search.find("", 2), search.find("a", 5)
    (array([1]), array([2]), array([2, 1]), array([1, 0, 2]))
    """

    def __init__(
        self, ids: pl.Series, titles: pl.Series | None, popularity: NDArray[np.int64]
    ) -> None:
        shown = ids.cast(pl.String)
        if titles is not None:
            shown = titles.zip_with(titles.is_not_null(), shown)
        # A leading blank, so that " word" matches at the start of words.
        texts = pl.Series([f" {_plain(text)}" for text in shown.to_list()], dtype=pl.String)
        items = {"code": np.arange(len(texts)), "text": texts, "popularity": popularity}
        self._items = pl.DataFrame(items).sort("popularity")

    def find(self, query: str, limit: int) -> NDArray[np.int64]:
        """Return the codes of items whose title contains all words, best match first.

        Titles that start with the query come first, then titles with words that start with the
        query's words, then all others; within each class, popular items come first.
        """
        words, found, text = _plain(query).split(), self._items, pl.col("text").str
        for word in sorted(words, key=len, reverse=True):  # long words are rare
            found = found.filter(text.contains(word, literal=True))
        if words:
            at_words = [text.contains(f" {word}", literal=True) for word in words]
            likely = [~text.starts_with(" " + " ".join(words)), ~pl.all_horizontal(at_words)]
            found = found.sort(likely, maintain_order=True)
        return found["code"].head(limit).to_numpy()


def _plain(text: str) -> str:
    """Return a text in lower case without accents."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in apart if not unicodedata.combining(c))


@dataclass(frozen=True)
class ServedModel:
    """An immutable served model, so that a request sees one model until its end."""

    model_id: str
    models: Mapping[str, FittedModel]
    """Fitted models by name; they share items, users and statistics."""
    card: Mapping[str, Any]
    """Public model card, without paths, versions or user ids."""
    search: TitleSearch
    live: Live | None = None
    """The live model, which provides the current fitted model for each request."""
    searches: dict[int, TitleSearch] = field(default_factory=dict)
    """Title searches of a live model, by the number of the fitted model."""

    @property
    def first(self) -> FittedModel:
        """The first model, for its items, users and statistics."""
        return next(iter(self.models.values()))

    def answer(self, make: Callable[..., Any], *request: Any) -> Any:
        """Return an answer from one state of the model; no event is ingested meanwhile."""
        if self.live is None:
            return make(self, *request)
        with self.live.snapshot() as model:
            return make(self._now(model, self.live.base_), *request)

    def _now(self, model: FittedModel, base: int) -> ServedModel:
        """Return the served model for the current state of a live model."""
        known = self.searches
        if base not in known:  # refitted, with new codes
            known.clear()
            gc.collect()  # compiled code may hold arrays of the old model
            known[base] = _search_of(model)
        return replace(self, models={model.name: model}, search=known[base])

    def refresh(self) -> None:
        """Load a refit by another process, and release the previous model."""
        with suppress(StoreError):  # the next request reports it
            self.answer(lambda _: None)

    def check(self) -> None:
        """Check, without blocking, that the store of a live model works."""
        if self.live is not None:
            self.live.check_store()

    def close(self) -> None:
        """Close the store of a live model."""
        if self.live is not None:
            self.live.close()


def report(live: Live) -> None:
    """Update the metrics of the observed coverage."""
    adaptive = live.adaptive_
    EVALUATED.set(adaptive.n)
    USER_DAYS.set(adaptive.user_days)
    HEAVIEST.set(live.heaviest_share_ or 0)
    missed, by_user_day = adaptive.observed(), adaptive.observed_by_user_day()
    for place, epsilon in enumerate(adaptive.epsilons if adaptive.n else ()):
        OBSERVED.labels(f"{1 - epsilon:g}").set(1 - missed[place])
        BY_USER_DAY.labels(f"{1 - epsilon:g}").set(1 - by_user_day[place])


def load(folder: Path, scorer: str | None = None) -> ServedModel:
    """Load the model of a folder, memory-mapped and with compiled kernels.

    Each worker verifies all checksums, because a worker may start long after the supervisor.

    Parameters
    ----------
    folder : path
        Folder of a saved model or of a live model.
    scorer : str, optional
        Where to import the scorer of a saved model from, as in :func:`surerec.load`.
    """
    if LiveFolder.is_live(folder):
        if scorer is not None:
            raise InputError(f"{folder} is a live model, which has its scorer. Omit --scorer.")
        return _load_live(folder)
    while True:
        card = read_card(folder)
        recommenders = load_all(folder, scorer=scorer)
        if read_card(folder) == card:  # otherwise the folder was saved meanwhile
            break
    if not recommenders:
        raise InputError(f"The model in {folder} has no recommender. Fit one with `surerec fit`.")
    return _served(card, {name: each.model_ for name, each in recommenders.items()})


def _load_live(folder: Path) -> ServedModel:
    place = LiveFolder.open(folder)
    live = Live(folder, hold=False)
    model_id = hashlib.sha256(str(place.path.resolve()).encode()).hexdigest()[:12]
    with live.snapshot() as model:
        made = _served(read_card(place.model(live.base_)), {model.name: model})
    card = {**made.card, "model": model_id, "live": True}
    # Without the fitted model, which would keep its files mapped after a refit.
    report(live)
    return ServedModel(model_id, {}, card, made.search, live, {live.base_: made.search})


def model_id(card: Mapping[str, Any]) -> str:
    """Return the id of a model, a hash of its statistics and recommenders.

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


def _served(card: Mapping[str, Any], models: Mapping[str, FittedModel]) -> ServedModel:
    """Build the served model from fitted models and the card of their folder."""
    now = datetime.now(UTC)
    for name, model in models.items():
        until = model.valid_until
        if until is not None and now > until:
            warnings.warn(
                f"The guarantee of {name} ended on {until:%Y-%m-%d}, {(now - until).days:,} days "
                "ago, and may not hold any more. Recalibrate it on newer data with `surerec "
                "recalibrate`.",
                StaleModelWarning,
                stacklevel=2,
            )
    public = {
        "model": model_id(card),
        **{name: card[name] for name in ("format", "format_version", "created", "updated")},
        "data": (card["data"] or {}).get("name"),
        "counts": card["counts"],
        "settings": card["settings"],
        "recommenders": [
            {"name": name, "params": card["recommenders"][name]["params"], **_described(model)}
            for name, model in models.items()
        ],
    }
    search = _search_of(next(iter(models.values())))
    return ServedModel(public["model"], models, public, search)


def _search_of(model: FittedModel) -> TitleSearch:
    return TitleSearch(model.items.ids, model.titles, model.statistics.popularity)


def _described(model: FittedModel) -> dict[str, Any]:
    return {
        "kind": model.kind,
        "headline": model.calibration.headline(DEFAULT_CONFIDENCE),
        "gives_confidence": "confidence" in model.features,
        "gives_probabilities": "probability" in model.features,
        "guarantees_precision": "precision" in model.features,
        "item_lists": list(model.lists),
        "group_guarantee": list(model.offers_group_guarantee()),
        "group_sizes": list((model.groups and model.groups.sizes) or ()),
        "guarantee": _sample_guarantee(model),
    }


def _sample_guarantee(model: FittedModel) -> dict[str, Any]:
    """Return the guarantee for a user who consumed the most popular items.

    The requests also compile or load all kernels before the first client request.
    """
    by_popularity = np.argsort(model.statistics.popularity)
    interactions = model.statistics.interactions
    usual = int(np.median(np.diff(interactions.offsets))) if interactions.n_users else _SAMPLE_SIZE
    most_popular = by_popularity[: max(1, min(_SAMPLE_SIZE, usual, len(by_popularity) // 2))]
    history = model.items.ids.gather(most_popular).to_list()
    precision: Any = {"precision": _SAMPLE_PRECISION} if "precision" in model.features else {}
    try:
        picks = model.recommend(history=history, **precision)
        picks.to_frame()  # computes scores and p-values, which are lazy
        if "confidence" in model.features:
            model.p_values(history=history)
        for user in interactions.users.suggested(1):
            model.recommend(user, **precision).to_frame()
            model.recommend_many([user], k=1, **precision)  # batches have their own kernels
        found = picks.guarantee
    except InputError as error:  # a precision that cannot be reached
        found = Guarantee(kind="precision", **precision).broken(str(error).rstrip("."))
    return {"history_length": len(history), **found.to_dict()}
