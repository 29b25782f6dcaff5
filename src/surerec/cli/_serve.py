"""In production: the server, its keys, and compiled kernels."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from surerec._progress import progress
from surerec._threads import available_threads
from surerec.cli import _options as opt
from surerec.cli._options import Option
from surerec.cli._output import messages, plain, stdout, table
from surerec.datasets import synthetic
from surerec.errors import InputError
from surerec.precedence import count_precedence
from surerec.recommenders import load, make_recommender, save_all

if TYPE_CHECKING:
    from types import ModuleType

    from surerec.precedence import PrecedenceStatistics


keys_app = typer.Typer(help="API keys of the server: create, list, revoke.", no_args_is_help=True)

_Keys = Annotated[Path, typer.Argument(help="The file of keys; only you can read it.")]
_SETTINGS: Final = {
    "host": Option(str, "The address to listen on; 127.0.0.1."),
    "port": Option(int, "The port; 8000. 0 takes a free one."),
    "workers": Option(int, "Processes; one a core, at most 4."),
    "threads": Option(int, "Requests a worker computes at once."),
    "queue": Option(int, "Requests that wait; more get 503."),
    "request_timeout": Option(float, "Seconds that an answer may take; 10."),
    "receive_timeout": Option(float, "Seconds that a request may take to arrive; 10."),
    "keep_alive": Option(float, "Seconds that an idle connection is kept; 30."),
    "shutdown_timeout": Option(float, "Seconds that requests get to end; 20."),
    "worker_timeout": Option(float, "Seconds until a silent worker is replaced; 30."),
    "max_body": Option(int, "Bytes of a request; 262144."),
    "max_connections": Option(int, "Connections of a worker; 1000."),
    "keys": Option(Path, "The file of API keys; needed to listen elsewhere."),
    "insecure_admin": Option(bool, "Loopback: no key for events and admin requests."),
    "rate": Option(float, "Requests a second and key; 100."),
    "burst": Option(int, "Requests of a key at once; 200."),
    "cors_origins": Option(str, "Origins whose pages may call; with commas. None."),
    "allowed_hosts": Option(str, "Names that clients may call the server by; with commas."),
    "log_level": Option(str, "info, warning or error."),
    "log_format": Option(str, "auto (text on a terminal, else JSON), json or text."),
}
"""The settings of the server, in their order."""
PARTS: Final = {
    "guarantees over users": ("recall-cm12", "hit-cm12"),
    "the paper's method": ("icrs12",),
    "counts": ("icrs3", "recall-cm4"),
    "shares and ratios": ("icrs7", "icrs15"),
    "older methods": ("crs-max", "crs-med", "precedence-mining"),
}
"""The recommenders that are compiled for, in a process each."""


def require_serving() -> ModuleType:
    """Import the server, which needs an extra."""
    try:
        from surerec import serving  # noqa: PLC0415  # its libraries are an extra
    except ModuleNotFoundError as error:
        raise InputError(
            f"Serving needs {error.name}, which is not installed; "
            "install it with: pip install 'surerec[serve]'"
        ) from None
    return serving


@opt.takes(settings=_SETTINGS)
def serve(model: opt.Model, *, settings: Any) -> None:
    """Serve a model: an HTTP API, and a page at /.

    Every option can also be set in the environment, as SUREREC_SERVE_PORT. SIGHUP takes over what
    the model folder holds now, without dropping a request.

    [bold]Examples:[/bold]

    surerec serve films

    surerec serve films --host 0.0.0.0 --keys keys.json --workers 4
    """
    serve_model(model, **settings)


def serve_model(model: Path, *, at: str = "", open_browser: bool = False, **given: Any) -> None:
    """Serve until stopped; print where when it answers."""
    serving = require_serving()
    settings = serving.read_settings(model=model, **given)

    def on_ready(url: str) -> None:
        n = settings.workers
        messages().print(
            f"Serving {plain(str(model))} at [bold]{url}{plain(at)}[/bold] with {n} "
            f"worker{'' if n == 1 else 's'}; the API is described at {url}docs. Ctrl-C ends it."
        )
        if open_browser:
            typer.launch(url + at)

    serving.serve(settings, on_ready)


@keys_app.command("create")
def create_key(
    file: _Keys,
    *,
    name: Annotated[str, typer.Option(help="Who will use it.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="read (the default), events or admin; may be repeated.")
    ] = None,
) -> None:
    """Make a key and print it; it is not kept, and cannot be shown again.

    [bold]Example:[/bold] surerec keys create keys.json --name shop
    """
    key = require_serving().KeyFile(file).create(name, scope or ["read"])
    messages().print(f"A key for {plain(name)}, shown this once; send it as a bearer token:")
    typer.echo(key)


@keys_app.command("list")
def list_keys(file: _Keys) -> None:
    """List the keys' ids, names and scopes; not the keys."""
    rows = [
        (key.key_id, plain(key.name), ", ".join(key.scopes), key.created)
        for key in require_serving().KeyFile(file).read()
    ]
    stdout().print(table(("Id", "Name", "Scopes", "Created"), rows))


@keys_app.command("revoke")
def revoke_key(
    file: _Keys, key_id: Annotated[str, typer.Argument(help="Its id, from `surerec keys list`.")]
) -> None:
    """Revoke a key; running servers notice at once."""
    key = require_serving().KeyFile(file).revoke(key_id)
    messages().print(f"Revoked the key of {plain(key.name)}.")


def warm_up() -> None:
    """Compile what answers need, several processes at once, so that nobody waits for it later.

    numba keeps what it compiled beside the package, or where NUMBA_CACHE_DIR says: in an image, run
    it as the user and on the kind of processor that will serve.

    [bold]Example:[/bold] surerec compile
    """
    begin = perf_counter()
    _counts()  # what all parts share, so that none of them compiles it again
    # numba compiles under one lock: only processes do it at the same time.
    n_processes = min(available_threads(), len(PARTS))
    with (
        progress("Compiling", len(PARTS)) as advance,
        ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool,
    ):
        for _ in pool.map(compile_for, PARTS.values()):
            advance(1)
    messages().print(
        f"Compiled for {', '.join(PARTS)} in {perf_counter() - begin:.0f} s; "
        "the next use of each begins at once."
    )


def _counts() -> PrecedenceStatistics:
    return count_precedence(synthetic(n_users=120, n_items=40, n_rows=2_400, random_state=1))


def compile_for(names: tuple[str, ...]) -> None:
    """Fit, save, open and ask recommenders, as the commands do."""
    os.environ["SUREREC_THREADS"] = "1"
    counts = _counts()
    with TemporaryDirectory(prefix="surerec-warm-up-") as folder:
        save_all(folder, {name: make_recommender(name).fit(counts) for name in names})
        for name in names:
            model = load(folder, name)
            features = model.model_.features
            level: dict[str, Any] = {"confidence": 0.8} if "confidence" in features else {}
            user = counts.interactions.users[0]
            best = model.recommend(user, **level)
            best.to_frame()  # as scores and p-values are found only when they are looked at
            if level:
                model.p_values(user)
            model.recommend(history=best.items[:3] or model.items_.ids[:3].to_list(), **level)
            model.recommend_many(**level)
            model.recommend_many(k=3, **level)
            if best.items:
                model.explain(user, item=best.items[0])
            if "hits" in features:
                _ = model.recommend(user, k=5).hit_probability
