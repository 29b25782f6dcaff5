"""Live models over HTTP: durable events, errors of the store, alerts."""

import os
import signal
import time

import httpx
import pytest

from benchmarks.killing import kill_while_ingesting
from surerec.live import Live
from tests.serving.serving_server import problem

EVENTS = "v1/events"


def event(user, item, seconds, **more):
    return {"user": user, "item": item, "time": 1_700_000_000 + seconds, **more}


def send(client, *events):
    return client.post(EVENTS, json={"events": list(events)})


def recommend(client, **options):
    return client.post("v1/recommendations", json={"user": 7, "confidence": 0.9, **options})


def history_of(client, user):
    answer = client.post("v1/entry-confidences", json={"user": user})
    assert answer.status_code == 200, answer.text
    return answer.json()["history"]["item_id"]


def test_events_are_in_the_answers_of_every_worker(shop, start):
    server, consumed = start(shop, "--workers", "2"), []
    with server.client() as client:
        before = recommend(client).json()
        assert "with each user and day counted once" in before["guarantee"]["sentence"]
        for number in range(12):
            item = before["items"][number]["item_id"] if number < 3 else 5_000 + number
            answer = send(client, event(7, item, number, id=str(number)))
            assert answer.status_code == 200, answer.text
            assert answer.json()["ingested"] == 1
            consumed.append(item)
            for _ in range(4):  # new connections reach any worker
                with server.client() as other:
                    assert history_of(other, 7)[-len(consumed) :] == consumed
        repeated = send(client, event(7, consumed[0], 0, id="0")).json()
        assert (repeated["ingested"], repeated["duplicates"]) == (0, 1)
        status = client.get("v1/live").json()
        assert status["nominal"] == [0.9, 0.8, 0.7]
        assert (status["n_events"], status["n_evaluated"]) == (12, 3)
        assert status["not_evaluated"] == {"new item": 9}
        numbers = client.get("metrics").text
        for line in (
            'surerec_events_total{outcome="evaluated"} 3.0',
            "surerec_live_evaluated_events 3.0",
            "surerec_live_user_days 1.0",
            'surerec_live_observed_by_user_day{confidence="0.9"}',
            "surerec_live_heaviest_users_share 1.0",
        ):
            assert line in numbers
        answer = recommend(client, confidence=0.85).json()["guarantee"]["sentence"]
        assert "given only at the confidence levels 0.7, 0.8, 0.9" in answer
        assert client.get("v1/items", params={"q": "Film 3"}).json()["items"]
        # A user is forgotten by all workers.
        receipt = client.post("admin/forget", json={"user": 7}).json()
        assert receipt["n_events"] == 12
        for _ in range(4):
            with server.client() as other:
                assert (
                    problem(recommend(other), 404)
                    == "There is no such user. Send an id of the data."
                )
        assert problem(client.post("admin/forget", json={"user": 7}), 404)
    with pytest.raises(AssertionError, match="Run one server at a time"):
        start(shop, "--workers", "1")
    assert server.stop() == 0
    assert "Traceback" not in server.text


def test_an_unavailable_database_is_503_and_loses_nothing(tmp_path, films, start, postgres):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    address = postgres()
    Live.create(tmp_path / "shop", films.models["sets"], store=address).close()
    server = start(tmp_path / "shop", "--workers", "1")

    def allow(connections):
        name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
        others = psycopg.conninfo.make_conninfo(address, dbname="postgres")
        with psycopg.connect(others, autocommit=True) as database:
            database.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {connections}")
            database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )

    with server.client() as client:
        assert send(client, event(7, 900, 1)).status_code == 200
        allow("false")
        away = (send(client, event(7, 901, 2)), recommend(client), client.get("v1/live"))
        for answer in away:
            assert "The event store failed (unavailable); nothing was stored." in problem(
                answer, 503
            )
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get("healthz").status_code == 200
        allow("true")
        assert send(client, event(7, 901, 2)).json()["ingested"] == 1
        assert history_of(client, 7)[-2:] == [900, 901]
    assert "Traceback" not in server.text


def test_a_removed_store_is_503_and_readiness_fails(shop, start):
    server = start(shop, "--workers", "1", "--log-format", "json")
    with server.client() as client:
        assert send(client, event(7, 900, 1)).status_code == 200
        assert client.get("readyz").status_code == 200
        for file in shop.glob("events.sqlite*"):
            file.unlink()
        for answer in (send(client, event(7, 901, 2)), recommend(client), client.get("readyz")):
            assert "(file removed or replaced)" in problem(answer, 503)
        assert client.get("healthz").status_code == 200
    failed = [str(line) for line in server.lines("event store failed")]
    assert len(failed) == 3
    assert all("file removed or replaced" in line and str(shop) not in line for line in failed)


def test_a_killed_worker_loses_nothing(shop, start):
    server = start(shop, "--workers", "2")
    with server.client() as client:
        for number in range(6):
            if number == 3:
                os.kill(server.workers()[0], signal.SIGKILL)
            end, status = time.monotonic() + 60, 0
            while status != 200 and time.monotonic() < end:  # a client that retries
                try:
                    status = send(client, event(9, 6_000 + number, number)).status_code
                except httpx.TransportError:
                    continue
            assert status == 200, server.text
        server.wait_for("worker ready", 3, seconds=60)
        assert client.get("v1/live").json()["n_events"] == 6
        assert history_of(client, 9)[-6:] == [6_000 + number for number in range(6)]


@pytest.mark.slow
def test_a_repeatedly_killed_server_stores_each_event_once():
    """A short run of `python -m benchmarks.killing`, which checks the events."""
    seen = kill_while_ingesting(600, 2, batch=60)
    assert (seen.n_events, seen.n_kills) == (600, 2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"events": [{"user": 1}]}, "events[0].item is missing."),
        ({"events": [{"user": 1, "item": 2, "rating": 5}]}, "There is no field events[0].rating."),
        ({"events": [{"user": [1], "item": 2}]}, "events[0].user is [1]: "),
        ({"events": [event(1, 2, 1), event("ann", 2, 1)]}, "User ids of this model are integers"),
    ],
)
def test_invalid_events_are_refused(alive, body, message):
    before = alive.get("v1/live").json()["n_events"]
    assert message in problem(alive.post(EVENTS, json=body), 422)
    assert alive.get("v1/live").json()["n_events"] == before


def test_models_that_are_not_live_refuse_events(films):
    for answer in (
        send(films.client, event(1, 2, 1)),
        films.client.get("v1/live"),
        films.client.post("admin/forget", json={"user": 1}),
    ):
        assert "This model is not live. Create a live model" in problem(answer, 409)
