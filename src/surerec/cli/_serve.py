"""Commands about serving: the server, its keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages, stdout
from surerec.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType


keys_app = typer.Typer(help="API keys of the server: create, list, revoke.", no_args_is_help=True)

_Keys = Annotated[Path, typer.Argument(help="The file of keys; only you can read it.")]


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


def serve(
    model: opt.Model,
    *,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 8000. 0 takes a free one.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; one a core, at most 4.")] = None,
    threads: Annotated[int | None, typer.Option(help="Requests a worker computes at once.")] = None,
    queue: Annotated[int | None, typer.Option(help="Requests that wait; more get 503.")] = None,
    request_timeout: Annotated[
        float | None, typer.Option(help="Seconds that an answer may take; 10.")
    ] = None,
    receive_timeout: Annotated[
        float | None, typer.Option(help="Seconds that a request may take to arrive; 10.")
    ] = None,
    keep_alive: Annotated[
        float | None, typer.Option(help="Seconds that an idle connection is kept; 30.")
    ] = None,
    shutdown_timeout: Annotated[
        float | None, typer.Option(help="Seconds that requests get to end; 20.")
    ] = None,
    worker_timeout: Annotated[
        float | None, typer.Option(help="Seconds until a silent worker is replaced; 30.")
    ] = None,
    max_body: Annotated[int | None, typer.Option(help="Bytes of a request; 262144.")] = None,
    max_connections: Annotated[
        int | None, typer.Option(help="Connections of a worker; 1000.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="The file of API keys; needed to listen elsewhere.")
    ] = None,
    insecure_admin: Annotated[
        bool | None,
        typer.Option("--insecure-admin", help="Loopback: no key for events and admin requests."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second and key; 100.")] = None,
    burst: Annotated[int | None, typer.Option(help="Requests of a key at once; 200.")] = None,
    cors_origins: Annotated[
        str | None, typer.Option(help="Origins whose pages may call; with commas. None.")
    ] = None,
    allowed_hosts: Annotated[
        str | None, typer.Option(help="Names that clients may call the server by; with commas.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="info, warning or error.")] = None,
    log_format: Annotated[
        str | None, typer.Option(help="auto (text on a terminal, else JSON), json or text.")
    ] = None,
) -> None:
    """Serve a model: an HTTP API, and a page at /.

    Every option can also be set in the environment, as SUREREC_SERVE_PORT. SIGHUP takes over what
    the model folder holds now, without dropping a request.

    [bold]Examples:[/bold]

    surerec serve films

    surerec serve films --host 0.0.0.0 --keys keys.json --workers 4
    """
    serve_model(
        model,
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        queue=queue,
        request_timeout=request_timeout,
        receive_timeout=receive_timeout,
        keep_alive=keep_alive,
        shutdown_timeout=shutdown_timeout,
        worker_timeout=worker_timeout,
        max_body=max_body,
        max_connections=max_connections,
        keys=keys,
        insecure_admin=insecure_admin,
        rate=rate,
        burst=burst,
        cors_origins=cors_origins,
        allowed_hosts=allowed_hosts,
        log_level=log_level,
        log_format=log_format,
    )


def serve_model(model: Path, *, at: str = "", open_browser: bool = False, **given: Any) -> None:
    """Serve until stopped; say where when it answers."""
    serving = require_serving()
    settings = serving.read_settings(model=model, **given)

    def on_ready(url: str) -> None:
        n = settings.workers
        messages().print(
            f"Serving {_show.plain(str(model))} at [bold]{url}{_show.plain(at)}[/bold] with {n} "
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
    messages().print(f"A key for {_show.plain(name)}, shown this once; send it as a bearer token:")
    typer.echo(key)


@keys_app.command("list")
def list_keys(file: _Keys) -> None:
    """List the keys' ids, names and scopes; not the keys."""
    table = Table("Id", "Name", "Scopes", "Created", box=None, header_style="bold")
    for key in require_serving().KeyFile(file).read():
        table.add_row(key.key_id, _show.plain(key.name), ", ".join(key.scopes), key.created)
    stdout().print(table, highlight=False)


@keys_app.command("revoke")
def revoke_key(
    file: _Keys, key_id: Annotated[str, typer.Argument(help="Its id, from `surerec keys list`.")]
) -> None:
    """Take a key back; running servers notice at once."""
    key = require_serving().KeyFile(file).revoke(key_id)
    messages().print(f"Revoked the key of {_show.plain(key.name)}.")
