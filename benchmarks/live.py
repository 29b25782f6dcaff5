"""What a live model costs: events a second beside the bare database, and answers as it grows.

``python -m benchmarks.live [ml-100k] [--postgres ADDRESS]`` prints events a second, one at a time
and in batches, beside a bare table that the same rows are inserted into with the same durability;
and the time of a recommendation with 1 % of the data as events, beside that without.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import surerec as sr
from surerec.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BAR = 1.5
"""Times the answer of a model without events."""

_TABLE = "CREATE TABLE bare (seq BIGINT PRIMARY KEY, person TEXT, item TEXT, time BIGINT)"
_ROW = "INSERT INTO bare VALUES (?, ?, ?, ?)"


def _batches(rows: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _speed(task: Callable[[Any], object], rows: Sequence[Any], size: int) -> float:
    begin = time.perf_counter()
    for some in _batches(rows, size):
        task(some)
    return len(rows) / (time.perf_counter() - begin)


def _bare_sqlite(folder: Path, rows: Sequence[Any], size: int) -> float:
    with closing(sqlite3.connect(folder / f"bare{size}.sqlite", isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute(_TABLE)

        def insert(some: Any) -> None:
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany(_ROW, some)
            bare.execute("COMMIT")

        return _speed(insert, rows, size)


def _bare_postgres(address: str, rows: Sequence[Any], size: int) -> float:
    import psycopg  # noqa: PLC0415  # an extra

    with psycopg.connect(address) as bare:
        bare.execute("DROP TABLE IF EXISTS bare")
        bare.execute(_TABLE)
        bare.commit()

        def insert(some: Any) -> None:
            with bare.cursor() as cursor:
                cursor.executemany(_ROW.replace("?", "%s"), some)
            bare.commit()

        return _speed(insert, rows, size)


def _clear(address: str) -> None:
    import psycopg  # noqa: PLC0415  # an extra

    with psycopg.connect(address) as database:
        for table in ("meta", "events", "forgotten"):
            database.execute(f"DROP TABLE surerec_{table}")


def _stream(films: sr.Interactions, share: float) -> tuple[sr.Interactions, list[dict[str, Any]]]:
    """Give the data without their latest rows, and these as events in time order."""
    cut = int(np.quantile(films.times, 1 - share))
    frame = films.to_frame()
    late = films.times >= cut
    events = frame.filter(late).sort("datetime", maintain_order=True)
    named = events.rename({"user_id": "user", "item_id": "item", "datetime": "time"})
    return sr.read_interactions(frame.filter(~late)), named.to_dicts()


def _answers(model: Any, users: Sequence[Any]) -> float:
    times = []
    for user in [*users[:20], *users]:
        begin = time.perf_counter()
        model.recommend(user, confidence=0.8)
        times.append(time.perf_counter() - begin)
    return float(np.median(times[20:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="ml-100k")
    parser.add_argument("--postgres", help="the address of an empty database")
    parser.add_argument("--events", type=int, default=1000)
    given = parser.parse_args()
    past, events = _stream(sr.load_dataset(given.data), 0.01)
    model = sr.PopulationConformal("CM12", n_calibration=500).fit(past)
    users = past.users.ids.sample(200, seed=0).to_list()
    rows = [
        (k, str(each["user"]), str(each["item"]), k)
        for k, each in enumerate(events[: given.events])
    ]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for store in filter(None, ("sqlite", given.postgres)):
            for size in (1, 100):
                place = folder / f"{'sqlite' if store == 'sqlite' else 'postgres'}{size}"
                bare = (
                    _bare_sqlite(folder, rows, size)
                    if store == "sqlite"
                    else _bare_postgres(store, rows, size)
                )
                with Live.create(place, model, store=store, recount=False) as live:
                    ours = _speed(live.observe, events[: given.events], size)
                    print(
                        f"{place.name}: {ours:,.0f} events a second, the bare database {bare:,.0f}"
                        f" ({bare / ours:.1f} times as many)"
                    )
                if store != "sqlite":
                    _clear(store)  # a database holds one stream
        with Live.create(folder / "grown", model, recount=False) as live:
            without = _answers(live, users)
            live.observe(events)
            grown = _answers(live, users)
        verdict = "met" if grown <= BAR * without else "NOT MET"
        print(
            f"a recommendation: {1e3 * without:.2f} ms, with {len(events):,} events "
            f"{1e3 * grown:.2f} ms, {grown / without:.2f} times ({BAR} {verdict})"
        )


if __name__ == "__main__":
    main()
