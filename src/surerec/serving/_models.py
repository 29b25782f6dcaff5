"""The model that is served, live or not: loaded whole, warmed up, swapped in one step."""

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
from surerec.serving._telemetry import BY_USER_DAY, HEAVIEST, JUDGED, OBSERVED, USER_DAYS
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.recommenders import FittedModel


_SAMPLE_SIZE = 40
_SAMPLE_PRECISION = 0.2


class TitleSearch:
    """Titles ready to be searched.

    Parameters
    ----------
    ids : polars.Series
        Item ids, by code.
    titles : polars.Series or None
        The title of each, null where there is none: such an item is found by its id.
    popularity : array of int
        The place of each in the order of popularity, 0 for the most popular.

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
        # A blank before each, so that " word" finds where a word begins.
        texts = pl.Series([f" {_plain(text)}" for text in shown.to_list()], dtype=pl.String)
        items = {"code": np.arange(len(texts)), "text": texts, "popularity": popularity}
        self._items = pl.DataFrame(items).sort("popularity")

    def find(self, query: str, limit: int) -> NDArray[np.int64]:
        """Return the codes of items whose title has all words; the likeliest, then popular, first.

        A title that begins with the query comes before one where words begin with the query's,
        and that before one that has them anywhere.
        """
        words, found, text = _plain(query).split(), self._items, pl.col("text").str
        for word in sorted(words, key=len, reverse=True):  # the longest is the rarest
            found = found.filter(text.contains(word, literal=True))
        if words:
            at_words = [text.contains(f" {word}", literal=True) for word in words]
            likely = [~text.starts_with(" " + " ".join(words)), ~pl.all_horizontal(at_words)]
            found = found.sort(likely, maintain_order=True)
        return found["code"].head(limit).to_numpy()


def _plain(text: str) -> str:
    """Return a text without case and accents."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in apart if not unicodedata.combining(c))


@dataclass(frozen=True)
class ServedModel:
    """All that answers need; it never changes, so a request that holds one is never torn."""

    model_id: str
    models: Mapping[str, FittedModel]
    """What answers, by name; all of them share items, users and statistics."""
    card: Mapping[str, Any]
    """What clients may know of the model: no path, no version, no user's id."""
    search: TitleSearch
    live: Live | None = None
    """What ingests events; each answer is from its fitted model of the moment."""
    searches: dict[int, TitleSearch] = field(default_factory=dict)
    """Of a live model, by the number of the base."""

    @property
    def first(self) -> FittedModel:
        """Any of the models: they share items, users and statistics."""
        return next(iter(self.models.values()))

    def answer(self, make: Callable[..., Any], *request: Any) -> Any:
        """Return an answer made of one state of the model; no event comes in between."""
        if self.live is None:
            return make(self, *request)
        with self.live.asking() as model:
            return make(self._now(model, self.live.base_), *request)

    def _now(self, model: FittedModel, base: int) -> ServedModel:
        """Return what answers need of the fitted model of this moment."""
        known = self.searches
        if base not in known:  # it was refitted, and codes are other ones
            known.clear()
            gc.collect()  # what compiling left behind may hold arrays of the old base
            known[base] = _search_of(model)
        return replace(self, models={model.name: model}, search=known[base])

    def refresh(self) -> None:
        """Take over a refit of another process, and release the model before it."""
        with suppress(StoreError):  # the next request raises it
            self.answer(lambda _: None)

    def check(self) -> None:
        """Check, without waiting, that the store of a live model can keep events."""
        if self.live is not None:
            self.live.check_store()

    def close(self) -> None:
        """Close the store of a live model."""
        if self.live is not None:
            self.live.close()


def report(live: Live) -> None:
    """Bring the metrics of the observed coverage up to date."""
    adaptive = live.adaptive_
    JUDGED.set(adaptive.n)
    USER_DAYS.set(adaptive.user_days)
    HEAVIEST.set(live.heaviest_share_ or 0)
    missed, by_user_day = adaptive.observed(), adaptive.observed_by_user_day()
    for place, epsilon in enumerate(adaptive.epsilons if adaptive.n else ()):
        OBSERVED.labels(f"{1 - epsilon:g}").set(1 - missed[place])
        BY_USER_DAY.labels(f"{1 - epsilon:g}").set(1 - by_user_day[place])


def load(folder: Path) -> ServedModel:
    """Return the model of a folder, memory-mapped, with every kernel it needs ready to run.

    Every byte is compared with its checksum, by each worker again: the disk may have failed since
    the supervisor looked, and a worker may start months later.

    Parameters
    ----------
    folder : path
        What ``save`` wrote, or the folder of a live model.
    """
    if LiveFolder.is_one(folder):
        return _load_live(folder)
    while True:
        card = read_card(folder)
        recommenders = load_all(folder)
        if read_card(folder) == card:  # else a save came in between
            break
    if not recommenders:
        raise InputError(f"The model in {folder} has no recommender; `surerec fit` makes one.")
    return _served(card, {name: each.model_ for name, each in recommenders.items()})


def _load_live(folder: Path) -> ServedModel:
    place = LiveFolder.open(folder)
    live = Live(folder, hold=False)
    model_id = hashlib.sha256(str(place.path.resolve()).encode()).hexdigest()[:12]
    with live.asking() as model:
        made = _served(read_card(place.model(live.base_)), {model.name: model})
    card = {**made.card, "model": model_id, "live": True}
    # Without the model: it would keep the files of this base mapped after a refit.
    report(live)
    return ServedModel(model_id, {}, card, made.search, live, {live.base_: made.search})


def model_id(card: Mapping[str, Any]) -> str:
    """Return the id of what a folder holds, by its content: statistics and recommenders.

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
    """Return what answers need of fitted models, and the card of their folder."""
    now = datetime.now(UTC)
    for name, model in models.items():
        until = model.valid_until
        if until is not None and now > until:
            warnings.warn(
                f"{name} was calibrated for the time up to {until:%Y-%m-%d}, and that was "
                f"{(now - until).days:,} days ago: its guarantee may not hold any more. "
                "Recalibrate it with newer data (surerec recalibrate).",
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
    """Return what is guaranteed to a user who consumed the most popular items.

    Asking, rather than a table of sentences here, lets every kind of recommender speak for itself;
    it also compiles or loads each kernel before the first request comes.
    """
    by_popularity = np.argsort(model.statistics.popularity)
    interactions = model.statistics.interactions
    usual = int(np.median(np.diff(interactions.offsets))) if interactions.n_users else _SAMPLE_SIZE
    most_popular = by_popularity[: max(1, min(_SAMPLE_SIZE, usual, len(by_popularity) // 2))]
    history = model.items.ids.gather(most_popular).to_list()
    precision: Any = {"precision": _SAMPLE_PRECISION} if "precision" in model.features else {}
    try:
        picks = model.recommend(history=history, **precision)
        picks.to_frame()  # as scores and p-values are found only when they are looked at
        if "confidence" in model.features:
            model.p_values(history=history)
        for user in interactions.users.suggested(1):
            model.recommend(user, **precision).to_frame()
            model.recommend_many([user], k=1, **precision)  # the batch has its own
        found = picks.guarantee
    except InputError as error:  # a precision that cannot be reached here: that is said instead
        found = Guarantee(kind="precision", **precision).broken(str(error).rstrip("."))
    return {"history_length": len(history), **found.to_dict()}
