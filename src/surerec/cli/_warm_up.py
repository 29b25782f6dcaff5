"""The command that compiles everything beforehand, for images and continuous integration."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surerec._progress import progress
from surerec._threads import available_threads
from surerec.cli._output import messages
from surerec.datasets import synthetic
from surerec.errors import InputError
from surerec.precedence import count_precedence
from surerec.recommenders import load, make_recommender, save_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.precedence import PrecedenceStatistics


def warm_up(
    *,
    only: Annotated[
        str | None, typer.Option(hidden=True, help="One part of it, in this process.")
    ] = None,
) -> None:
    """Compile what answers need, several processes at once, so that nobody waits for it later.

    numba keeps what it compiled beside the package, or where NUMBA_CACHE_DIR says: in an image, run
    it as the user and on the kind of processor that will serve.

    [bold]Example:[/bold] surerec warm-up
    """
    if only is not None:
        if only not in _PARTS:
            raise InputError(f"There is no part {only!r}: choose from {', '.join(_PARTS)}.")
        _PARTS[only](_counts())
        return
    begin = perf_counter()
    _counts()  # what all parts share, so that none of them compiles it again
    with (
        progress("Compiling", len(_PARTS)) as advance,
        ThreadPoolExecutor(min(available_threads(), len(_PARTS))) as pool,
    ):
        running = {pool.submit(_in_process, name): name for name in _PARTS}
        for done in as_completed(running):
            done.result()
            advance(1)
    messages().print(
        f"Compiled for {', '.join(_PARTS)} in {perf_counter() - begin:.0f} s; "
        "the next use of each begins at once."
    )


def _in_process(name: str) -> None:
    # numba compiles under one lock: only processes do it at the same time.
    done = subprocess.run(  # noqa: S603  # ourselves
        [sys.executable, "-m", "surerec", "warm-up", "--only", name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SUREREC_THREADS": "1"},
    )
    if done.returncode:
        raise InputError(f"Warming up {name} failed: {done.stderr.strip().splitlines()[-1][:200]}")


def _counts() -> PrecedenceStatistics:
    return count_precedence(synthetic(n_users=120, n_items=40, n_rows=2_400, seed=1))


def _asked(counts: PrecedenceStatistics, *names: str) -> None:
    """Fit, save, open and ask, as the commands do."""
    with TemporaryDirectory(prefix="surerec-warm-up-") as folder:
        fitted = {name: make_recommender(name).fit(counts) for name in names}
        save_all(Path(folder) / "model", fitted)
        for name in names:
            model = load(Path(folder) / "model", name)
            level: dict[str, Any] = (
                {"confidence": 0.8} if "confidence" in model.model_.features else {}
            )
            level |= {"precision": 0.1} if "precision" in model.model_.features else {}
            users = model.statistics_.interactions.users
            best = model.recommend(users[0], **level)
            best.to_frame()  # as scores and p-values are found only when they are looked at
            if "confidence" in model.model_.features:
                model.p_values(users[0])
            model.recommend(history=best.items[:3] or model.items_.ids[:3].to_list(), **level)
            model.recommend_many(**level)
            model.recommend_many(k=3, **level)
            if best.items:
                model.explain(users[0], item=best.items[0])
            if "hits" in model.model_.features:
                _ = model.recommend(users[0], k=5).hit_probability


_PARTS: dict[str, Callable[[PrecedenceStatistics], None]] = {
    "promises over users": lambda counts: _asked(counts, "population-cm12", "hit-cm12"),
    "the paper's method": lambda counts: _asked(counts, "icrs12"),
    "counts": lambda counts: _asked(counts, "icrs3", "population-cm4"),
    "shares and ratios": lambda counts: _asked(counts, "icrs7", "icrs15"),
    "older methods": lambda counts: _asked(counts, "crs-max", "crs-med", "precedence-mining"),
}
