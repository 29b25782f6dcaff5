"""Kill the server repeatedly while it ingests events, and check that each is stored once.

``python -m benchmarks.killing [--events 100000] [--kills 50] [--batch 200]`` serves a live model,
sends it events by HTTP with a client that sends again whatever was not acknowledged, and kills the
whole server (``kill -9`` of all its processes) at random moments, a recount in the background
included. At the end every acknowledged event must be there once, scores must be those of counting
all events, and answers after a refit equal those of a fit on the export.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import TYPE_CHECKING, Any

import numpy as np

import surerec as sr
from benchmarks.serving_processes import family, is_running
from surerec.live import Live
from surerec.measures import Query, as_measure

if TYPE_CHECKING:
    from collections.abc import Sequence

_READY = re.compile(r"^Serving .* at (http://\S+/) with", re.MULTILINE)
_SECONDS = 300
_LONGEST_DELAY = 0.3  # seconds after a batch was sent at which the server is killed


@dataclass(frozen=True)
class Killed:
    """The result.

    Attributes
    ----------
    n_events, n_kills : int
        Events that were sent, and kills.
    n_again : int
        Events that had been kept although their acknowledgement was lost: sent again, they changed
        nothing.
    n_recounts : int
        Models that were counted in the background meanwhile.
    seconds, seconds_up : float
        All of it, and the part in which the server was up.
    """

    n_events: int
    n_kills: int
    n_again: int
    n_recounts: int
    seconds: float
    seconds_up: float


class _Server:
    """``surerec serve``, which is killed with all of its workers."""

    def __init__(self, folder: Path, log: Path) -> None:
        with log.open("wb") as out:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                [sys.executable, "-m", "surerec", "serve", str(folder), "--port", "0",
                 "--workers", "1", "--insecure-admin"],
                stderr=out,
            )  # fmt: skip
        self._log = log
        self.url = self._wait()

    def _wait(self) -> str:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if found := _READY.search(self._log.read_text()):
                return found[1]
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"The server did not start: {self._log.read_text()}")

    def kill(self) -> None:
        """Kill its processes with SIGKILL.

        Workers are sessions of their own: one that lost its supervisor ends in good order.
        """
        processes = family(self._process.pid) if self._process.poll() is None else []
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        while any(map(is_running, processes)):
            time.sleep(0.001)

    def send(self, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Send events; None if they were not acknowledged."""
        request = urllib.request.Request(  # noqa: S310  # our own server
            f"{self.url}v1/events",
            data=json.dumps({"events": events}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                reply: dict[str, Any] = json.load(answer)
                return reply
        except urllib.error.HTTPError as error:
            if error.code == 503:  # busy: send again
                return None
            raise
        except (OSError, HTTPException, ValueError):  # disconnected, possibly within a response
            return None


def _stream(n_events: int, random_state: int) -> tuple[sr.Interactions, list[dict[str, Any]]]:
    """Return early interactions, and later ones as events in time order, with ids."""
    n_rows = n_events + max(n_events // 2, 4000)
    n_users, n_items = max(200, n_rows // 60), max(60, n_rows // 300)
    films = sr.datasets.synthetic(n_users, n_items, n_rows, drift=0.2, random_state=random_state)
    frame = films.to_frame().sort("datetime", maintain_order=True)
    late = frame.tail(n_events).rename({"user_id": "user", "item_id": "item"})
    events = [
        {"user": row["user"], "item": row["item"], "time": f"{row['datetime'].isoformat()}+00:00",
         "id": str(number)}
        for number, row in enumerate(late.to_dicts())
    ]  # fmt: skip
    return sr.read_interactions(frame.head(n_rows - n_events)), events


def kill_while_ingesting(
    n_events: int, n_kills: int, batch: int = 200, random_state: int = 0, store: str = "sqlite"
) -> Killed:
    """Send events to a server that is killed repeatedly, and check the result.

    Parameters
    ----------
    n_events, n_kills, batch : int
        How many events in all, how many kills, how many events at a time.
    random_state : int
        Of the data and of the moments.
    store : str
        "sqlite", or the address of an empty PostgreSQL database.
    """
    past, events = _stream(n_events, random_state)
    rng, begin = np.random.default_rng(random_state), time.monotonic()
    batches = [events[start : start + batch] for start in range(0, len(events), batch)]
    doomed = set(rng.choice(len(batches), size=min(n_kills, len(batches)), replace=False).tolist())
    model = _recommender().fit(past)
    with TemporaryDirectory() as name:
        folder = Path(name) / "shop"
        Live.create(folder, model, store=store).close()
        server, up, n_again, n_killed = _Server(folder, Path(name) / "log"), 0.0, 0, 0
        try:
            for place, some in enumerate(batches):
                timer = None
                if place in doomed:
                    timer = Timer(_LONGEST_DELAY * float(rng.random()), server.kill)
                    timer.start()
                    n_killed += 1
                clock = time.monotonic()
                reply = server.send(some)
                up += time.monotonic() - clock
                if timer is not None:
                    timer.join()
                    server = _Server(folder, Path(name) / "log")
                while reply is None:
                    clock = time.monotonic()
                    reply = server.send(some)
                    up += time.monotonic() - clock
                    n_again += 0 if reply is None else reply["duplicates"]
        finally:
            server.kill()
        n_recounts = _check(folder, past, events, Path(name))
    seconds = time.monotonic() - begin
    return Killed(len(events), n_killed, n_again, n_recounts, seconds, up)


def _recommender() -> sr.PopulationConformal:
    return sr.PopulationConformal("CM12", n_calibration=200)


def _check(folder: Path, past: sr.Interactions, events: list[dict[str, Any]], room: Path) -> int:
    """Check that all events are stored once, and that answers equal those of a fit."""
    with Live(folder, refit=False) as live:
        with live._state.store.reading() as transaction:  # noqa: SLF001  # what is stored
            kept = [event.key for event in transaction.events()]
        assert sorted(kept) == sorted(f"id {event['id']}" for event in events), "not each once"
        n_recounts = live.base_ - 1
        named = [{"user_id": each["user"], "item_id": each["item"],
                  "datetime": each["time"].removesuffix("+00:00")} for each in events]  # fmt: skip
        whole = _with(past, named)
        counts = sr.count_precedence(whole)
        scorer = as_measure("CM12").fit(counts)
        with live.snapshot() as model:
            users = whole.users.ids.sample(min(200, whole.n_users), seed=1).to_list()
            for user in users:
                theirs = _by_id(model.scorer, model.statistics.interactions, user)
                assert theirs == _by_id(scorer, whole, user), f"other scores of user {user}"
        live.refit()
        live.export(room / "all.parquet")
        exported = sr.read_interactions(room / "all.parquet")
        columns = ["user_id", "item_id", "datetime"]
        mine, other = (each.to_frame().select(columns).sort(columns) for each in (exported, whole))
        assert mine.rows() == other.rows(), "the export is not what was sent"
        fresh = _recommender().fit(exported)
        with live.snapshot() as model:
            as_fitted = replace(model, calibration=model.calibration.fitted)
            for user in users:
                served, fitted = (
                    each.recommend(user, confidence=0.9) for each in (as_fitted, fresh)
                )
                assert served.items == fitted.items, f"other items for user {user}"
                assert served.guarantee == fitted.guarantee, f"another guarantee for user {user}"
    return n_recounts


def _with(past: sr.Interactions, named: list[dict[str, Any]]) -> sr.Interactions:
    import polars as pl  # noqa: PLC0415

    first = past.to_frame()
    more = pl.DataFrame(named).with_columns(
        pl.col("datetime").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f")
    )
    more = more.select(pl.col(name).cast(first[name].dtype) for name in first.columns)
    return sr.read_interactions(pl.concat([first, more]))


def _by_id(scorer: Any, known: Any, user: Any) -> dict[Any, float]:
    scores = scorer.score_query(Query.of_user(known, known.users.code(user)))
    return dict(zip(known.items.ids.to_list(), scores.tolist(), strict=True))


def main() -> None:
    """Run the benchmark and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--postgres", help="the address of an empty database, instead of SQLite")
    given = parser.parse_args()
    seen = kill_while_ingesting(
        given.events, given.kills, given.batch, given.random_state, given.postgres or "sqlite"
    )
    print(
        f"{seen.n_events:,} events, {seen.n_kills} kills of the server, {seen.n_recounts} recounts "
        f"in the background, {seen.seconds:,.0f} s ({seen.n_events / seen.seconds_up:,.0f} events "
        f"a second while it was up): each is there once ({seen.n_again:,} were kept before their "
        "acknowledgement was lost), scores and answers are those of a fit"
    )


if __name__ == "__main__":
    main()
