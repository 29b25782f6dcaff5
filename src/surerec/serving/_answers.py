"""The answers, as JSON bytes: made in a worker thread, from one model from beginning to end."""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec.serving import _schemas as ask
from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from surerec.recommenders import RecommendationSet, Recommender
    from surerec.serving._models import ServedModel

__all__ = [
    "batch",
    "entry_confidences",
    "explanation",
    "guarantee",
    "p_values",
    "recommendations",
    "search",
]

_CONFIDENCE = 0.9
_ALMOST_NEVER = 1e-9  # a significance at which every item is in the set
_HISTORY_SHOWN = 200
_FEW = 100  # rows: as many are written sooner one by one than polars begins, on its own threads


def recommendations(model: ServedModel, asked: ask.AskRecommendations) -> bytes:
    """Give a set."""
    name, recommender = _recommender(model, asked.recommender)
    person = _person(model, asked)
    level = _level(recommender, asked)
    # Beyond so many rows the list is cut, and its guarantee says so.
    k = ask.MAX_ROWS if asked.k is None else asked.k
    picks = recommender.recommend(**person, **level, k=k, exclude=asked.exclude)
    if len(picks) > _FEW:
        return _json(_about(name, picks), items=_titled(picks.to_frame()))
    return _json({**_about(name, picks), "items": _few_rows(picks)})


def guarantee(model: ServedModel, asked: ask.AskGuarantee) -> bytes:
    """Say what a set promises, without its items."""
    name, recommender = _recommender(model, asked.recommender)
    picks = recommender.recommend(**_person(model, asked), **_level(recommender, asked))
    return _json(_about(name, picks))


def entry_confidences(model: ServedModel, asked: ask.AskEntryConfidences) -> bytes:
    """Give one answer for every confidence: the best items, and the set's size as a curve."""
    name, recommender = _recommender(model, asked.recommender)
    person = _person(model, asked)
    level: dict[str, Any] = {"significance": _ALMOST_NEVER} if recommender.gives_confidence else {}
    picks = recommender.recommend(**person, **level)
    entries = picks.columns[Columns.EntryConfidence]
    levels, counts = np.unique(entries[~np.isnan(entries)], return_counts=True)
    first = slice(0, asked.limit)
    codes = picks.columns[Columns.Item][first]
    ids = recommender.items_.ids
    columns = {
        name: _numbers(picks.columns[name][first])
        for name in (Columns.Score, Columns.PValue, Columns.EntryConfidence)
    }
    latest = picks.history[-_HISTORY_SHOWN:]
    answer = {
        "recommender": name,
        "gives_confidence": recommender.gives_confidence,
        "n_candidates": picks.n_candidates,
        "highest_confidence": picks.highest_confidence,
        "curve": {"entry_confidence": levels.tolist(), "size": np.cumsum(counts).tolist()},
        "items": {
            Columns.Item: ids.gather(codes).to_list(),
            Columns.Title: _titles(model, codes),
            **columns,
        },
        "history": {
            Columns.Item: ids.gather(latest).to_list(),
            Columns.Title: _titles(model, latest),
        },
        "history_length": len(picks.history),
        "ignored": list(picks.ignored),
    }
    return _json(answer)


def p_values(model: ServedModel, asked: ask.AskPValues) -> bytes:
    """Give the p-values of some items."""
    name, recommender = _recommender(model, asked.recommender)
    if not recommender.gives_confidence:
        raise Problem(409, f"The recommender {name} ranks items and has no p-values.")
    person = _person(model, asked)
    codes = _known_items(recommender, asked.items)
    _refuse_known(model, person, codes, asked.items)
    frame = recommender.p_values(**person, items=asked.items)
    titles = pl.Series(Columns.Title, _titles(model, codes), dtype=pl.String)
    answer = {"recommender": name, "ignored": _ignored(recommender, asked)}
    return _json(answer, items=frame.with_columns(titles))


def explanation(model: ServedModel, asked: ask.AskExplanation) -> bytes:
    """Say why an item is where it is."""
    name, recommender = _recommender(model, asked.recommender)
    person = _person(model, asked)
    codes = _known_items(recommender, [asked.item])
    _refuse_known(model, person, codes, [asked.item])
    why = recommender.explain(**person, item=asked.item)
    answer = {
        "recommender": name,
        "item_id": why.item,
        "title": why.title,
        "score": _finite(why.score),
        "p_value": _finite(why.p_value),
        "entry_confidence": _finite(why.entry_confidence),
        "n_calibration": why.n_calibration,
        "sentences": why.sentences(asked.limit),
        "ignored": _ignored(recommender, asked),
    }
    return _json(answer, because=why.to_frame().head(asked.limit))


def batch(model: ServedModel, asked: ask.AskBatch) -> bytes:
    """Give the best items of many users."""
    name, recommender = _recommender(model, asked.recommender)
    interactions = model.interactions
    if interactions is None:
        raise Problem(409, "This model holds no users; post a history.")
    users = list(dict.fromkeys(asked.users))
    codes = interactions.users.codes(users)
    known = [user for user, code in zip(users, codes, strict=True) if code >= 0]
    if not known:
        raise Problem(404, "None of these users is known.")
    level = _level(recommender, asked)
    frame = recommender.recommend_many(known, **level, k=asked.k)
    confidence = level.get("confidence")
    significance = level.get("significance")
    answer = {
        "recommender": name,
        "confidence": _complement(significance) if confidence is None else confidence,
        "significance": _complement(confidence) if significance is None else significance,
        "guarantee": (
            f"None for these lists, of which each is cut to its {asked.k} best; "
            "a user's whole set says what it promises."
        ),
        "unknown_users": [user for user, code in zip(users, codes, strict=True) if code < 0],
    }
    return _json(answer, items=frame)


def search(model: ServedModel, query: str, limit: int) -> bytes:
    """Find items by title."""
    codes = model.search.find(query, limit)
    statistics = model.first.statistics_
    frame = pl.DataFrame(
        {
            Columns.Item: model.first.items_.ids.gather(codes),
            Columns.Title: pl.Series(_titles(model, codes), dtype=pl.String),
            "support": np.asarray(statistics.support)[codes].astype(np.int64),
        }
    )
    return _json({}, items=frame)


def _recommender(model: ServedModel, wish: str | None) -> tuple[str, Recommender]:
    name = next(iter(model.recommenders)) if wish is None else wish
    if name not in model.recommenders:
        known = ", ".join(model.recommenders)
        raise Problem(404, f"There is no such recommender; this model has {known}.")
    return name, model.recommenders[name]


def _person(model: ServedModel, asked: ask._AboutPerson) -> dict[str, Any]:
    """Say for whom, after seeing that they are known.

    The library's sentences name near ids, which are other people's: over HTTP nobody gets those.
    """
    if asked.user is not None:
        if model.interactions is None:
            raise Problem(409, "This model holds no users; post a history.")
        if asked.user not in model.interactions.users:
            raise Problem(404, "There is no such user.")
    if asked.history is not None and (model.first.items_.codes(asked.history) < 0).all():
        raise Problem(404, "None of the items of the history is known.")
    return {"user": asked.user, "history": asked.history}


def _level(recommender: Recommender, asked: ask._AtLevel) -> dict[str, Any]:
    if not recommender.gives_confidence:
        if asked.confidence is not None or asked.significance is not None:
            raise Problem(
                409, "This recommender ranks items and knows no confidence; leave it out."
            )
        return {}
    if asked.significance is not None:
        return {"significance": asked.significance}
    return {"confidence": _CONFIDENCE if asked.confidence is None else asked.confidence}


def _known_items(recommender: Recommender, items: Sequence[Any]) -> NDArray[np.int64]:
    codes = recommender.items_.codes(items)
    if (codes < 0).any():
        item = items[int(np.argmax(codes < 0))]
        raise Problem(404, f"There is no item {str(item)[:80]!r}.")
    return codes


def _refuse_known(
    model: ServedModel, person: dict[str, Any], codes: NDArray[np.int64], items: Sequence[Any]
) -> None:
    """Refuse an item that the person has taken: nothing is left to say of it."""
    if person["history"] is not None:
        history = model.first.items_.codes(person["history"])
    else:
        interactions = model.interactions
        assert interactions is not None  # noqa: S101  # the user was found in it
        user = interactions.users.code(person["user"])
        where = slice(interactions.offsets[user], interactions.offsets[user + 1])
        history = interactions.items_taken[where].astype(np.int64)
    taken = np.isin(codes, history)
    if taken.any():
        item = items[int(np.argmax(taken))]
        raise Problem(409, f"Item {str(item)[:80]!r} is in the known profile.")


def _ignored(recommender: Recommender, asked: ask._AboutPerson) -> list[Any]:
    if asked.history is None:
        return []
    codes = recommender.items_.codes(asked.history)
    return list(dict.fromkeys(i for i, c in zip(asked.history, codes, strict=True) if c < 0))


def _about(name: str, picks: RecommendationSet) -> dict[str, Any]:
    return {
        "recommender": name,
        "confidence": picks.confidence,
        "significance": None if picks.confidence is None else _complement(picks.confidence),
        "guarantee": picks.guarantee,
        "full_size": picks.full_size,
        "n_candidates": picks.n_candidates,
        "highest_confidence": picks.highest_confidence,
        "everything_qualifies": picks.everything_qualifies,
        "ignored": list(picks.ignored),
    }


def _complement(level: float | None) -> float | None:
    """Give 1 − level as a person writes it: 0.1, where floats say 0.09999999999999998."""
    return None if level is None else round(1 - level, 12)


def _titles(model: ServedModel, codes: NDArray[np.int64]) -> list[str | None]:
    if model.titles is None:
        return [None] * len(codes)
    return model.titles.gather(codes).to_list()


def _few_rows(picks: RecommendationSet) -> list[dict[str, Any]]:
    """Give the rows of ``to_frame``."""
    numbers = {name: values.tolist() for name, values in picks.columns.items()}
    codes = numbers[Columns.Item]
    return [
        {
            Columns.Item: picks.item_ids[code],
            Columns.Rank: numbers[Columns.Rank][place],
            Columns.Score: _finite(numbers[Columns.Score][place]),
            Columns.PValue: _finite(numbers[Columns.PValue][place]),
            Columns.EntryConfidence: _finite(numbers[Columns.EntryConfidence][place]),
            Columns.Title: None if picks.titles is None else picks.titles[code],
        }
        for place, code in enumerate(codes)
    ]


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    if Columns.Title in frame.columns:
        return frame
    return frame.with_columns(pl.lit(None, dtype=pl.String).alias(Columns.Title))


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_finite(value) for value in np.asarray(values).tolist()]


def _finite(value: float) -> float | None:
    """Give null for what JSON cannot say."""
    return value if math.isfinite(value) else None


def _json(fields: dict[str, Any], **frames: pl.DataFrame) -> bytes:
    """Write fields, and frames as rows; polars writes rows ten times as fast as Python does."""
    # As bytes from the beginning: a quarter of a millisecond for a text of 250 kB and back.
    answer = BytesIO()
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    answer.write(text[:-1].encode())
    comma = "" if not fields else ","
    for name, frame in frames.items():
        answer.write(f'{comma}"{name}":'.encode())
        frame.write_json(answer)
        comma = ","
    answer.write(b"}")
    return answer.getvalue()
