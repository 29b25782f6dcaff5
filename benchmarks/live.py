"""Cost of a live model: events per second against the bare database, and answer times.

``python -m benchmarks.live [ml-100k] [--postgres ADDRESS]`` prints events a second, one at a time
and in batches, beside a bare table that the same rows are inserted into with the same durability;
and the time of a recommendation with and without 1% of the data as events.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import surerec as sr
from surerec.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BAR = 1.5
"""Multiple of the answer time of a model without events."""

_TURNS = 3
_USERS = 200
_SINGLY = 500  # events, one at a time
_TABLE = "CREATE TABLE bare (seq BIGINT PRIMARY KEY, person TEXT, item TEXT, time BIGINT)"
_ROW = "INSERT INTO bare VALUES (?, ?, ?, ?)"


def _batches(rows: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


@contextmanager
def _bare_sqlite(path: Path) -> Iterator[Callable[[Any], object]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute(_TABLE)

        def insert(some: Any) -> None:
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany(_ROW, some)
            bare.execute("COMMIT")

        yield insert


@contextmanager
def _bare_postgres(address: str) -> Iterator[Callable[[Any], object]]:
    import psycopg  # noqa: PLC0415  # an extra

    with psycopg.connect(address) as bare:
        bare.execute("DROP TABLE IF EXISTS bare")
        bare.execute(_TABLE)
        bare.commit()

        def insert(some: Any) -> None:
            with bare.cursor() as cursor:
                cursor.executemany(_ROW.replace("?", "%s"), some)
            bare.commit()

        yield insert


def _clear(address: str) -> None:
    import psycopg  # noqa: PLC0415  # an extra

    with psycopg.connect(address) as database:
        for table in ("meta", "events", "forgotten", "user_days"):
            database.execute(f"DROP TABLE surerec_{table}")


def _stream(films: sr.Interactions, share: float) -> tuple[sr.Interactions, list[dict[str, Any]]]:
    """Return the data without the latest rows, and these as events in time order."""
    threshold = int(np.quantile(films.times, 1 - share))
    frame = films.to_frame()
    late = films.times >= threshold
    events = frame.filter(late).sort("datetime", maintain_order=True)
    named = events.rename({"user_id": "user", "item_id": "item", "datetime": "time"})
    return sr.read_interactions(frame.filter(~late)), named.to_dicts()


def _answers(models: Sequence[Any], users: Sequence[Any]) -> list[float]:
    """Return the median CPU time of a recommendation by each model, measured in turns.

    CPU time, as others may be at work on the machine, and in turns, as it may change its pace.
    """
    times: list[list[float]] = [[] for _ in models]
    for turn in range(_TURNS + 1):  # the first is a warm-up
        for user in users:
            for model, mine in zip(models, times, strict=True):
                begin = time.process_time()
                model.recommend(user, confidence=0.8)
                if turn:
                    mine.append(time.process_time() - begin)
    return [float(np.median(mine)) for mine in times]


def _speeds(
    live: Any, bare: Callable[[Any], object], events: Sequence[Any], rows: Sequence[Any], size: int
) -> tuple[float, float, float]:
    """Return events per second of both in turns, and ours per second of CPU."""
    ours = theirs = cpu = 0.0
    for some, same in zip(_batches(events, size), _batches(rows, size), strict=True):
        begin, busy = time.perf_counter(), time.process_time()
        live.observe(some)
        middle = time.perf_counter()
        cpu += time.process_time() - busy
        bare(same)
        ours, theirs = ours + middle - begin, theirs + time.perf_counter() - middle
    return len(events) / ours, len(rows) / theirs, len(events) / cpu


def _ingesting(
    folder: Path, model: Any, store: str, events: Sequence[Any], rows: Sequence[Any]
) -> None:
    kind = "sqlite" if store == "sqlite" else "postgres"
    for size in (1, 100, 1000):
        with ExitStack() as open_ones:
            place = folder / f"{kind}{size}"
            bare = open_ones.enter_context(
                _bare_sqlite(folder / f"bare{size}.sqlite")
                if store == "sqlite"
                else _bare_postgres(store)
            )
            live = open_ones.enter_context(Live.create(place, model, store=store, refit=False))
            n = len(events) if size > 1 else min(len(events), _SINGLY)
            ours, theirs, cpu = _speeds(live, bare, events[:n], rows[:n], size)
            judged = live.status().n_evaluated
            print(
                f"{kind}, {size} at a time: {ours:,.0f} events a second ({cpu:,.0f} for each of "
                f"CPU; {judged / n:.0%} judged), the bare database {theirs:,.0f}, "
                f"{theirs / ours:.1f} times as many"
            )
        if store != "sqlite":
            _clear(store)  # a database holds one stream


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="ml-100k")
    parser.add_argument("--postgres", help="the address of an empty database")
    parser.add_argument("--events", type=int, default=2000)
    given = parser.parse_args()
    films = sr.load_dataset(given.data)
    share = max(0.01, given.events / films.n_rows)
    past, events = _stream(films, share)
    model = sr.PopulationConformal("CM12", n_calibration=500).fit(past)
    sent = events[: given.events]
    rows = [(k, str(each["user"]), str(each["item"]), k) for k, each in enumerate(sent)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for store in filter(None, ("sqlite", given.postgres)):
            _ingesting(folder, model, store, sent, rows)
        few = events[: films.n_rows // 100]
        users = past.users.ids.sample(_USERS, seed=0).to_list()
        with (
            Live.create(folder / "still", model, refit=False) as still,
            Live.create(folder / "grown", model, refit=False) as grown,
        ):
            grown.observe(few)
            without, after = _answers([still, grown], users)
    verdict = "met" if after <= BAR * without else "NOT MET"
    print(
        f"a recommendation: {1e3 * without:.2f} ms of CPU, with {len(few):,} events "
        f"{1e3 * after:.2f} ms, {after / without:.2f} times ({BAR} {verdict})"
    )


if __name__ == "__main__":
    main()
