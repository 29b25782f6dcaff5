"""Over HTTP a damaged event store is the server's fault: 503, not ready, and no path is told."""

import asyncio

import httpx

import surerec as sr
from surerec.live import Live
from surerec.serving._app import create_app
from surerec.serving._service import Service
from surerec.serving._settings import Settings
from tests.serving.serving_server import made_up, problem


def event(item):
    return {"events": [{"user": 7, "item": item, "time": 1_700_000_000}]}


def test_a_removed_store_is_503_and_readiness_fails(tmp_path, start):
    shop = tmp_path / "shop"
    Live.create(shop, sr.PopulationConformal("CM12", n_calibration=50).fit(made_up())).close()
    server = start(shop, "--workers", "1", "--log-format", "json")
    with server.client() as client:
        assert client.post("v1/events", json=event(900)).status_code == 200
        assert client.get("readyz").status_code == 200
        for file in shop.glob("events.sqlite*"):
            file.unlink()
        for answer in (
            client.post("v1/events", json=event(901)),
            client.post("v1/recommendations", json={"user": 7}),
            client.get("readyz"),
        ):
            assert "damaged or was removed" in problem(answer, 503)
        assert client.get("healthz").status_code == 200
    server.stop()
    failed = [line for line in server.text.splitlines() if "event store failed" in line]
    assert len(failed) == 3
    assert all('"reason": "file removed or replaced"' in line for line in failed)
    assert str(tmp_path) not in "".join(failed)


def test_an_unexpected_error_is_a_problem_too(tmp_path):
    """Without a handler the framework answers in plain text."""

    def fails():
        raise KeyError("learned_fold_of")

    service = Service(Settings(model=tmp_path), None, None, None, is_stopping=fails)

    async def ask():
        transport = httpx.ASGITransport(create_app(service), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/readyz")

    assert "Something went wrong here" in problem(asyncio.run(ask()), 500)
