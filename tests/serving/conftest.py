import pytest

pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")

from tests.postgres import postgres  # noqa: F401  # a fixture
from tests.serving.serving_server import Server, save


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("served") / "films")


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
