"""Load and fault tests of the server: ``python -m benchmarks.serving MODEL``. See README.md."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.serving_clients import Answer, Expected, garbage, load, some_users, timings
from benchmarks.serving_processes import Bare, Served

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

import surerec as sr

_CONNECTIONS = (1, 8, 64)
_BAR_MS = 3.0
_PATIENCE = 120.0


def main() -> int:
    """Run the tests; return 1 for a wrong answer, a lost request or a missed target."""
    settings = _settings()
    with TemporaryDirectory() as name:
        folder = Path(name) / "model"
        shutil.copytree(settings.model, folder)
        results: dict[str, Any] = {}
        if settings.only != "faults":
            results["load"] = _load(folder, settings)
            _show_load(results["load"])
        if settings.only != "load":
            results["faults"] = _faults(folder, settings)
            _show_faults(results["faults"])
    if settings.output is not None:
        settings.output.write_text(json.dumps(results, indent=2) + "\n")
    return 0 if _is_good(results) else 1


def _settings() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "model", type=Path, help="a model folder, such as `surerec fit ml-1m` makes"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=["load", "faults"], help="one of the two")
    parser.add_argument("--output", type=Path, help="write what was measured as JSON")
    return parser.parse_args()


def _load(folder: Path, settings: Namespace) -> list[dict[str, Any]]:
    """Compare our answers with a bare FastAPI endpoint that sends as many bytes."""
    rows = []
    user = some_users(folder)[10]
    bodies = {"20 best": {"user": user, "k": 20}, "whole set": {"user": user}}
    for what, body in bodies.items():
        content = json.dumps({**body, "confidence": 0.9}).encode()
        with Served(folder, settings.workers) as ours:
            url = f"{ours.url}v1/recommendations"
            headers = {"Content-Type": "application/json"}
            n_bytes = len(httpx.post(url, content=content, headers=headers).content)
            with Bare(n_bytes, settings.workers) as bare:
                for n in _CONNECTIONS:
                    pairs = [
                        [timings(one, content, n, settings.seconds) for one in (url, bare.url)]
                        for _ in range(settings.rounds)
                    ]
                    mine, theirs = (min(side, key=_median) for side in zip(*pairs, strict=True))
                    about = {"what": what, "bytes": n_bytes, "connections": n}
                    rows.append({**about, "ours": mine, "bare": theirs})
    return rows


def _median(results: dict[str, float]) -> float:
    return results["p50"]


def _faults(folder: Path, settings: Namespace) -> list[dict[str, Any]]:
    """Request the sets of 200 users over 8 connections during faults."""
    expected = Expected()
    scenarios: dict[str, Callable[[Served], Awaitable[None]]] = {
        "nothing": _nothing,
        "a worker is killed, twice": _kill,
        "the model is swapped, three times": _swapper(folder, expected),
        "garbage and oversized requests": garbage,
        "all of these": _everything(folder, expected),
    }
    rows = []
    for what, happens in scenarios.items():
        with Served(folder, settings.workers) as server:
            expected.add(folder)
            answers = asyncio.run(_while(server, happens, some_users(folder)))
            back = server.ready_workers() == settings.workers
        rows.append({"while": what, "workers back": back, **expected.judge(answers)})
    return rows


async def _while(
    server: Served, happens: Callable[[Served], Awaitable[None]], users: Sequence[Any]
) -> list[Answer]:
    end = asyncio.Event()
    asking = asyncio.create_task(load(server.url, users, end, n_connections=8))
    try:
        await asyncio.sleep(1.0)
        async with asyncio.timeout(_PATIENCE):  # a reload may hang
            await happens(server)
        await asyncio.sleep(1.0)
    finally:
        end.set()
    return await asking


async def _nothing(_: Served) -> None:
    await asyncio.sleep(1.0)


async def _kill(server: Served) -> None:
    for n in (1, 2):
        os.kill(await server.busiest(), signal.SIGKILL)
        await server.wait_for("worker ready", server.n_workers + n)


def _swapper(folder: Path, expected: Expected) -> Callable[[Served], Awaitable[None]]:
    """Swap between two models, by signal and by the admin endpoint."""

    async def swap(server: Served) -> None:
        for n, measure in enumerate(("CM3", "CM7", "CM12"), start=1):
            model = sr.load(folder, verify=False)
            other = sr.InductiveConformal(measure).fit(model.statistics_)
            await asyncio.to_thread(other.save, folder, "icrs12")
            expected.add(folder)
            if n % 2:
                os.kill(server.process.pid, signal.SIGHUP)
            else:
                async with httpx.AsyncClient(timeout=30) as client:
                    (await client.post(f"{server.url}admin/reload")).raise_for_status()
            await server.wait_for("model taken over", n)
            await asyncio.sleep(0.3)

    return swap


def _everything(folder: Path, expected: Expected) -> Callable[[Served], Awaitable[None]]:
    async def all_at_once(server: Served) -> None:
        swap = _swapper(folder, expected)
        await asyncio.gather(_kill(server), swap(server), garbage(server, may_die=True))

    return all_at_once


def _show_load(rows: list[dict[str, Any]]) -> None:
    names = "requests/s | bare | ratio | p50 ms | bare | p99 ms | bare | 503s"
    print(f"| answer | bytes | connections | {names} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        ours, bare = row["ours"], row["bare"]
        print(
            f"| {row['what']} | {row['bytes']:,} | {row['connections']} | {ours['rate']:,.0f} | "
            f"{bare['rate']:,.0f} | {ours['rate'] / bare['rate']:.2f} | {ours['p50']:.2f} | "
            f"{bare['p50']:.2f} | {ours['p99']:.2f} | {bare['p99']:.2f} | {ours['refused']:.0f} |"
        )
    for row in rows:
        if row["connections"] == 1:
            over = row["ours"]["p50"] - row["bare"]["p50"]
            verdict = "met" if over <= _BAR_MS else "NOT MET"
            print(
                f"p50 overhead, {row['what']}, 1 connection: {over:.2f} ms ({_BAR_MS:g}: {verdict})"
            )


def _show_faults(rows: list[dict[str, Any]]) -> None:
    print(
        "\n| while | answers | wrong | lost | retried | busy (503) | models seen | workers back |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['while']} | {row['answers']:,} | {row['wrong']} | {row['lost']} | "
            f"{row['retried']} | {row['busy']} | {row['models']} | "
            f"{'yes' if row['workers back'] else 'NO'} |"
        )


def _is_good(results: dict[str, Any]) -> bool:
    quick = all(
        row["ours"]["p50"] - row["bare"]["p50"] <= _BAR_MS
        for row in results.get("load", [])
        if row["connections"] == 1
    )
    whole = all(
        not row["wrong"] and not row["lost"] and row["workers back"]
        for row in results.get("faults", [])
    )
    # Only a killed worker may cost a retry.
    kept = all(
        not row["retried"]
        for row in results.get("faults", [])
        if "killed" not in row["while"] and "all" not in row["while"]
    )
    return quick and whole and kept


if __name__ == "__main__":
    sys.exit(main())
