"""The command line: one thin command per task."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.markup import escape

from surerec._progress import printed
from surerec._version import __version__
from surerec._words import as_options, shown
from surerec.cli import (
    _calibrate,
    _data,
    _demo,
    _evaluate,
    _fit,
    _live,
    _output,
    _recommend,
    _serve,
)
from surerec.errors import SurerecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["app", "main"]

_TERMINATED = 128 + signal.SIGTERM

app = typer.Typer(
    name="surerec",
    help="Recommendation sets with statistical guarantees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "First steps": {
        "demo": _demo.demo,
        "describe": _data.describe,
        "fit": _fit.fit,
        "recommend": _recommend.recommend,
        "explain": _recommend.explain,
        "audit": _evaluate.audit,
        "serve": _serve.serve,
    },
    "Calibration": {
        "wrap": _calibrate.wrap,
        "recalibrate": _calibrate.recalibrate,
        "item-list": _calibrate.item_list,
        "groups": _calibrate.groups,
    },
    "Research and operation": {
        "reproduce": _evaluate.reproduce,
        "measures": _data.measures,
        "compile": _serve.compile_kernels,
    },
}
for panel, commands in _COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
_live.live_app.command("replay")(_evaluate.replay)
app.add_typer(_live.live_app, name="live", rich_help_panel="Live models")
app.add_typer(_data.datasets_app, name="datasets", rich_help_panel="Research and operation")
app.add_typer(_serve.keys_app, name="keys", rich_help_panel="Research and operation")


def _version(requested: bool) -> None:  # noqa: FBT001  # typer's callback
    if requested:
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
        typer.Option("--verbose", "-v", count=True, help="Print each stage; -vv adds progress."),
    ] = 0,
) -> None:
    context.with_resource(printed(verbose))


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exit, so that partly written files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Run the command line; print a user's error on one line and exit with code 2."""
    try:
        with _exit_on_sigterm():
            app()
    except SurerecError as error:
        _fail(as_options(str(error), _option_names(typer.main.get_command(app))))
    except OSError as error:  # from a path that was not checked before its use
        where = "" if error.filename is None else f"{shown(error.filename)}: "
        _fail(f"{where}{(error.strerror or str(error)).lower()}.")
    except MemoryError as error:
        _fail(f"Not enough memory{f' ({error})' if str(error) else ''}.")
    except KeyboardInterrupt:
        _output.messages().print("Interrupted. No partial output was left.")
        sys.exit(130)


def _option_names(command: Any) -> set[str]:
    """Return the names of all options of a command and its subcommands."""
    own = {each.name for each in command.params if each.param_type_name == "option"}
    return own.union(*map(_option_names, getattr(command, "commands", {}).values()))


def _fail(reason: str) -> NoReturn:
    _output.messages().print(f"[bold red]Error:[/bold red] {escape(reason)}")
    sys.exit(2)
