"""The answers, as JSON bytes: made in a worker thread, from one model from beginning to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.recommenders import RecommendOptions
from surerec.serving import _asked as ask
from surerec.serving._problems import Problem
from surerec.serving._written import complement, finite, numbers, write, write_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Assessment
    from surerec.measures import Query
    from surerec.recommenders import FittedModel, RecommendationSet
    from surerec.serving._models import ServedModel


_ALMOST_NEVER = 1e-9  # a significance at which every item is in the set
_HISTORY_SHOWN = 200


def recommendations(model: ServedModel, asked: ask.AskRecommendations) -> bytes:
    """Give a person's recommendation set, with what it promises."""
    name, recommender, query = _person(model, asked)
    # Beyond so many rows the list is cut, and its guarantee says so.
    k = ask.MAX_ROWS if asked.k is None else asked.k
    level = level_of(asked) if asked.k else set_level(recommender, asked)
    choosing, unknown = _choosing(recommender, asked)
    picks = recommender.recommend(query=query, **level, **choosing, k=k, exclude=asked.exclude)
    return write_set({**about_set(name, picks), **unknown}, picks)


def guarantee(model: ServedModel, asked: ask.AskPromise) -> bytes:
    """Give what a set promises, without its items."""
    name, recommender, query = _person(model, asked)
    choosing, unknown = _choosing(recommender, asked)
    picks = recommender.recommend(query=query, **level_of(asked), **choosing)
    return write({**about_set(name, picks), **unknown})


def entry_confidences(model: ServedModel, asked: ask.AskEntryConfidences) -> bytes:
    """Give one answer for every confidence: the best items, and the set's size as a curve."""
    name, recommender, query = _person(model, asked)
    options = RecommendOptions()
    if asked.among is not None:
        options = recommender.listed(asked.among)
    found = recommender.assess(query, options=options)
    features = recommender.features
    by_confidence = "confidence" in features and "precision" not in features
    order = found.ordered(_ALMOST_NEVER if by_confidence else None)
    entries = found.entry_confidences
    first = order[: asked.limit]
    codes = found.candidates[first]
    ids = recommender.items.ids
    chances = np.full(len(first), np.nan)
    if found.chances is not None:
        chances = found.chances(first).probability
    columns = {
        Columns.Score: numbers(found.shown(first)),
        **p_values_of(found, first),
        Columns.EntryConfidence: numbers(entries[first]),
        Columns.Probability: numbers(chances),
    }
    latest = query.history[-_HISTORY_SHOWN:]
    answer = {
        "recommender": name,
        "gives_confidence": by_confidence,
        "promises_precision": "precision" in features,
        "about_probability": found.about_chances,
        "n_candidates": len(found.candidates),
        "highest_confidence": found.highest_confidence,
        "curve": curve_of(entries[order]),
        "items": {
            Columns.Item: ids.gather(codes).to_list(),
            Columns.Title: titles_of(model, codes),
            Columns.Genres: genres_of(model, codes),
            **columns,
        },
        "history": {
            Columns.Item: ids.gather(latest).to_list(),
            Columns.Title: titles_of(model, latest),
        },
        "history_length": len(query.history),
        "ignored": list(query.ignored),
    }
    return write(answer)


def p_values(model: ServedModel, asked: ask.AskPValues) -> bytes:
    """Give the p-value and the entry confidence of each item asked for."""
    name, recommender = recommender_of(model, asked.recommender)
    if "confidence" not in recommender.features:
        raise Problem(409, f"The recommender {name} ranks items and has no p-values.")
    query = _query(recommender, asked)
    found = recommender.items.select(asked.items, asked.unknown)
    codes = found.codes
    frame = recommender.p_values(query=query, codes=codes)
    titles = pl.Series(Columns.Title, titles_of(model, codes), dtype=pl.String)
    answer = {
        "recommender": name,
        "ignored": list(query.ignored),
        "unknown_items": list(found.skipped),
    }
    return write(answer, items=frame.with_columns(titles))


def explanation(model: ServedModel, asked: ask.AskExplanation) -> bytes:
    """Give an item's score and p-value, and the earlier items that speak for it."""
    name, recommender, query = _person(model, asked)
    why = recommender.explain(query=query, item=asked.item)
    answer = {
        "recommender": name,
        "item_id": why.item,
        "title": why.title,
        "score": finite(why.score),
        "p_value": finite(why.p_value),
        "entry_confidence": finite(why.entry_confidence),
        "n_calibration": why.n_calibration,
        "sentences": why.sentences(asked.limit),
        "ignored": list(query.ignored),
    }
    return write(answer, because=why.to_frame().head(asked.limit))


def batch(model: ServedModel, asked: ask.AskBatch) -> bytes:
    """Give the best items of each known user, and name the users that are not known."""
    name, recommender = recommender_of(model, asked.recommender)
    users = list(dict.fromkeys(asked.users))
    codes = recommender.profiles().users.codes(users)
    known = codes[codes >= 0]
    if not len(known):
        raise Problem(404, "None of these users is known.")
    choosing, unknown = _choosing(recommender, asked)
    options = recommender.options(**level_of(asked), **choosing, k=asked.k)
    confidence = complement(options.significance)
    frame = recommender.rows_of(known, options)
    answer = {
        "recommender": name,
        "confidence": confidence,
        "significance": complement(confidence),
        "guarantee": recommender.guarantee_to_all(options).to_dict(),
        "unknown_users": [user for user, code in zip(users, codes, strict=True) if code < 0],
        **unknown,
    }
    return write(answer, items=frame)


def search(model: ServedModel, query: str, limit: int) -> bytes:
    """Give the items whose title has the words of a query, the likeliest first."""
    codes = model.search.find(query, limit)
    statistics = model.first.statistics
    frame = pl.DataFrame(
        {
            Columns.Item: model.first.items.ids.gather(codes),
            Columns.Title: pl.Series(titles_of(model, codes), dtype=pl.String),
            Columns.Genres: pl.Series(genres_of(model, codes), dtype=pl.String),
            "support": np.asarray(statistics.support)[codes].astype(np.int64),
        }
    )
    return write({}, items=frame)


def p_values_of(found: Assessment, places: NDArray[np.intp]) -> dict[str, list[float | None]]:
    """Give the p-values of some candidates as a column; none where there are none."""
    p_values = found.p_values
    return {} if p_values is None else {Columns.PValue: numbers(p_values[places])}


def curve_of(entries: NDArray[np.float64]) -> dict[str, list[Any]]:
    """Give how many items are in the set above each entry confidence."""
    levels, counts = np.unique(entries[~np.isnan(entries)], return_counts=True)
    return {"entry_confidence": levels.tolist(), "size": np.cumsum(counts).tolist()}


def recommender_of(model: ServedModel, wanted: str | None) -> tuple[str, FittedModel]:
    """Give the recommender that is asked, by its name too."""
    name = next(iter(model.models)) if wanted is None else wanted
    if name not in model.models:
        known = ", ".join(model.models)
        raise Problem(404, f"There is no such recommender; this model has {known}.")
    return name, model.models[name]


def _person(model: ServedModel, asked: ask._AboutPerson) -> tuple[str, FittedModel, Query]:
    """Give which recommender is asked, by its name too, and about whom."""
    name, recommender = recommender_of(model, asked.recommender)
    return name, recommender, _query(recommender, asked)


def _query(recommender: FittedModel, asked: ask._AboutPerson) -> Query:
    return recommender.query(asked.user, **_history(asked), group=asked.group)


def _history(asked: ask._AboutPerson) -> dict[str, Any]:
    return {"history": asked.history, "times": asked.times, "at": asked.at}


def level_of(asked: ask._AtLevel) -> dict[str, Any]:
    """Return the level that is asked for, as `recommend` takes it."""
    return {"confidence": asked.confidence, "significance": asked.significance}


def set_level(recommender: FittedModel, asked: ask._AtLevel) -> dict[str, Any]:
    """Return the level of a whole set: by default the default confidence, beside any k."""
    level = level_of(asked)
    given = any(each is not None for each in level.values())
    if given or "confidence" not in recommender.model_.features:
        return level
    return {"confidence": DEFAULT_CONFIDENCE}


def _choosing(
    recommender: FittedModel, asked: ask._Choosing
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the options that limit a set, and the field that names unknown items."""
    names = ("precision", "min_probability", "item_list")
    given = {name: getattr(asked, name) for name in names}
    chosen = {name: value for name, value in given.items() if value is not None}
    if asked.items is None:
        return chosen, {"unknown_items": []}
    found = recommender.items.select(asked.items, asked.unknown)
    known = recommender.items.ids.gather(found.codes).to_list()
    return {**chosen, "items": known}, {"unknown_items": list(found.skipped)}


def about_set(name: str, picks: RecommendationSet) -> dict[str, Any]:
    """Give what is said of a set beside its items."""
    return {
        "recommender": name,
        "confidence": picks.confidence,
        "significance": None if picks.confidence is None else complement(picks.confidence),
        "precision": picks.precision,
        "guarantee": picks.guarantee.to_dict(),
        "about_probability": picks.about_probability,
        "full_size": picks.full_size,
        "n_candidates": picks.n_candidates,
        "highest_confidence": picks.highest_confidence,
        "everything_qualifies": picks.everything_qualifies,
        "ignored": list(picks.ignored),
        "unknown_items": [],
    }


def titles_of(model: ServedModel, codes: NDArray[np.int64]) -> list[str | None]:
    """Give the titles of items, null where they have none."""
    return _texts(model.titles, codes)


def genres_of(model: ServedModel, codes: NDArray[np.int64]) -> list[str | None]:
    """Give the genres of items, null where none are known."""
    return _texts(model.genres, codes)


def _texts(texts: pl.Series | None, codes: NDArray[np.int64]) -> list[str | None]:
    return [None] * len(codes) if texts is None else texts.gather(codes).to_list()
