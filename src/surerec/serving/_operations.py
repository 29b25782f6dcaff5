"""Operations of the HTTP API."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import numpy as np
import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from surerec._columns import Columns, json_rows, json_texts, json_values
from surerec.errors import NotSupportedError
from surerec.live import FutureTimeError, Ingestion, Live, Receipt
from surerec.recommenders import RecommendOptions
from surerec.serving import _schemas as ask
from surerec.serving._models import ServedModel, report
from surerec.serving._problems import Problem
from surerec.serving._telemetry import ALERTS, EVENTS, exposition

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.calibration import Assessment
    from surerec.measures import Query as UserQuery
    from surerec.recommenders import FittedModel
    from surerec.serving._service import Service

router = APIRouter()
public = APIRouter(tags=["operations"])
"""Routes that need no API key."""
Answer = TypeVar("Answer", bound="Callable[..., Any]")

_ALMOST_NEVER: Final = 1e-9  # a significance at which every item is in the set
_HISTORY_SHOWN: Final = 200
_OPTIONS: Final = {"confidence", "significance", "precision", "min_probability", "item_list"}
_WINDOWS_SHOWN: Final = 60


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _operation(method: str, path: str, response: Any, tag: str) -> Callable[[Answer], Answer]:
    """Register a function of the served model and a request as a route.

    The function runs in a worker thread, with one model until it returns. Its result is sent
    without validation; the tests validate the result of every operation.
    """

    def register(answer: Answer) -> Answer:
        async def endpoint(request: Request, **given: Any) -> Response:
            service = _service(request)
            model = service.model

            def respond() -> bytes:
                return orjson.dumps(model.answer(answer, *given.values()))

            body = await service.work.run(respond)
            headers = {"Surerec-Model": model.model_id, "Cache-Control": "no-store"}
            return Response(body, headers=headers, media_type="application/json")

        hints = inspect.get_annotations(answer, eval_str=True)
        kinds = {"request": Request} | ({"body": hints["request"]} if "request" in hints else {})
        only = inspect.Parameter.KEYWORD_ONLY
        endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, only, annotation=kind) for name, kind in kinds.items()]
        )
        summary, _, description = (inspect.getdoc(answer) or "").partition("\n")
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            response_model=response,
            summary=summary.rstrip("."),
            description=description.strip(),
            name=answer.__name__,
            tags=[tag],
        )
        return answer

    return register


@_operation("POST", "/v1/recommendations", ask.RecommendationsResponse, "recommendations")
def recommend(model: ServedModel, request: ask.RecommendRequest) -> dict[str, Any]:
    """Return a recommendation set, best first, with its guarantee.

    With `k`, return a short list with the probabilities of at least one, two and three hits.
    """
    fitted = _fitted(model, request.recommender)
    options, unknown = _options(fitted, request)
    options |= {"k": request.k, "exclude": request.exclude}
    whom = _members(fitted, request) if request.group else {"query": _query(fitted, request)}
    picks = fitted.recommend(**whom, **options)
    if len(picks) > ask.MAX_ROWS:
        reason = f"the response has only the first {ask.MAX_ROWS:,} items"
        picks = replace(picks, guarantee=picks.guarantee.shortened(reason))
    return replace(picks, unknown_items=unknown).to_dict(request.limit)


@_operation("POST", "/v1/recommendations/batch", ask.BatchResponse, "recommendations")
def recommend_many(model: ServedModel, request: ask.BatchRequest) -> dict[str, Any]:
    """Return the k best items of each user's set, and the ids of unknown users."""
    fitted = _fitted(model, request.recommender)
    users = list(dict.fromkeys(request.users))
    codes = fitted.profiles().users.codes(users)
    known = codes[codes >= 0]
    if not len(known):
        raise Problem(404, "No user in users is known. Send ids of users in the data.")
    chosen, unknown = _options(fitted, request)
    options = fitted.options(**chosen, k=request.k)
    confidence = None if options.level is None else round(1 - options.level, 12)
    frame = fitted.rows_of(known, options)
    columns: dict[str, Any] = {name: json_values(frame[name]) for name in frame.columns}
    return {
        "recommender": fitted.name,
        "confidence": confidence,
        "significance": None if confidence is None else round(1 - confidence, 12),
        "guarantee": fitted.guarantee_to_all(options).to_dict(),
        "unknown_users": [user for user, code in zip(users, codes, strict=True) if code < 0],
        "unknown_items": list(unknown),
        "items": json_rows(columns),
    }


@_operation("POST", "/v1/entry-confidences", ask.EntryConfidencesResponse, "recommendations")
def assess(model: ServedModel, request: ask.EntryConfidencesRequest) -> dict[str, Any]:
    """Return the ranked items with their entry confidences, and the set size by confidence.

    An item is in the set at every confidence above its entry confidence, so a client can change
    the confidence without another request.
    """
    fitted = _fitted(model, request.recommender)
    assess_whom = _assess_user if request.group is None else _assess_group
    found, about = assess_whom(model, fitted, request)
    by_precision = request.group is None and "precision" in fitted.features
    by_confidence = "confidence" in fitted.features and not by_precision
    order = found.ordered(_ALMOST_NEVER if by_confidence else None)
    entries = found.entry_confidences
    first = order[: request.limit]
    values = {} if request.group is None else {"member_values": found.values(first).T.tolist()}
    return {
        "recommender": fitted.name,
        "gives_confidence": by_confidence,
        "guarantees_precision": by_precision,
        "about_probability": found.about_probabilities,
        "n_candidates": len(found.candidates),
        "highest_confidence": found.highest_confidence,
        "curve": _curve(entries[order]),
        "items": {**_ranked(model, found, first, entries), **values},
        **about,
    }


def _assess_user(
    model: ServedModel, fitted: FittedModel, request: ask.EntryConfidencesRequest
) -> tuple[Any, dict[str, Any]]:
    query = _query(fitted, request)
    options = RecommendOptions() if request.item_list is None else fitted.listed(request.item_list)
    return fitted.assess(query, options=options), {
        "history": _titled(model, query.history[-_HISTORY_SHOWN:]),
        "history_length": len(query.history),
        "ignored": list(query.ignored),
    }


def _assess_group(
    model: ServedModel, fitted: FittedModel, request: ask.EntryConfidencesRequest
) -> tuple[Any, dict[str, Any]]:
    if request.item_list is not None:
        raise NotSupportedError("Groups have no item lists. Omit item_list.")
    found, members, group_guarantee = fitted.assess_group(**_members(fitted, request))
    known = members.known
    new = [member.history for member in members.members if not member.users]
    return found, {
        "history": _titled(model, np.unique(np.concatenate([known[:0], *new]))),
        "history_length": len(known),
        "ignored": list(members.ignored),
        "group_guarantee": group_guarantee,
        "members": list(members.names),
    }


def _curve(entries: NDArray[np.float64]) -> dict[str, list[Any]]:
    """Return the set size above each entry confidence."""
    levels, counts = np.unique(entries[~np.isnan(entries)], return_counts=True)
    return {"entry_confidence": levels.tolist(), "size": np.cumsum(counts).tolist()}


def _titled(model: ServedModel, codes: NDArray[np.int64]) -> dict[str, list[Any]]:
    ids = model.first.items.ids.gather(codes)
    return {Columns.Item: ids.to_list(), Columns.Title: json_texts(model.first.titles, codes)}


def _ranked(
    model: ServedModel, found: Assessment, first: NDArray[np.intp], entries: NDArray[np.float64]
) -> dict[str, list[Any]]:
    """Return some candidates as columns; `entries` has the entry confidences of all."""
    codes, p_values = found.candidates[first], found.p_values
    probabilities = None if found.probabilities is None else found.probabilities(first).probability
    return {
        **_titled(model, codes),
        Columns.Genres: json_texts(model.first.statistics.interactions.genres, codes),
        Columns.Score: json_values(found.shown(first)),
        **({} if p_values is None else {Columns.PValue: json_values(p_values[first])}),
        Columns.EntryConfidence: json_values(entries[first]),
        Columns.Probability: [None] * len(first)
        if probabilities is None
        else json_values(probabilities),
    }


@_operation("POST", "/v1/p-values", ask.PValuesResponse, "recommendations")
def p_values(model: ServedModel, request: ask.PValuesRequest) -> dict[str, Any]:
    """Return the p-values of items for a user."""
    fitted = _fitted(model, request.recommender)
    query = _query(fitted, request)
    found = fitted.items.select(request.items, request.unknown)
    frame = fitted.p_values(query=query, codes=found.codes)
    columns: dict[str, Any] = {name: json_values(frame[name]) for name in frame.columns}
    columns[Columns.Title] = json_texts(model.first.titles, found.codes)
    return {
        "recommender": fitted.name,
        "ignored": list(query.ignored),
        "unknown_items": list(found.skipped),
        "items": json_rows(columns),
    }


@_operation("POST", "/v1/explanations", ask.ExplanationResponse, "recommendations")
def explain(model: ServedModel, request: ask.ExplanationRequest) -> dict[str, Any]:
    """Return the earlier items that support an item, with counts of other users.

    For a group, the items are listed by member, and the counts leave out all members.
    """
    fitted = _fitted(model, request.recommender)
    if request.group is not None:
        whom = _members(fitted, request)
        return fitted.explain_group(**whom, item=request.item).to_dict(request.limit)
    query = _query(fitted, request)
    return fitted.explain(query=query, item=request.item).to_dict(request.limit)


@_operation("GET", "/v1/items", ask.FoundResponse, "model")
def search_items(
    model: ServedModel, request: Annotated[ask.ItemsRequest, Query()]
) -> dict[str, Any]:
    """Return the items whose title contains all words; case and accents are ignored."""
    codes = model.search.find(request.q, request.limit)
    support = np.asarray(model.first.statistics.support)[codes].astype(np.int64)
    genres = json_texts(model.first.statistics.interactions.genres, codes)
    columns = {**_titled(model, codes), Columns.Genres: genres, "support": support.tolist()}
    return {"items": json_rows(columns)}


@_operation("GET", "/v1/model", ask.ModelResponse, "model")
def model_card(model: ServedModel) -> dict[str, Any]:
    """Return the model card: data, counts, settings, recommenders and their guarantees."""
    return dict(model.card)


@_operation("POST", "/v1/events", Ingestion, "live")
def send_events(model: ServedModel, request: ask.EventsRequest) -> dict[str, Any]:
    """Ingest events; acknowledged events are stored durably and are part of every later answer.

    An event with a known id changes nothing. Without an id, events with equal user, item and time
    count as the same event.
    """
    live = _live(model)
    try:
        found = live.observe([event.model_dump(exclude_none=True) for event in request.events])
    except FutureTimeError as error:
        ALERTS.inc(error.alerted)
        raise
    counts = {name: getattr(found, name) for name in ("evaluated", "duplicates", "refused")}
    for outcome, n in {**counts, **found.not_evaluated}.items():
        EVENTS.labels(outcome).inc(n)
    ALERTS.inc(len(found.alerts))
    report(live)
    return asdict(found)


@_operation("GET", "/v1/live", ask.LiveResponse, "live")
def live_status(model: ServedModel) -> dict[str, Any]:
    """Return the nominal and the observed coverage of a live model, and its drift alerts."""
    live, shares = _live(model), ["observed", "unadapted"]
    windows = live.observed().partition_by("window", maintain_order=True)[-_WINDOWS_SHOWN:]
    return {
        **asdict(live.status()),
        "windows": [
            {**rows[["until", "n"]].row(0, named=True), **rows[shares].to_dict(as_series=False)}
            for rows in windows
        ],
    }


@_operation("POST", "/admin/forget", Receipt, "admin")
def forget(model: ServedModel, request: ask.ForgetRequest) -> dict[str, Any]:
    """Delete a user from events and counts at once, and from files at the next refit."""
    return asdict(_live(model).forget(request.user))


def _live(model: ServedModel) -> Live:
    if model.live is None:
        raise Problem(
            409,
            "This model is not live. Create a live model with `surerec live init` and serve it.",
        )
    return model.live


@router.post("/admin/reload", response_model=ask.ReloadResponse, tags=["admin"])
async def reload(request: Request) -> Any:
    """Reload the model folder in all workers, without dropping a request."""
    result = await _service(request).reload()
    if "problem" in result:
        raise Problem(409, result["problem"])
    return result


@public.get("/healthz", response_model=dict[str, str])
async def healthz() -> Any:
    """Return 200 while the process runs."""
    return {"status": "ok"}


@public.get("/readyz", response_model=dict[str, str])
async def readyz(request: Request) -> Any:
    """Return 200 if a model is loaded, its event store works and the server is not stopping."""
    service = _service(request)
    if service.is_stopping():
        raise Problem(503, "The server is stopping. Retry later.", headers={"Retry-After": "5"})
    service.model.check()
    return {"status": "ready"}


@router.get("/metrics", response_class=PlainTextResponse, tags=["operations"])
async def metrics() -> Response:
    """Return Prometheus metrics, summed over all workers."""
    # Not in the work queue, as metrics matter most on a busy server.
    body = await asyncio.to_thread(exposition)
    return Response(body, media_type=CONTENT_TYPE_LATEST)


def _fitted(model: ServedModel, name: str | None) -> FittedModel:
    """Return the fitted model of a request."""
    found = model.first if name is None else model.models.get(name)
    if found is None:
        known = ", ".join(model.models)
        raise Problem(404, f"recommender is unknown. Use one of {known}.")
    return found


def _query(fitted: FittedModel, request: ask.UserRequest) -> UserQuery:
    if request.group is not None:
        raise NotSupportedError("Groups have no p-values. Use /v1/entry-confidences.")
    history = {"history": request.history, "times": request.times, "at": request.at}
    return fitted.query(request.user, **history, segment=request.segment)


def _options(
    fitted: FittedModel, request: ask.RecommendRequest | ask.BatchRequest
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the keyword arguments of `recommend`, and the unknown items."""
    chosen = request.model_dump(include=_OPTIONS, exclude_none=True)
    if request.items is None:
        return chosen, ()
    found = fitted.items.select(request.items, request.unknown)
    known = fitted.items.ids.gather(found.codes).to_list()
    return {**chosen, "items": known}, tuple(found.skipped)


def _members(fitted: FittedModel, request: ask.UserRequest) -> dict[str, Any]:
    """Return the keyword arguments of a group request.

    Members with equal names get their position as a suffix.
    """
    members = request.group or []
    sizes = fitted.groups.sizes if fitted.groups and fitted.offers_group_guarantee() else None
    if sizes is not None and len(members) not in sizes:  # calibration is too slow for a request
        raise Problem(
            409,
            f"{fitted.name} is not calibrated for groups of {len(members)}. Run `surerec groups "
            f"FOLDER --size {len(members)}` and reload the model.",
        )
    named: dict[Any, Any] = {}
    for place, member in enumerate(members, start=1):
        name = member.name if member.name is not None else member.user
        if name is None or name in named:
            name = f"member {place}" if name is None else f"{name} ({place})"
        history: list[Any] = member.history or []
        if member.times is not None:
            history = list(zip(history, member.times, strict=True))
        named[name] = history if member.user is None else member.user
    return {"group": named, "group_guarantee": request.group_guarantee, "at": request.at}
