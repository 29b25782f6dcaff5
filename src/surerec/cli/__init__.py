"""The command line: one thin command per job."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from surerec._compiling import compile_progress
from surerec._progress import printed
from surerec._shown import shown
from surerec._version import __version__
from surerec.cli import (
    _audit,
    _calibrate,
    _data,
    _demo,
    _fit,
    _live,
    _model,
    _output,
    _over_users,
    _replay,
    _reproduce,
    _serve,
    _together,
    _warm_up,
)
from surerec.errors import SurerecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["app", "main"]

_TERMINATED = 128 + signal.SIGTERM

app = typer.Typer(
    name="surerec",
    help="Recommendation sets with a confidence that you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "First steps": {
        "demo": _demo.demo,
        "describe": _data.describe,
        "fit": _fit.fit,
        "recommend": _model.recommend,
        "explain": _model.explain,
        "audit": _audit.audit_data,
        "serve": _serve.serve,
    },
    "More from a model": {
        "recommend-all": _model.recommend_all,
        "allow": _over_users.allow,
        "recalibrate": _over_users.recalibrate,
        "calibrate-groups": _together.calibrate_groups,
        "calibrate": _calibrate.calibrate,
    },
    "Looking deeper": {
        "measures": _fit.measures,
        "replay": _replay.replay_data,
        "reproduce": _reproduce.reproduce_paper,
    },
    "In production": {"warm-up": _warm_up.warm_up},
}
for panel, commands in _COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
app.add_typer(_live.live_app, name="live", rich_help_panel="In production")
app.add_typer(_serve.keys_app, name="keys", rich_help_panel="In production")
app.add_typer(_data.datasets_app, name="datasets", rich_help_panel="Looking deeper")


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer's callback
    if wanted:
        typer.echo(f"surerec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Print each stage with its time, before the command: surerec -v fit …; -vv prints "
            "more.",
        ),
    ] = 0,
) -> None:
    context.with_resource(printed(verbose))


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn SIGTERM into an exit, so that files that are half written are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 2."""
    messages = _output.messages()
    try:
        with _ended_in_order(), compile_progress():
            app()
    except SurerecError as error:
        messages.print(f"[bold red]Error:[/bold red] {escape(str(error))}")
        sys.exit(2)
    except OSError as error:  # of a path that nobody looked at before it was used
        where = "" if error.filename is None else f"{shown(error.filename)}: "
        reason = (error.strerror or str(error)).lower()
        messages.print(f"[bold red]Error:[/bold red] {escape(where + reason)}.")
        sys.exit(2)
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        messages.print(f"[bold red]Error:[/bold red] not enough memory{escape(detail)}.")
        sys.exit(2)
    except KeyboardInterrupt:
        messages.print("Interrupted; nothing half-done is left behind.")
        sys.exit(130)
