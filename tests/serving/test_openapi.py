"""The whole API from its own description: what fits it is answered, what does not is refused."""

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import GenerationMode  # noqa: E402  # after the skip
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

TOO_LARGE, UNPROCESSABLE = 413, 422
BEYOND = re.compile(r"\bat is\b|\btimes?\b|The history of member|items are unknown")
TAKE_SOMETHING = [
    ("POST", "/v1/recommendations"),
    ("POST", "/v1/recommendations/batch"),
    ("POST", "/v1/entry-confidences"),
    ("POST", "/v1/p-values"),
    ("POST", "/v1/explanations"),
    ("GET", "/v1/items"),
    ("POST", "/v1/events"),
    ("POST", "/admin/forget"),
]
TAKE_NOTHING = [
    ("GET", "/v1/model"),
    ("GET", "/v1/live"),
    ("POST", "/admin/reload"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]


@pytest.fixture(scope="module")
def described(server):
    """The API's description, as a client would load it."""
    return schemathesis.openapi.from_url(f"{server.url}openapi.json")


def test_nothing_is_left_out(described):
    found = [result.ok() for result in described.get_all_operations()]
    known = sorted(TAKE_SOMETHING + TAKE_NOTHING)
    assert sorted((one.method.upper(), one.path) for one in found) == known


@pytest.mark.parametrize(
    ("mode", "method", "path"),
    [
        *((GenerationMode.POSITIVE, *one) for one in TAKE_SOMETHING + TAKE_NOTHING),
        *((GenerationMode.NEGATIVE, *one) for one in TAKE_SOMETHING),
    ],
)
def test_answers_keep_to_the_description(described, mode, method, path):
    operation = described[path][method]

    @settings(
        max_examples=25,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        answer = case.call()
        if answer.status_code != TOO_LARGE:  # refused before anything in it is looked at
            case.validate_response(answer, excluded_checks=_beyond_schemas(answer))

    check()


def _beyond_schemas(answer):
    """No JSON Schema says that ids are known, or that there is a time for each item."""
    if answer.status_code == UNPROCESSABLE and BEYOND.search(answer.json()["detail"]):
        return [positive_data_acceptance]
    return []


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_people_and_items_that_exist_are_answered_too(client, data):
    """Generated ids are seldom known ones; these are, and every answer has the same shape."""
    ids = st.integers(1, 120)
    person = data.draw(
        st.one_of(
            st.fixed_dictionaries({"user": st.integers(1, 300)}),
            st.fixed_dictionaries({"history": st.lists(ids, min_size=1, max_size=40)}),
        )
    )
    name = data.draw(st.sampled_from(["icrs12", "icrs3", "crs-max"]))
    level = data.draw(st.floats(0.01, 0.99))
    body = {**person, "recommender": name, "confidence": level}
    told = client.post("v1/recommendations", json=body)
    assert told.status_code in {200, 404}, told.text
    if told.status_code == 200:
        items = told.json()["items"]
        assert len(items) == told.json()["full_size"]
        assert all(item["entry_confidence"] < level for item in items)
