import pytest

pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")

import asyncio
from types import SimpleNamespace

import httpx

import surerec as sr
from surerec.live import Live
from surerec.recommenders import save_all
from surerec.serving import ServerSettings
from surerec.serving._service import Service
from surerec.serving._supervisor import shared_memory
from surerec.serving._worker import create_app
from tests.postgres import postgres  # noqa: F401  # a fixture
from tests.serving.serving_server import Server, made_up, save, someone


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("served") / "films")


@pytest.fixture(scope="session")
def known(model_folder):
    return someone(model_folder)


@pytest.fixture(scope="session")
def server(model_folder, tmp_path_factory):
    """The server as it is by default, with two workers."""
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
    """Start further servers, which end with the test."""
    running = []

    def start_one(model, *options, **more):
        running.append(Server(model, tmp_path / f"log-{len(running)}", *options, **more))
        return running[-1]

    yield start_one
    for one in running:
        one.stop()


class InProcess:
    """A client of the application of a model folder, without a server."""

    def __init__(self, folder, memory, **settings):
        settings = ServerSettings(model=folder, **{"insecure_admin": True, **settings})
        self.service = Service(settings, memory.fileno())
        self._app = httpx.ASGITransport(create_app(self.service), raise_app_exceptions=False)

    def request(self, method, path, **asked):
        async def ask():
            async with httpx.AsyncClient(transport=self._app, base_url="http://localhost") as one:
                return await one.request(method, path, **asked)

        return asyncio.run(ask())

    def get(self, path, **asked):
        return self.request("GET", path, **asked)

    def post(self, path, **asked):
        return self.request("POST", path, **asked)


@pytest.fixture(scope="session")
def in_process():
    with shared_memory() as memory:
        yield lambda folder, **settings: InProcess(folder, memory, **settings)


@pytest.fixture(scope="session")
def films(in_process, tmp_path_factory):
    """One folder with every kind of recommender: the models, their data, a client of them."""
    data, folder = made_up(n_items=60), tmp_path_factory.mktemp("kinds") / "films"
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


@pytest.fixture(scope="session")
def alive(films, in_process, tmp_path_factory):
    """A client of a live model."""
    folder = tmp_path_factory.mktemp("alive") / "shop"
    Live.create(folder, films.models["sets"]).close()
    return in_process(folder)
