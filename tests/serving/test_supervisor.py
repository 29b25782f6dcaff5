"""A new model, a dead worker, a hung one, a dead supervisor: while requests keep coming."""

import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import surerec as sr
from surerec.live import Live
from tests.serving.serving_server import problem, save, save_without_scorer

needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux only")


@pytest.fixture
def folder(model_folder, tmp_path):
    return Path(shutil.copytree(model_folder, tmp_path / "films"))


def without_scorer(folder):
    save_without_scorer(folder, overwrite=True)
    return "was saved without its scorer (ByCode)"


def flip_a_count(folder):
    """Change one count, which nothing but its checksum can tell."""
    path = next(folder.glob("followers-*"))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    return "has changed since it was saved"


class Load:
    """Requests in several threads, each answer kept with the model that it says it is of."""

    def __init__(self, server, users, *, retries=0, threads=4):
        self.server, self.users, self.retries = server, users, retries
        self.answers, self.lost, self.retried = [], [], 0
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        client = self.server.client()
        while not self._end.is_set():
            number += 1
            body = asked(self.users[number % len(self.users)])
            for attempt in range(self.retries + 1):
                try:
                    answer = client.post("v1/recommendations", json=body)
                except httpx.TransportError as error:
                    client = self.server.client()
                    self.retried += 1
                    if attempt == self.retries:
                        self.lost.append(error)
                    continue
                self.answers.append((body["user"], answer))
                break
        client.close()

    def check(self, models):
        """Every answer is right, for the model that it names."""
        expected = {}
        for user, answer in self.answers:
            assert answer.status_code == 200, answer.text
            name = answer.headers["surerec-model"]
            if (name, user) not in expected:
                picks = models[name].recommend(user, confidence=0.8, k=5)
                expected[name, user] = picks.items, picks.guarantee.to_dict()
            told = answer.json()
            found = [row["item_id"] for row in told["items"]], told["guarantee"]
            assert found == expected[name, user]
        return {answer.headers["surerec-model"] for _, answer in self.answers}


def asked(user):
    return {"user": user, "confidence": 0.8, "k": 5}


def served(server):
    with server.client() as client:
        return client.get("v1/model").headers["surerec-model"]


@needs_proc
@pytest.mark.parametrize("way", ["signal", "admin"])
def test_a_new_model_is_taken_over_without_losing_a_request(start, folder, way):
    server = start(folder, "--workers", "2")
    models = {served(server): sr.load(folder)}
    users = models[served(server)].statistics_.interactions.users.ids[:25].to_list()
    with Load(server, users) as load:
        time.sleep(0.3)
        for random_state in (2, 3):
            save(folder, random_state=random_state, overwrite=True, names=["icrs12"])
            if way == "signal":
                os.kill(server.process.pid, signal.SIGHUP)
                server.wait_for("model taken over", random_state - 1)
            else:
                with server.client() as client:
                    told = client.post("admin/reload").json()
                assert told["changed"] is True
                assert told["workers"] == 2
            models[served(server)] = sr.load(folder)
            time.sleep(0.3)
    assert len(models) == 3
    assert not load.lost
    assert load.check(models) == set(models)
    with server.client() as client:
        assert 'surerec_model_swaps_total{result="done"} 2.0' in client.get("metrics").text
    end = time.monotonic() + 10
    while any(name.endswith("(deleted)") for name in server.mapped(folder)):
        assert time.monotonic() < end, "a process keeps the files of an old model mapped"
        time.sleep(0.2)


@needs_proc
def test_an_idle_worker_releases_a_live_model_that_another_counted_anew(start, films, tmp_path):
    shop = tmp_path / "shop"
    Live.create(shop, films.models["sets"]).close()
    server = start(shop, "--workers", "2", "--worker-timeout", "1")
    items = films.data.items.ids[:10].to_list()
    events = [
        {"user": 5_000 + n // 10, "item": items[n % 10], "time": 1_700_000_000 + n}
        for n in range(1_000)  # from which on one of the workers counts anew
    ]
    assert server.mapped(shop / "models/000001")
    with server.client() as client:
        for first in range(0, len(events), 100):
            told = client.post("v1/events", json={"events": events[first : first + 100]})
            assert told.status_code == 200, told.text
    end = time.monotonic() + 60
    while time.monotonic() < end and server.mapped(shop / "models/000001"):
        time.sleep(0.2)
    assert not server.mapped(shop / "models/000001")
    assert server.mapped(shop / "models/000002")
    with server.client() as client:
        assert client.post("v1/recommendations", json=asked(1)).status_code == 200


@pytest.mark.parametrize("damage", [without_scorer, flip_a_count])
def test_neither_a_reload_nor_a_new_worker_serves_what_is_damaged(start, folder, damage):
    server = start(folder, "--workers", "1")
    before = served(server)
    save(folder, random_state=2, overwrite=True, names=["icrs12"])
    says = damage(folder)
    with server.client() as client:
        assert "served on" in problem(client.post("admin/reload"), 409)
        assert client.post("v1/recommendations", json={"user": 1}).status_code == 200
    assert served(server) == before
    assert says in server.lines("model not taken over")[0]["why"]
    os.kill(server.workers()[-1], signal.SIGKILL)
    assert says in server.wait_for("worker cannot serve")[0]["why"]
    # As soon as the folder is whole, it is served.
    save(folder, random_state=3, overwrite=True, names=["icrs12"])
    server.wait_for("worker ready", 2)
    assert served(server) != before


def test_a_killed_worker_loses_only_what_it_held_and_comes_back(start, folder):
    server = start(folder, "--workers", "2")
    models = {served(server): sr.load(folder)}
    users = models[served(server)].statistics_.interactions.users.ids[:25].to_list()
    with Load(server, users, retries=1) as load:
        for n in (1, 2):
            time.sleep(0.4)
            latest = [line["process"] for line in server.lines("request")[-20:]]
            os.kill(max(latest, key=latest.count), signal.SIGKILL)  # one that is at work
            server.wait_for("worker ready", 2 + n)
        time.sleep(0.3)
    assert not load.lost  # one retry was always enough
    assert load.retried <= 2 * 4  # at most what each of the four connections had under way
    load.check(models)
    ended = server.lines("worker ended")
    assert [line["code"] for line in ended] == [-signal.SIGKILL] * 2
    with server.client() as client:
        text = client.get("metrics").text
    assert "surerec_worker_restarts_total 2.0" in text
    assert "surerec_workers_ready 2.0" in text


def test_a_worker_that_comes_back_to_a_changed_folder_brings_the_others_along(start, folder):
    server = start(folder, "--workers", "2")
    before = served(server)
    save(folder, random_state=2, overwrite=True, names=["icrs12"])
    os.kill(server.workers()[0], signal.SIGKILL)
    server.wait_for("model taken over")
    after = {served(server) for _ in range(12)}
    assert len(after) == 1
    assert after != {before}


def test_a_worker_that_hangs_is_replaced(start, folder):
    server = start(folder, "--workers", "1", "--worker-timeout", "1")
    os.kill(server.workers()[0], signal.SIGSTOP)
    server.wait_for("worker hangs")
    server.wait_for("worker ready", 2)
    with server.client() as client:
        assert client.get("readyz").status_code == 200


@needs_proc
def test_workers_end_when_their_supervisor_is_killed(start, folder):
    server = start(folder, "--workers", "2")
    workers = server.workers()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    end = time.monotonic() + 20
    while time.monotonic() < end and any(map(is_running, workers)):
        time.sleep(0.1)
    assert not any(map(is_running, workers))


def is_running(pid):
    try:  # an orphan that nobody waits for is still listed, as a zombie
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_link_to_another_folder_is_followed_when_reloaded(start, folder, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(folder)
    server = start(link, "--workers", "1")
    before = served(server)
    newer = save(tmp_path / "newer", random_state=5, names=["icrs12"])
    (tmp_path / "next").symlink_to(newer)
    (tmp_path / "next").replace(link)
    shutil.rmtree(folder)  # mapped files live on until they are let go
    with server.client() as client:
        assert client.post("v1/recommendations", json={"user": 1}).status_code == 200
        assert client.post("admin/reload").json()["changed"] is True
    assert served(server) != before


def test_stopping_lets_requests_end(start, folder):
    server = start(folder, "--workers", "1")
    body = {"users": list(range(1, 301)), "k": 100, "recommender": "crs-max"}
    with ThreadPoolExecutor(1) as pool, server.client() as client:
        client.get("healthz")
        waiting = pool.submit(client.post, "v1/recommendations/batch", json=body)
        time.sleep(0.05)
        os.kill(server.process.pid, signal.SIGTERM)
        assert waiting.result().status_code == 200
    assert server.stop() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "healthz")
