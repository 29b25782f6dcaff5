"""The command line: one thin command per job."""

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
        "recommend": _recommend.recommend,
        "explain": _recommend.explain,
        "audit": _evaluate.audit,
        "serve": _serve.serve,
    },
    "More from a model": {
        "wrap": _calibrate.calibrate,
        "recalibrate": _calibrate.recalibrate,
        "item-list": _calibrate.add_item_list,
        "groups": _calibrate.calibrate_groups,
    },
    "Looking deeper": {
        "measures": _data.measures,
        "reproduce": _evaluate.reproduce_paper,
    },
    "In production": {"compile": _serve.warm_up},
}
for panel, commands in _COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
_live.live_app.command("replay")(_evaluate.replay)
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
        typer.Option("--verbose", "-v", count=True, help="Print each stage; -vv prints more."),
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
    try:
        with _ended_in_order():
            app()
    except SurerecError as error:
        _fail(as_options(str(error), _option_names(typer.main.get_command(app))))
    except OSError as error:  # of a path that nobody looked at before it was used
        where = "" if error.filename is None else f"{shown(error.filename)}: "
        _fail(f"{where}{(error.strerror or str(error)).lower()}.")
    except MemoryError as error:
        _fail(f"not enough memory{f' ({error})' if str(error) else ''}.")
    except KeyboardInterrupt:
        _output.messages().print("Interrupted; nothing half-done is left behind.")
        sys.exit(130)


def _option_names(command: Any) -> set[str]:
    """Return the names of all options of a command and its subcommands."""
    own = {each.name for each in command.params if each.param_type_name == "option"}
    return own.union(*map(_option_names, getattr(command, "commands", {}).values()))


def _fail(reason: str) -> NoReturn:
    _output.messages().print(f"[bold red]Error:[/bold red] {escape(reason)}")
    sys.exit(2)
