"""Every operation answers with the fields that its response declares, and with no others."""

import asyncio
import inspect
import json

import httpx
import pytest
from pydantic import TypeAdapter

import surerec as sr
from surerec.live import Live
from surerec.recommenders import save_all
from surerec.serving._app import create_app
from surerec.serving._living import load
from surerec.serving._models import ModelHolder
from surerec.serving._operations import router
from surerec.serving._service import Service, WorkQueue
from surerec.serving._settings import Settings

ROUTES = {route.path: route for route in router.routes}
GROUP = [{"user": 7}, {"history": [1, 2, 3, 4, 5], "name": "Eve"}]
OF_A_MODEL = [
    ("/v1/recommendations", {"user": 7, "confidence": 0.8}),
    ("/v1/recommendations", {"user": 7, "k": 3, "items": [1, 2, 3, 4, 5, "nowhere"]}),
    ("/v1/recommendations", {"user": 7, "k": 3}),
    ("/v1/recommendations", {"history": [1, 2, 3, "nowhere"], "recommender": "icrs12"}),
    ("/v1/recommendations", {"history": [1, 2, 3], "recommender": "ranking", "limit": 4}),
    ("/v1/recommendations", {"user": 7, "recommender": "precise", "precision": 0.2}),
    ("/v1/recommendations", {"group": GROUP, "confidence": 0.8}),
    ("/v1/recommendations", {"group": GROUP, "recommender": "icrs12", "k": 2}),
    ("/v1/recommendations/batch", {"users": [7, 9, "nobody"], "k": 2}),
    ("/v1/recommendations/batch", {"users": [7], "recommender": "ranking"}),
    ("/v1/recommendations/batch", {"users": [7], "recommender": "icrs12"}),
    ("/v1/entry-confidences", {"user": 7, "limit": 5}),
    ("/v1/entry-confidences", {"history": [1, 2], "recommender": "ranking", "limit": 5}),
    ("/v1/entry-confidences", {"user": 7, "recommender": "precise"}),
    ("/v1/entry-confidences", {"group": GROUP, "limit": 5}),
    ("/v1/entry-confidences", {"group": GROUP, "recommender": "icrs12"}),
    ("/v1/p-values", {"history": [1, 2, 3], "items": [9, 10]}),
    ("/v1/p-values", {"history": [1, 2, 3], "items": [9, 10], "recommender": "icrs12"}),
    ("/v1/explanations", {"history": [1, 2, 3], "item": 9, "limit": 2}),
    ("/v1/explanations", {"history": [1, 2, 3], "item": 9, "recommender": "ranking"}),
    ("/v1/explanations", {"group": [{"history": [1, 2]}, {"history": [3, 4]}], "item": 9}),
    ("/v1/items", None),
    ("/v1/model", None),
    ("/admin/reload", {}),
    ("/healthz", None),
    ("/readyz", None),
]
OF_A_LIVE_MODEL = [
    ("/v1/events", {"events": [{"user": 7, "item": 9, "time": 1_700_000_000}]}),
    ("/v1/live", None),
    ("/v1/recommendations", {"user": 7}),
    ("/v1/recommendations", {"user": 7, "k": 2}),
    ("/v1/recommendations/batch", {"users": [7]}),
    ("/v1/entry-confidences", {"user": 7}),
    ("/v1/model", None),
    ("/admin/forget", {"user": 7}),
]


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=9_000, seed=1)


@pytest.fixture(scope="module")
def ask_model(films, tmp_path_factory):
    counts = sr.count_precedence(films)
    recommenders = {
        "over-users": sr.PopulationConformal("CM12").fit(counts).calibrate_groups([2]),
        "icrs12": sr.InductiveConformal("CM12").fit(counts),
        "ranking": sr.PrecedenceMining().fit(counts),
        "precise": sr.PopulationConformal("CM12", promise="precision").fit(counts),
    }
    folder = tmp_path_factory.mktemp("responses") / "films"
    save_all(folder, recommenders)
    return asking(folder)


@pytest.fixture(scope="module")
def ask_live(films, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "films"
    Live.create(folder, sr.PopulationConformal("CM12").fit(films)).close()
    return asking(folder)


def asking(folder):
    async def reload():
        return {"model": "films", "changed": False, "workers": 1}

    model = load(folder)
    settings = Settings(model=folder, insecure_admin=True)
    service = Service(settings, ModelHolder(model), WorkQueue(1, 4, 30.0), reload)
    transport = httpx.ASGITransport(create_app(service))

    async def send(path, body):
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request("GET" if body is None else "POST", path, json=body)

    return lambda path, body: (model, asyncio.run(send(path, body)))


def check_declared(path, body, ask):
    route = ROUTES[path]
    declared = TypeAdapter(route.response_model)
    model, answer = ask(path, body)
    assert answer.status_code == 200, answer.text
    declared.validate_json(answer.content, strict=True)
    # The declared type leaves out what it does not know: look at what it was given, too.
    make = inspect.getclosurevars(route.endpoint).nonlocals.get("answer")
    if make is None or path in {"/v1/events", "/admin/forget"}:
        return
    asked = inspect.get_annotations(make, eval_str=True).get("asked")
    given = [] if asked is None else [TypeAdapter(asked).validate_python(body or {})]
    made = model.answer(make, *given)
    declared.validate_python(made, strict=True)
    assert json.loads(answer.content) == json.loads(json.dumps(made))


@pytest.mark.parametrize(("path", "body"), OF_A_MODEL)
def test_answers_are_what_they_declare(ask_model, path, body):
    check_declared(path, body, ask_model)


@pytest.mark.parametrize(("path", "body"), OF_A_LIVE_MODEL)
def test_answers_of_a_live_model_are_what_they_declare(ask_live, path, body):
    check_declared(path, body, ask_live)


def test_no_operation_is_left_out():
    asked = {path for path, _ in OF_A_MODEL + OF_A_LIVE_MODEL}
    assert asked | {"/metrics"} == set(ROUTES)
