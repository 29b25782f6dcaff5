"""Reloads, dead and hanging workers, and a dead supervisor, under load."""

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
from tests.serving.serving_server import problem, save, save_without_scorer, until

needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux only")


@pytest.fixture
def folder(model_folder, tmp_path):
    return Path(shutil.copytree(model_folder, tmp_path / "films"))


def without_scorer(folder):
    save_without_scorer(folder, overwrite=True)
    return "was saved without its scorer (ByCode)"


def flip_a_count(folder):
    """Change one count, which only its checksum reveals."""
    path = next(folder.glob("followers-*"))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    return "has changed since it was saved"


class Load:
    """Requests in several threads; each response is kept with its user."""

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
            body = request(self.users[number % len(self.users)])
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
        """Check every response against the model in its header; return the models."""
        expected = {}
        for user, answer in self.answers:
            assert answer.status_code == 200, answer.text
            name = answer.headers["surerec-model"]
            if (name, user) not in expected:
                picks = models[name].recommend(user, confidence=0.8, k=5)
                expected[name, user] = picks.items, picks.guarantee.to_dict()
            body = answer.json()
            found = [row["item_id"] for row in body["items"]], body["guarantee"]
            assert found == expected[name, user]
        return {answer.headers["surerec-model"] for _, answer in self.answers}


def request(user):
    return {"user": user, "confidence": 0.8, "k": 5}


def served(server):
    with server.client() as client:
        return client.get("v1/model").headers["surerec-model"]


@needs_proc
@pytest.mark.parametrize("way", ["signal", "admin"])
def test_a_reload_loses_no_request(start, folder, way):
    server = start(folder, "--workers", "2")
    models = {served(server): sr.load(folder)}
    users = models[served(server)].statistics_.interactions.users.ids[:25].to_list()
    with Load(server, users) as load:
        time.sleep(0.3)
        for random_state in (2, 3):
            save(folder, random_state=random_state, overwrite=True, names=["icrs12"])
            if way == "signal":
                os.kill(server.process.pid, signal.SIGHUP)
                server.wait_for("model replaced", random_state - 1)
            else:
                with server.client() as client:
                    response = client.post("admin/reload").json()
                assert response["changed"] is True
                assert response["workers"] == 2
            models[served(server)] = sr.load(folder)
            time.sleep(0.3)
    assert len(models) == 3
    assert not load.lost
    assert load.check(models) == set(models)
    with server.client() as client:
        assert 'surerec_model_swaps_total{result="done"} 2.0' in client.get("metrics").text
    # No process keeps the files of an old model mapped.
    assert until(lambda: not any("(deleted)" in name for name in server.mapped(folder)), 10)


@needs_proc
def test_an_idle_worker_releases_a_model_that_another_refitted(start, films, shop):
    server = start(shop, "--workers", "2", "--worker-timeout", "1")
    items = films.data.items.ids[:10].to_list()
    events = [
        {"user": 5_000 + n // 10, "item": items[n % 10], "time": 1_700_000_000 + n}
        for n in range(1_000)  # enough for a refit
    ]
    assert server.mapped(shop / "models/000001")
    with server.client() as client:
        for first in range(0, len(events), 100):
            response = client.post("v1/events", json={"events": events[first : first + 100]})
            assert response.status_code == 200, response.text
    assert until(lambda: not server.mapped(shop / "models/000001"), 60)
    assert server.mapped(shop / "models/000002")
    with server.client() as client:
        assert client.post("v1/recommendations", json=request(1)).status_code == 200


@pytest.mark.parametrize("damage", [without_scorer, flip_a_count])
def test_damaged_models_are_not_served(start, folder, damage):
    server = start(folder, "--workers", "1")
    before = served(server)
    save(folder, random_state=2, overwrite=True, names=["icrs12"])
    message = damage(folder)
    with server.client() as client:
        assert "still served" in problem(client.post("admin/reload"), 409)
        assert client.post("v1/recommendations", json={"user": 1}).status_code == 200
    assert served(server) == before
    assert message in server.lines("model not loaded")[0]["reason"]
    os.kill(server.workers()[-1], signal.SIGKILL)
    assert message in server.wait_for("worker cannot serve")[0]["reason"]
    # The repaired folder is served.
    save(folder, random_state=3, overwrite=True, names=["icrs12"])
    server.wait_for("worker ready", 2)
    assert served(server) != before


def test_a_killed_worker_loses_only_its_requests_and_is_restarted(start, folder):
    server = start(folder, "--workers", "2")
    models = {served(server): sr.load(folder)}
    users = models[served(server)].statistics_.interactions.users.ids[:25].to_list()
    with Load(server, users, retries=1) as load:
        for n in (1, 2):
            time.sleep(0.4)
            latest = [line["process"] for line in server.lines("request")[-20:]]
            os.kill(max(latest, key=latest.count), signal.SIGKILL)  # a busy worker
            server.wait_for("worker ready", 2 + n)
        time.sleep(0.3)
    assert not load.lost  # one retry sufficed
    assert load.retried <= 2 * 4  # at most what each of the four connections had under way
    load.check(models)
    ended = server.lines("worker ended")
    assert [line["code"] for line in ended] == [-signal.SIGKILL] * 2
    with server.client() as client:
        text = client.get("metrics").text
    assert "surerec_worker_restarts_total 2.0" in text
    assert "surerec_workers_ready 2.0" in text


def test_a_restarted_worker_announces_a_changed_model(start, folder):
    server = start(folder, "--workers", "2")
    before = served(server)
    save(folder, random_state=2, overwrite=True, names=["icrs12"])
    os.kill(server.workers()[0], signal.SIGKILL)
    server.wait_for("model replaced")
    after = {served(server) for _ in range(12)}
    assert len(after) == 1
    assert after != {before}


def test_a_hanging_worker_is_restarted(start, folder):
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
    assert until(lambda: not any(map(is_running, workers)))


def is_running(pid):
    try:  # an orphan may be a zombie
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_reload_follows_a_changed_link(start, folder, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(folder)
    server = start(link, "--workers", "1")
    before = served(server)
    newer = save(tmp_path / "newer", random_state=5, names=["icrs12"])
    (tmp_path / "next").symlink_to(newer)
    (tmp_path / "next").replace(link)
    shutil.rmtree(folder)  # mapped files remain until they are released
    with server.client() as client:
        assert client.post("v1/recommendations", json={"user": 1}).status_code == 200
        assert client.post("admin/reload").json()["changed"] is True
    assert served(server) != before


def test_running_requests_end_before_a_stop(start, folder):
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
