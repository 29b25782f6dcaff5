"""A live model over HTTP: events are in every answer, safe, and only from who may send."""

import os
import signal
import time

import pytest

import surerec as sr
from benchmarks.killing import kill_while_ingesting
from surerec.live import Live
from tests.serving.serving_server import made_up, problem

EVENTS = "v1/events"


@pytest.fixture(scope="module")
def fitted():
    return sr.PopulationConformal("CM12", n_calibration=100).fit(made_up())


@pytest.fixture
def shop(tmp_path, fitted):
    Live.create(tmp_path / "shop", fitted).close()
    return tmp_path / "shop"


def event(user, item, seconds, **more):
    return {"user": user, "item": item, "time": 1_700_000_000 + seconds, **more}


def history_of(client, user, limit=500):
    told = client.post("v1/entry-confidences", json={"user": user, "limit": limit})
    assert told.status_code == 200, told.text
    return told.json()["history"]["item_id"]


def test_events_are_in_the_answers_of_every_worker(shop, start):
    server = start(shop, "--workers", "2")
    taken = []
    with server.client() as client:
        before = client.post("v1/recommendations", json={"user": 7, "confidence": 0.9}).json()
        assert "with each user and day counted once" in before["guarantee"]["sentence"]
        for number in range(12):
            item = before["items"][number]["item_id"] if number < 3 else 5_000 + number
            told = client.post(EVENTS, json={"events": [event(7, item, number, id=str(number))]})
            assert told.status_code == 200, told.text
            assert told.json()["taken"] == 1
            taken.append(item)
            for _ in range(4):  # over new connections: whichever worker takes them
                with server.client() as other:
                    assert history_of(other, 7)[-len(taken) :] == taken
        again = client.post(EVENTS, json={"events": [event(7, taken[0], 0, id="0")]}).json()
        assert (again["taken"], again["again"]) == (0, 1)
        health = client.get("v1/live").json()
        assert health["promised"] == [0.9, 0.8, 0.7]
        assert health["n_events"] == 12
        assert health["n_judged"] == 3
        assert health["not_judged"] == {"new item": 9}
        numbers = client.get("metrics").text
        assert 'surerec_events_total{verdict="judged"} 3.0' in numbers
        assert "surerec_promise_judged_events 3.0" in numbers
        assert "surerec_promise_user_days 1.0" in numbers
        assert 'surerec_promise_observed_by_user_day{confidence="0.9"}' in numbers
        assert "surerec_heaviest_users_share 1.0" in numbers
        somebody = client.post("v1/recommendations", json={"user": 7, "confidence": 0.85}).json()
        assert (
            "kept live at the confidences 0.7, 0.8, 0.9 only" in somebody["guarantee"]["sentence"]
        )
        found = client.get("v1/items", params={"q": "Film 3"}).json()
        assert found["items"]
    assert server.stop() == 0
    assert "Traceback" not in server.text
    with Live(shop, recount=False) as live:  # what a fit of the same events counts
        assert live.status().n_events == 12


def test_a_database_that_is_away_is_503_and_loses_nothing(tmp_path, fitted, start, postgres):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    address = postgres()
    Live.create(tmp_path / "shop", fitted, store=address).close()
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
        assert client.post(EVENTS, json={"events": [event(7, 900, 1)]}).status_code == 200
        allow("false")
        away = [
            client.post(EVENTS, json={"events": [event(7, 901, 2)]}),
            client.post("v1/recommendations", json={"user": 7, "confidence": 0.9}),
            client.get("v1/live"),
        ]
        for answer in away:
            assert "nothing that was is lost: send it again" in problem(answer, 503)
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get("healthz").status_code == 200
        allow("true")
        again = client.post(EVENTS, json={"events": [event(7, 901, 2)]})
        assert (again.status_code, again.json()["taken"]) == (200, 1)
        assert history_of(client, 7)[-2:] == [900, 901]
    assert "Traceback" not in server.text


def test_a_killed_worker_loses_nothing(shop, start):
    server = start(shop, "--workers", "2")
    with server.client() as client:
        for number in range(6):
            sent = {"events": [event(9, 6_000 + number, number)]}
            if number == 3:
                os.kill(server.workers()[0], signal.SIGKILL)
            end = time.monotonic() + 60
            while time.monotonic() < end:  # a client that retries
                try:
                    if client.post(EVENTS, json=sent).status_code == 200:
                        break
                except OSError:
                    pass
                except Exception as error:  # noqa: BLE001  # httpx's, of a connection that broke
                    assert "httpx" in type(error).__module__  # noqa: PT017
            else:
                raise AssertionError(server.text)
        server.wait_for("worker ready", 3, seconds=60)
        assert client.get("v1/live").json()["n_events"] == 6
        assert history_of(client, 9)[-6:] == [6_000 + number for number in range(6)]


def test_a_person_is_forgotten(shop, start):
    server = start(shop, "--workers", "2")
    with server.client() as client:
        client.post(EVENTS, json={"events": [event(11, 7_000, 1)]})
        receipt = client.post("admin/forget", json={"user": 11})
        assert receipt.status_code == 200, receipt.text
        assert receipt.json()["n_events"] == 1
        assert "11" not in str(receipt.json()["stays"])
        for _ in range(4):
            with server.client() as other:
                asked = other.post("v1/recommendations", json={"user": 11, "confidence": 0.9})
                assert problem(asked, 404) == "There is no such user."
        assert problem(client.post("admin/forget", json={"user": 11}), 404)


def test_a_second_server_is_refused(shop, start):
    start(shop, "--workers", "1")
    with pytest.raises(AssertionError, match="one server at a time"):
        start(shop, "--workers", "1")


def test_without_keys_events_and_admin_requests_are_refused_on_loopback_too(shop, start):
    server = start(shop, "--workers", "1", insecure=False)
    with server.client() as client:
        assert client.post("v1/recommendations", json={"user": 7}).status_code == 200
        asked = {
            EVENTS: {"events": [event(7, 8_000, 1)]},
            "admin/forget": {"user": 7},
            "admin/reload": {},
            "admin/nowhere": {},
        }
        for path, body in asked.items():
            assert "--insecure-admin" in problem(client.post(path, json=body), 403)
        assert client.post("v1/recommendations", json={"user": 7}).status_code == 200


def test_sending_events_needs_its_own_scope(shop, start, cli, tmp_path):
    keys = tmp_path / "keys.json"
    made = {
        scope: cli("keys", "create", keys, "--name", scope, "--scope", scope).out.strip()
        for scope in ("read", "events", "admin")
    }
    server = start(shop, "--workers", "1", "--keys", str(keys))
    body = {"events": [event(7, 8_000, 1)]}
    with server.client(made["read"]) as reader:
        assert "lacks the scope events" in problem(reader.post(EVENTS, json=body), 403)
        assert reader.get("v1/live").status_code == 200
    with server.client(made["events"]) as sender:
        assert sender.post(EVENTS, json=body).status_code == 200
        asked = sender.post("v1/recommendations", json={"user": 7, "confidence": 0.9})
        assert "lacks the scope read" in problem(asked, 403)
        assert "admin" in problem(sender.post("admin/forget", json={"user": 7}), 403)
    with server.client(made["admin"]) as admin:
        assert admin.post("admin/forget", json={"user": 7}).status_code == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"events": []}, "events is empty"),
        ({"events": [{"user": 1}]}, "events[0].item is missing."),
        ({"events": [{"user": 1, "item": 2, "rating": 5}]}, "There is no field events[0].rating."),
        ({"events": [{"user": [1], "item": 2}]}, "events[0].user is [1]: "),
        ({"events": [event("ann", 2, 1)]}, "this model's users are whole numbers"),
        ({"events": [event(1, 2, 1), {"user": 1, "item": 2, "time": "soon"}]}, "Event 2: the time"),
        ({"events": [{"user": 1, "item": 2, "time": "2999-01-01"}]}, "more than 5 minutes ahead"),
    ],
)
def test_what_is_no_event_is_one_sentence(living, body, says):
    assert says in problem(living.post(EVENTS, json=body), 422)
    assert living.get("v1/live").json()["n_events"] == 0


def test_answers_are_steered_or_say_that_they_are_not(shop, start):
    with Live(shop, recount=False) as live:  # moves the cuts
        live.observe(event(n, 1 + n % 9, n) for n in range(1, 200))
        whole = live.recommend(7, confidence=0.9)
        assert live.steering_.cuts_nested[0] != 0.1
        as_calibrated = live._state.growing.model.recommend(7, confidence=0.9)
    assert len(whole) != len(as_calibrated)
    server = start(shop, "--workers", "1")
    with server.client() as client:
        asked = {"users": [7], "confidence": 0.9, "k": 100}
        batch = client.post("v1/recommendations/batch", json=asked).json()
        assert [row["item_id"] for row in batch["items"]] == whole.items
        assert min(row["entry_confidence"] for row in batch["items"]) < 0.9
        assert "not steered" not in batch["guarantee"]
        other = client.post("v1/recommendations/batch", json={**asked, "items": whole.items}).json()
        assert other["guarantee"]["sentence"].endswith("not steered by events.")
        assert {row["covered"] for row in batch["items"]} == {True}
        unstated = client.post("v1/recommendations/batch", json={**asked, "confidence": 0.85})
        assert {row["covered"] for row in unstated.json()["items"]} == {False}
        some = {"user": 7, "confidence": 0.9, "items": whole.items[:3]}
        told = client.post("v1/recommendations", json=some).json()["guarantee"]["sentence"]
        assert told.endswith("not steered by events.")
        shown = {row["item_id"]: row["entry_confidence"] for row in batch["items"]}
        asked = {"user": 7, "items": list(shown)}
        told = client.post("v1/p-values", json=asked).json()["items"]
        assert {row["item_id"]: row["entry_confidence"] for row in told} == shown
        short = client.post("v1/recommendations", json={"user": 7, "k": 3}).json()
        assert short["hit_probability"] > 0
        assert short["about_hit_probability"].endswith("not steered by events.")


@pytest.fixture(scope="module")
def living(fitted, tmp_path_factory):
    from tests.serving.serving_server import Server  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("living")
    Live.create(folder / "shop", fitted).close()
    server = Server(folder / "shop", folder / "log", "--workers", "1")
    with server.client() as client:
        yield client
    server.stop()


def test_a_model_that_is_not_live_says_so(client):
    told = problem(client.post(EVENTS, json={"events": [event(1, 2, 1)]}), 409)
    assert "This model takes no events" in told
    assert "takes no events" in problem(client.get("v1/live"), 409)
    assert "takes no events" in problem(client.post("admin/forget", json={"user": 1}), 409)


def test_a_server_that_is_killed_again_and_again_has_each_event_once():
    """As `python -m benchmarks.killing` does at length; what is wrong, it says itself."""
    seen = kill_while_ingesting(600, 2, batch=60)
    assert (seen.n_events, seen.n_kills) == (600, 2)
