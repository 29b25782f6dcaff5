"""The API conforms to its OpenAPI description."""

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.serving.conftest import DECLARED

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import GenerationMode  # noqa: E402  # after the skip
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

TOO_LARGE, UNPROCESSABLE = 413, 422
BEYOND = re.compile(
    r"\bat (is|needs)\b|\btimes?\b|The history of member|items are unknown|names no user|not both"
    r"|needs group|A member needs"
)
LIVE_REQUESTS = [
    ("events", {"events": [{"user": 7, "item": 9, "time": 1_700_000_000}]}),
    ("recommendations", {"user": 7}),
    ("recommendations/batch", {"users": [7]}),
    ("entry-confidences", {"user": 7}),
]


def test_answers_of_a_live_model_have_the_declared_fields(alive):
    for path, body in LIVE_REQUESTS:  # the client compares the fields
        assert alive.post(f"/v1/{path}", json=body).status_code == 200
    for path in ("model", "live"):
        assert alive.get(f"/v1/{path}").status_code == 200
    assert alive.post("/admin/forget", json={"user": 7}).status_code == 200


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
