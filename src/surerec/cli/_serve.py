"""Commands for operation: the server, its API keys, and compiled kernels."""

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


keys_app = typer.Typer(help="Create, list and revoke API keys of the server.", no_args_is_help=True)

_Keys = Annotated[Path, typer.Argument(help="File of API keys.")]
_SETTINGS: Final = {
    "scorer": opt.SCORER,
    "host": Option(str, "Address to listen on; 127.0.0.1 by default."),
    "port": Option(int, "Port; 8000 by default, 0 for any free port."),
    "workers": Option(int, "Worker processes; by default one per core, at most 4."),
    "threads": Option(int, "Requests that a worker computes in parallel."),
    "queue": Option(int, "Requests that may wait; further ones get status 503."),
    "request_timeout": Option(float, "Seconds to compute a response; 10 by default."),
    "receive_timeout": Option(float, "Seconds to receive a request; 10 by default."),
    "keep_alive": Option(float, "Seconds to keep an idle connection; 30 by default."),
    "shutdown_timeout": Option(float, "Seconds to finish requests at shutdown; 20 by default."),
    "worker_timeout": Option(float, "Seconds before a silent worker is replaced; 30 by default."),
    "max_body": Option(int, "Largest request in bytes; 262144 by default."),
    "max_connections": Option(int, "Connections per worker; 1000 by default."),
    "keys": Option(Path, "File of API keys; required for hosts other than loopback."),
    "insecure_admin": Option(bool, "Allow event and admin requests without a key on loopback."),
    "rate": Option(float, "Requests per second and key; 100 by default."),
    "burst": Option(int, "Requests of a key in one burst; 200 by default."),
    "cors_origins": Option(str, "Comma-separated origins that may call the API; none by default."),
    "allowed_hosts": Option(str, "Comma-separated host names that clients may use."),
    "log_level": Option(str, "info, warning or error."),
    "log_format": Option(str, "auto (text on a terminal, else JSON), json or text."),
}
"""The settings of the server, in their order."""
PARTS: Final = {
    "user-level calibration": ("recall-cm12", "hit-cm12"),
    "the paper's method": ("icrs12",),
    "counts": ("icrs3", "recall-cm4"),
    "shares and ratios": ("icrs7", "icrs15"),
    "predecessors": ("crs-max", "crs-med", "precedence-mining"),
}
"""The recommenders whose kernels are compiled, by process."""


def require_serving() -> ModuleType:
    """Import the server, which needs an extra."""
    try:
        from surerec import serving  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError(
            f"Serving needs {error.name}, which is not installed. "
            "Install it with: pip install 'surerec[serve]'"
        ) from None
    return serving


@opt.accepts(settings=_SETTINGS)
def serve(model: opt.Model, *, settings: Any) -> None:
    """Serve a model over HTTP, with a page at /.

    Environment variables such as SUREREC_SERVE_PORT set the same options. SIGHUP reloads the model
    folder without dropping requests.

    [bold]Examples:[/bold]

    surerec serve films

    surerec serve films --host 0.0.0.0 --keys keys.json --workers 4
    """
    serve_model(model, **settings)


def serve_model(model: Path, *, at: str = "", open_browser: bool = False, **given: Any) -> None:
    """Serve until stopped, and print the address when the server is ready."""
    serving = require_serving()
    settings = serving.read_settings(model=model, **given)

    def on_ready(url: str) -> None:
        n = settings.workers
        messages().print(
            f"Serving {plain(str(model))} at [bold]{url}{plain(at)}[/bold] with {n} "
            f"worker{'' if n == 1 else 's'}. API documentation: {url}docs. Press Ctrl-C to stop."
        )
        if open_browser:
            typer.launch(url + at)

    serving.serve(settings, on_ready)


@keys_app.command("create")
def create_key(
    file: _Keys,
    *,
    name: Annotated[str, typer.Option(help="Name of the client.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="read (the default), events or admin; may be repeated.")
    ] = None,
) -> None:
    """Create an API key and print it; it cannot be shown again.

    [bold]Example:[/bold] surerec keys create keys.json --name shop
    """
    key = require_serving().KeyFile(file).create(name, scope or ["read"])
    messages().print(
        f"Created a key for {plain(name)}. It is shown only once; send it as a bearer token:"
    )
    typer.echo(key)


@keys_app.command("list")
def list_keys(file: _Keys) -> None:
    """List the ids, names and scopes of the keys."""
    rows = [
        (key.key_id, plain(key.name), ", ".join(key.scopes), key.created)
        for key in require_serving().KeyFile(file).read()
    ]
    stdout().print(table(("Id", "Name", "Scopes", "Created"), rows))


@keys_app.command("revoke")
def revoke_key(
    file: _Keys, key_id: Annotated[str, typer.Argument(help="Key id from `surerec keys list`.")]
) -> None:
    """Revoke an API key, also on running servers."""
    key = require_serving().KeyFile(file).revoke(key_id)
    messages().print(f"Revoked the key of {plain(key.name)}.")


def compile_kernels() -> None:
    """Compile all kernels now, so that the first request is fast.

    numba caches kernels in the package, or in NUMBA_CACHE_DIR. In an image, run this as the user
    and on the processor type that will serve.

    [bold]Example:[/bold] surerec compile
    """
    begin = perf_counter()
    _counts()  # compiles what all parts share
    # numba compiles under one lock, so only processes run in parallel.
    n_processes = min(available_threads(), len(PARTS))
    with (
        progress("Compiling", len(PARTS)) as advance,
        ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool,
    ):
        for _ in pool.map(compile_for, PARTS.values()):
            advance(1)
    messages().print(f"Compiled for {', '.join(PARTS)} in {perf_counter() - begin:.0f} s.")


def _counts() -> PrecedenceStatistics:
    return count_precedence(synthetic(n_users=120, n_items=40, n_rows=2_400, random_state=1))


def compile_for(names: tuple[str, ...]) -> None:
    """Fit, save, load and query recommenders, as the commands do."""
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
            best.to_frame()  # computes scores and p-values
            if level:
                model.p_values(user)
            model.recommend(history=best.items[:3] or model.items_.ids[:3].to_list(), **level)
            model.recommend_many(**level)
            model.recommend_many(k=3, **level)
            if best.items:
                model.explain(user, item=best.items[0])
            if "hits" in features:
                _ = model.recommend(user, k=5).hit_probability
