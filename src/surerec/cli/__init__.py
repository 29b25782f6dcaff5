"""The command line: one thin command per job."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from surerec._compiling import compile_progress
from surerec._shown import shown
from surerec._version import __version__
from surerec.cli import (
    _audit,
    _calibrate,
    _data,
    _demo,
    _fit,
    _guarantees,
    _live,
    _model,
    _over_users,
    _replay,
    _reproduce,
    _serve,
    _together,
    _warm_up,
)
from surerec.errors import SurerecError

__all__ = ["app", "main"]

app = typer.Typer(
    name="surerec",
    help="Recommendation sets with a confidence that you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo")(_demo.demo)
app.command("fit")(_fit.fit)
app.command("recommend")(_model.recommend)
app.command("recommend-all")(_model.recommend_all)
app.command("explain")(_model.explain)
app.command("slate")(_over_users.slate)
app.command("calibrate")(_calibrate.calibrate)
app.command("calibrate-groups")(_together.calibrate_groups)
app.command("allow")(_over_users.allow)
app.command("recalibrate")(_over_users.recalibrate)
app.command("guarantees")(_guarantees.guarantees)
app.command("measures")(_fit.measures)
app.command("audit")(_audit.audit_data)
app.command("reproduce")(_reproduce.reproduce_paper)
app.command("replay")(_replay.replay_data)
app.add_typer(_live.live_app, name="live")
app.command("serve")(_serve.serve)
app.add_typer(_serve.keys_app, name="keys")
app.command("warm-up")(_warm_up.warm_up)
app.command("describe")(_data.describe)
app.add_typer(_data.datasets_app, name="datasets")


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer's callback
    if wanted:
        typer.echo(f"surerec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 2."""
    messages = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        with compile_progress():
            app()
    except SurerecError as error:
        messages.print(f"[bold red]Error:[/bold red] {escape(str(error))}")
        sys.exit(2)
    except OSError as error:  # of a path that nobody looked at before it was used
        where = "" if error.filename is None else f"{shown(error.filename)}: "
        reason = (error.strerror or str(error)).lower()
        messages.print(f"[bold red]Error:[/bold red] {escape(where + reason)}.")
        sys.exit(2)
    except KeyboardInterrupt:
        messages.print("Interrupted; nothing half-done is left behind.")
        sys.exit(130)
