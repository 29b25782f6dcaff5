"""The API conforms to its OpenAPI description."""

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import TypeAdapter

from surerec.serving._operations import public, router

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import GenerationMode  # noqa: E402  # after the skip
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

TOO_LARGE, UNPROCESSABLE = 413, 422
BEYOND = re.compile(
    r"\bat is\b|\btimes?\b|The history of member|items are unknown|names no user|not both"
    r"|needs group|A member needs"
)
DECLARED = {route.path: route.response_model for route in (*router.routes, *public.routes)}
GROUP = [{"user": 7}, {"history": [1, 2, 3, 4, 5], "name": "Eve"}]
RECOMMEND, MANY = "/v1/recommendations", "/v1/recommendations/batch"
ASSESS, P_VALUES, EXPLAIN = "/v1/entry-confidences", "/v1/p-values", "/v1/explanations"
MODEL_REQUESTS = [
    (RECOMMEND, {"user": 7, "confidence": 0.8}),
    (RECOMMEND, {"user": 7, "k": 3, "items": [1, 2, 3, 4, 5, "nowhere"]}),
    (RECOMMEND, {"user": 7, "k": 3}),
    (RECOMMEND, {"history": [1, 2, 3, "nowhere"], "recommender": "icrs12"}),
    (RECOMMEND, {"history": [1, 2, 3], "recommender": "ranking", "limit": 4}),
    (RECOMMEND, {"user": 7, "recommender": "precise", "precision": 0.2}),
    (RECOMMEND, {"group": GROUP, "confidence": 0.8}),
    (RECOMMEND, {"group": GROUP, "recommender": "icrs12", "k": 2}),
    (MANY, {"users": [7, 9, "nobody"], "k": 2}),
    (MANY, {"users": [7], "recommender": "ranking"}),
    (MANY, {"users": [7], "recommender": "icrs12"}),
    (ASSESS, {"user": 7, "limit": 5}),
    (ASSESS, {"history": [1, 2], "recommender": "ranking", "limit": 5}),
    (ASSESS, {"user": 7, "recommender": "precise"}),
    (ASSESS, {"group": GROUP, "limit": 5}),
    (ASSESS, {"group": GROUP, "recommender": "icrs12"}),
    (P_VALUES, {"history": [1, 2, 3], "items": [9, 10]}),
    (P_VALUES, {"history": [1, 2, 3], "items": [9, 10], "recommender": "icrs12"}),
    (EXPLAIN, {"history": [1, 2, 3], "item": 9, "limit": 2}),
    (EXPLAIN, {"history": [1, 2, 3], "item": 9, "recommender": "ranking"}),
    (EXPLAIN, {"group": [{"history": [1, 2]}, {"history": [3, 4]}], "item": 9}),
    ("/v1/items", None),
    ("/v1/model", None),
    ("/admin/reload", {}),
    ("/healthz", None),
    ("/readyz", None),
]
LIVE_REQUESTS = [
    ("/v1/events", {"events": [{"user": 7, "item": 9, "time": 1_700_000_000}]}),
    ("/v1/live", None),
    (RECOMMEND, {"user": 7}),
    (RECOMMEND, {"user": 7, "k": 2}),
    (MANY, {"users": [7]}),
    (ASSESS, {"user": 7}),
    ("/v1/model", None),
    ("/admin/forget", {"user": 7}),
]


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        *(("films", *each) for each in MODEL_REQUESTS),
        *(("live", *each) for each in LIVE_REQUESTS),
    ],
)
def test_responses_have_exactly_the_declared_fields(films, alive, name, path, body):
    client = films.client if name == "films" else alive
    answer = client.request("GET" if body is None else "POST", path, json=body)
    assert answer.status_code == 200, answer.text
    TypeAdapter(DECLARED[path]).validate_json(answer.content, strict=True)


def test_every_operation_is_tested():
    assert {path for path, _ in MODEL_REQUESTS + LIVE_REQUESTS} | {"/metrics"} == set(DECLARED)


@pytest.fixture(scope="module")
def described(server):
    """The OpenAPI description, as a client loads it."""
    return schemathesis.openapi.from_url(f"{server.url}openapi.json")


@pytest.mark.parametrize("path", sorted(DECLARED))
def test_responses_to_generated_requests_conform(described, path):
    (method,) = described[path]
    operation = described[path][method]
    has_input = operation.body or operation.query
    modes = [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if has_input else [])]
    for mode in modes:

        @settings(
            max_examples=25,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            answer = case.call()
            if answer.status_code != TOO_LARGE:  # refused before validation
                case.validate_response(answer, excluded_checks=_beyond_schemas(answer))

        check()


def _beyond_schemas(answer):
    """Return the checks to skip for conditions that JSON Schema cannot express."""
    if answer.status_code == UNPROCESSABLE and BEYOND.search(answer.json()["detail"]):
        return [positive_data_acceptance]
    return []
