"""The API's operations."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from surerec.serving import _answered as told
from surerec.serving import _answers as answers
from surerec.serving import _asked as ask
from surerec.serving import _living as living
from surerec.serving import _together as groups
from surerec.serving._metrics import exposition
from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.serving._service import Service


router = APIRouter()
_question = partial(router.post, tags=["recommending"])


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _answer(request: Request, make: Callable[..., bytes], *asked: Any) -> Response:
    """Give an answer computed off the event loop, with the current model to its end."""
    service = _service(request)
    model = service.models.current
    body = await service.work.run(partial(model.answer, make, *asked))
    headers = {"Surerec-Model": model.model_id, "Cache-Control": "no-store"}
    return Response(body, headers=headers, media_type="application/json")


@_question(
    "/v1/recommendations",
    response_model=told.RecommendationsAnswer,
    summary="Recommend a set of items to one person",
)
async def recommend(request: Request, asked: ask.AskRecommendations) -> Response:
    """Every item above the significance level, best first, with what is promised of the set."""
    return await _answer(request, answers.recommendations, asked)


@_question(
    "/v1/recommendations/batch",
    response_model=told.BatchAnswer,
    summary="Recommend the best items to many users",
)
async def recommend_many(request: Request, asked: ask.AskBatch) -> Response:
    """Give the k best of each user's set; users that are not known are named, and left out."""
    return await _answer(request, answers.batch, asked)


@_question(
    "/v1/guarantees",
    response_model=told.GuaranteeAnswer,
    summary="Say what a set promises",
)
async def say_guarantee(request: Request, asked: ask.AskPromise) -> Response:
    """Give the guarantee's sentence and the set's size, without the items."""
    return await _answer(request, answers.guarantee, asked)


@_question(
    "/v1/entry-confidences",
    response_model=told.EntryConfidencesAnswer,
    summary="One answer for every confidence",
)
async def assess(request: Request, asked: ask.AskEntryConfidences) -> Response:
    """Give the items in order, with the confidence at which each enters, and the set's size.

    An item is in the set at every confidence above its entry confidence, so a slider needs no
    further request.
    """
    return await _answer(request, answers.entry_confidences, asked)


@_question(
    "/v1/p-values",
    response_model=told.PValuesAnswer,
    summary="Give the p-value of items",
)
async def give_p_values(request: Request, asked: ask.AskPValues) -> Response:
    """How well each item conforms with what the person took."""
    return await _answer(request, answers.p_values, asked)


@_question(
    "/v1/explanations",
    response_model=told.ExplanationAnswer,
    summary="Explain an item by counts",
)
async def explain(request: Request, asked: ask.AskExplanation) -> Response:
    """Which earlier items speak for it: how many who took them took it later."""
    return await _answer(request, answers.explanation, asked)


@_question(
    "/v1/groups/recommendations",
    response_model=told.GroupRecommendationsAnswer,
    summary="Recommend one set to a group",
)
async def recommend_together(request: Request, asked: ask.AskGroupRecommendations) -> Response:
    """Give a set for people who choose together, and how well it serves each of them."""
    return await _answer(request, groups.group_recommendations, asked)


@_question(
    "/v1/groups/guarantees",
    response_model=told.GroupGuaranteeAnswer,
    summary="Say what a group's set promises",
)
async def say_group_guarantee(request: Request, asked: ask.AskGroupGuarantee) -> Response:
    """Give the guarantee's sentence and how well each member is served, without the items."""
    return await _answer(request, groups.group_guarantee, asked)


@_question(
    "/v1/groups/entry-confidences",
    response_model=told.GroupEntryConfidencesAnswer,
    summary="One answer to a group for every confidence",
)
async def assess_together(request: Request, asked: ask.AskGroupEntryConfidences) -> Response:
    """Give the items in order, with the confidence at which each enters a group's set."""
    return await _answer(request, groups.group_entry_confidences, asked)


@_question(
    "/v1/groups/explanations",
    response_model=told.GroupExplanationAnswer,
    summary="Explain an item to each member of a group",
)
async def explain_together(request: Request, asked: ask.AskGroupExplanation) -> Response:
    """Which earlier items of each member speak for it; all members are left out of the counts."""
    return await _answer(request, groups.group_explanation, asked)


@router.post(
    "/v1/events",
    response_model=told.ObservedAnswer,
    summary="Take events in",
    tags=["living"],
)
async def observe(request: Request, asked: ask.AskEvents) -> Response:
    """Take in who took what; they are safe, and in every answer, when this is answered.

    Sent again, an event of the same id changes nothing; without an id, one of the same user, item
    and time.
    """
    return await _answer(request, living.observe, asked)


@router.get(
    "/v1/health/promise",
    response_model=told.PromiseAnswer,
    summary="Is the promise kept?",
    tags=["living"],
)
async def health_of_promise(request: Request) -> Response:
    """Give what a live model promised and delivered, and its alarms."""
    return await _answer(request, living.promise)


@router.post(
    "/admin/forget",
    response_model=told.ReceiptAnswer,
    summary="Forget a person",
    tags=["admin"],
)
async def forget(request: Request, asked: ask.AskForget) -> Response:
    """Delete a person: from events and counts at once, from files at the next recount."""
    return await _answer(request, living.forget, asked)


@router.get("/v1/items", response_model=told.Found, summary="Search items by title", tags=["model"])
async def search_items(
    request: Request,
    q: Annotated[
        str, Query(max_length=200, description="Words of the title; none gives popular items.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
) -> Response:
    """Items whose title has all the words, without regard to case and accents."""
    return await _answer(request, answers.search, q, limit)


@router.get("/v1/model", response_model=told.ModelCard, summary="The model card", tags=["model"])
async def model_card(request: Request, response: Response) -> Any:
    """Give the model's data, counts, settings, recommenders and what these promise."""
    model = _service(request).models.current
    response.headers["Surerec-Model"] = model.model_id
    response.headers["Cache-Control"] = "no-store"
    return model.card


@router.post(
    "/admin/reload",
    response_model=told.Reloaded,
    summary="Take over the model anew",
    tags=["admin"],
)
async def reload(request: Request) -> Any:
    """Load what the model folder holds now, in all workers, without dropping a request."""
    result = await _service(request).reload()
    if "problem" in result:
        raise Problem(409, result["problem"])
    return result


@router.get("/healthz", response_model=told.Status, summary="Is it alive?", tags=["running"])
async def healthz() -> Any:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=told.Status, summary="Can it answer?", tags=["running"])
async def readyz(request: Request) -> Any:
    """Check that a model is loaded, its event store is whole, and the server is not stopping."""
    if _service(request).is_stopping():
        raise Problem(503, "The server is stopping.", headers={"Retry-After": "5"})
    _service(request).models.current.check()
    return {"status": "ready"}


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    tags=["running"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics() -> Response:
    """Count requests, times, refusals, workers and swaps, summed over all workers."""
    # Beside the queue of work: a busy server is when its numbers matter.
    body = await asyncio.to_thread(exposition)
    return Response(body, headers={"Content-Type": CONTENT_TYPE_LATEST})
