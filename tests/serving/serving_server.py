"""A real ``surerec serve`` process on a free port, and synthetic data for it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import polars as pl

import surerec as sr
from surerec.recommenders import make_recommender, save_all

NASTY = '<img src=x onerror="document.title=1"> & "Sons"'
ACCENT = "Amélie à la plage"
NAMES = ("icrs12", "icrs3", "crs-max", "precedence-mining")


def synthetic(random_state=1, n_users=300, n_items=120):
    """Return small data with titles, two of which test escaping."""
    films = sr.datasets.synthetic(
        n_users=n_users, n_items=n_items, n_rows=6_000, random_state=random_state
    )
    ids = films.items.ids
    titles = [f"Film {number}" for number in range(len(ids))]
    titles[0], titles[1] = NASTY, ACCENT
    genres = [None if number % 3 else f"Genre {number % 5}, {NASTY}" for number in range(len(ids))]
    return sr.Interactions(
        films.users,
        films.items,
        films.offsets,
        films.item_codes,
        films.times,
        titles=pl.DataFrame({"item_id": ids, "title": titles, "genres": genres}),
        name="made-up",
        origin="/home/ann/secret.csv",
    )


def save(folder, random_state=1, *, overwrite=False, names=NAMES):
    statistics = sr.count_precedence(synthetic(random_state))
    save_all(folder, {n: make_recommender(n).fit(statistics) for n in names}, overwrite=overwrite)
    return folder


class ByCode:
    """A scorer in Python code, which model folders do not store."""

    def __init__(self, n_items):
        self.n_items = n_items

    def score(self, history, *, without_user=None):  # noqa: ARG002  # a scorer's signature
        return -np.arange(self.n_items, dtype=float)


def save_without_scorer(folder, *, overwrite=False):
    films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)
    model = sr.PopulationConformal(ByCode(films.n_items)).fit(films)
    model.save(folder, overwrite=overwrite)
    return folder


def until(condition, seconds=30):
    """Return the first true value of a condition, or its last one after some seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


class Server:
    """A ``surerec serve`` process with its log and address."""

    def __init__(self, model, log, *options, env=None, insecure=True):
        self.log_path = log
        if insecure and "--keys" not in options:
            options = (*options, "--insecure-admin")
        with log.open("wb") as out:
            self.process = subprocess.Popen(  # noqa: S603  # our own command
                [sys.executable, "-m", "surerec", "serve", str(model), "--port", "0", *options],
                stderr=out,
                env=os.environ | (env or {}),
            )
        self.url = self._wait_until_ready()

    def _wait_until_ready(self, seconds=300):  # kernels may have to be compiled first
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(r"^Serving .* at (http://\S+/) with", self.text, re.MULTILINE):
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        raise AssertionError(self.text)

    @property
    def text(self):
        return self.log_path.read_text()

    def lines(self, event=None):
        # Skip a line that is still being written.
        whole = [line for line in self.text.splitlines(keepends=True) if line.endswith("\n")]
        found = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in found if event in (None, line["event"])]

    def workers(self):
        """Return the process ids of the workers, latest last."""
        return [line["worker"] for line in self.lines("worker ready")]

    def mapped(self, folder):
        """Return the files of a folder that the server has mapped, including deleted ones."""
        lines = [
            line
            for pid in (self.process.pid, *self.workers())
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
        ]
        return {line.split(maxsplit=5)[5] for line in lines if f"{folder}/" in line}

    def wait_for(self, event, n=1, seconds=30):
        assert until(lambda: len(self.lines(event)) >= n, seconds), (n, event, self.text)
        return self.lines(event)

    def client(self, key=None, **more):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, **more)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def problem(response, status):
    """Check that a response is a problem without leaks; return its detail."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["detail"].endswith((".", "?"))
    for leak in ("Traceback", "/home", "/tmp", "site-packages", ".py", sr.__version__):  # noqa: S108
        assert leak not in response.text
    return body["detail"]
