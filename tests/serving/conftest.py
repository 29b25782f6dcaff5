import pytest

pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")

import asyncio
from types import SimpleNamespace

import httpx
import numpy as np
from pydantic import TypeAdapter

import surerec as sr
from surerec.live import Live
from surerec.recommenders import save_all
from surerec.serving import ServerSettings
from surerec.serving._operations import public, router
from surerec.serving._service import Service
from surerec.serving._supervisor import shared_memory
from surerec.serving._worker import create_app
from tests.postgres import postgres  # noqa: F401  # a fixture
from tests.serving.serving_server import Server, save, synthetic


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("served") / "films")


@pytest.fixture(scope="session")
def known(model_folder):
    """Return a model of the folder, and a user with a history of median length."""
    model = sr.load(model_folder)
    interactions = model.statistics_.interactions
    order = np.argsort(np.diff(interactions.offsets), kind="stable")
    return model, interactions.users[int(order[len(order) // 2])]


@pytest.fixture(scope="session")
def server(model_folder, tmp_path_factory):
    """A server with default settings and two workers."""
    running = Server(model_folder, tmp_path_factory.mktemp("log") / "log", "--workers", "2")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.text
    assert not running.lines("worker ended"), running.text


@pytest.fixture(scope="session")
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def start(tmp_path):
    """Return a function that starts further servers, which end with the test."""
    running = []

    def start_one(model, *options, **more):
        running.append(Server(model, tmp_path / f"log-{len(running)}", *options, **more))
        return running[-1]

    yield start_one
    for one in running:
        one.stop()


DECLARED = {route.path: route.response_model for route in (*router.routes, *public.routes)}


class InProcess:
    """A client of a model folder without a server; answers have exactly the declared fields."""

    def __init__(self, folder, memory, **settings):
        settings = ServerSettings(model=folder, **{"insecure_admin": True, **settings})
        self.service = Service(settings, memory.fileno())
        self._app = httpx.ASGITransport(create_app(self.service), raise_app_exceptions=False)

    def request(self, method, path, **options):
        async def send():
            async with httpx.AsyncClient(transport=self._app, base_url="http://localhost") as one:
                return await one.request(method, path, **options)

        answer = asyncio.run(send())
        if answer.status_code == httpx.codes.OK and answer.url.path in DECLARED:
            declared = TypeAdapter(DECLARED[answer.url.path])
            declared.validate_json(answer.content, strict=True)
        return answer

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


@pytest.fixture(scope="session")
def in_process():
    with shared_memory() as memory:
        yield lambda folder, **settings: InProcess(folder, memory, **settings)


@pytest.fixture(scope="session")
def films(in_process, tmp_path_factory):
    """Models of every kind in one folder, their data, and a client."""
    data, folder = synthetic(n_items=60), tmp_path_factory.mktemp("kinds") / "films"
    counts, some = sr.count_precedence(data), data.items.ids.to_list()[::2]
    country = {user: "DE" if user % 2 else "AT" for user in data.users.ids}
    models = {
        "sets": sr.PopulationConformal("CM12").fit(counts, item_lists={"some": some}),
        "icrs12": sr.InductiveConformal("CM12").fit(counts),
        "ranking": sr.PrecedenceMining().fit(counts),
        "precise": sr.PopulationConformal("CM12", guarantee="precision").fit(counts),
        "apart": sr.PopulationConformal("CM12", segments="country").fit(
            counts, user_segments=country
        ),
        "learned": sr.PopulationConformal("learned").fit(counts).calibrate_groups([2]),
    }
    models["sets"].calibrate_groups([2, 3])
    save_all(folder, models)
    return SimpleNamespace(data=data, models=models, folder=folder, client=in_process(folder))


@pytest.fixture
def shop(tmp_path, films):
    """The folder of a live model."""
    Live.create(tmp_path / "shop", films.models["sets"]).close()
    return tmp_path / "shop"


@pytest.fixture(scope="session")
def alive(films, in_process, tmp_path_factory):
    """A client of a live model."""
    folder = tmp_path_factory.mktemp("alive") / "shop"
    Live.create(folder, films.models["sets"]).close()
    return in_process(folder)
