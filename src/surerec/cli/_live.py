"""Commands about live models: create one, send events, print how it does."""

from __future__ import annotations

import csv
import json
import sys
from contextlib import nullcontext, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from surerec._words import counted
from surerec.cli import _options as opt
from surerec.cli._options import Option
from surerec.cli._output import messages, plain, stdout, table, write_json
from surerec.errors import InputError, SurerecError
from surerec.interactions import find_columns
from surerec.recommenders import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surerec.live import Live

live_app = typer.Typer(
    help="Live models: ingest events, keep the guarantee as the world moves.", no_args_is_help=True
)

_Folder = Annotated[Path, typer.Argument(help="The folder of the live model.")]
_ROLES: Final = ("user", "item", "time")
_LONGEST_EVENT: Final = 1 << 20  # characters
_TERMS: Final = {
    "step": Option(float, "How far one error moves a threshold; 0.01."),
    "false_alarms": Option(float, "Highest rate of false alerts per evaluated event; 1e-5."),
    "new_items_per_day": Option(int, "New items that events may name in a day.", more={"min": 0}),
    "new_items": Option(int, "New items that events may name in total.", more={"min": 0}),
}


@live_app.command("init")
@opt.takes(terms=_TERMS)
def init(
    folder: _Folder,
    model: opt.Model,
    *,
    recommender: opt.RecommenderName = None,
    store: Annotated[
        str, typer.Option(help="Where events go: sqlite, or an address postgresql://…")
    ] = "sqlite",
    confidences: Annotated[
        str, typer.Option(help="The confidence levels that are kept, with commas.")
    ] = "0.7,0.8,0.9",
    terms: Any,
) -> None:
    """Create a live model of a fitted one.

    [bold]Example:[/bold] surerec live init alive films
    """
    from surerec.live import Live, LiveTerms  # noqa: PLC0415  # only these commands need it

    try:
        levels = tuple(float(each) for each in confidences.split(","))
    except ValueError:
        raise InputError(
            f"--confidences is {confidences!r}; it must be numbers with commas, such as 0.8,0.9."
        ) from None
    kept = LiveTerms(levels, **terms)
    fitted = load(model, recommender)
    Live.create(folder, fitted, store=store, terms=kept).close()
    messages().print(
        f"{plain(str(folder))} is live with {fitted.name_}; send events with "
        f"surerec live ingest {plain(str(folder))}."
    )


@live_app.command("ingest")
def ingest(
    folder: _Folder,
    file: Annotated[
        Path | None, typer.Argument(help="Events; standard input if not given, or -.")
    ] = None,
    *,
    batch: Annotated[int, typer.Option(help="Events that are committed together.", min=1)] = 500,
) -> None:
    """Ingest events: lines of JSON, or CSV with a header; user, item, and perhaps time and id.

    Those of a batch are safe when the next begins; sent again, an event changes nothing.

    [bold]Example:[/bold] echo '{"user": 7, "item": 11}' | surerec live ingest alive
    """
    from surerec.live import Live  # noqa: PLC0415

    total: dict[str, int] = {}
    given = _read(file)
    with Live(folder) as live:
        try:
            while some := list(islice(given, batch)):
                found = live.observe([event for _, event in some], names=[at for at, _ in some])
                counts = {"evaluated": found.evaluated, **found.not_evaluated}
                counts |= {"duplicates": found.duplicates, "refused": found.refused}
                for name, n in counts.items():
                    total[name] = total.get(name, 0) + n
                for sentence in found.alerts:
                    messages().print(f"[yellow]Alarm:[/yellow] {plain(sentence)}")
        except SurerecError:
            if total:
                messages().print(f"Taken in before, and safe: {_said(total)}.")
            raise
    messages().print(f"Taken in: {_said(total)}.")


def _said(total: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in total.items() if n) or "no events"


@live_app.command("status")
def status(
    folder: _Folder,
    *,
    heaviest: Annotated[
        bool, typer.Option("--heaviest", help="Also the users with the most events of this day.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Print nominal and observed coverage, the events by what became of them, and alarms."""
    with _beside_a_server(folder) as live:
        found, users = live.status(), live.heaviest_users().to_dicts() if heaviest else None
    if as_json:
        write_json(dict(vars(found)) | ({} if users is None else {"heaviest_users": users}))
        return
    share = "{:.4f}" if found.n_evaluated else "–"
    columns = (found.nominal, found.observed_by_user_day, found.within, found.observed)
    rows = [
        [
            form.format(value)
            for form, value in zip(("{:g}", share, "± {:.2g}", share), row, strict=True)
        ]
        for row in zip(*columns, strict=True)
    ]
    console = stdout()
    headings = ("Promised", "Observed by users' days", "Within", "Of all events")
    console.print(table(headings, rows))
    passed = ", ".join(f"{n:,} {reason}" for reason, n in found.not_evaluated.items()) or "none"
    console.print(
        f"\n{found.n_events:,} events, {found.n_evaluated:,} of them evaluated, on "
        f"{counted(found.n_user_days, 'user days')}, for items new to the user; not evaluated: "
        f"{passed}.\n"
        f"Fitted {found.fitted_at[:16]}; counts include {found.n_since_fit:,} events since then."
    )
    if found.heaviest_share is not None:
        heavy = f"{found.heaviest_share:.0%}"
        console.print(f"The heaviest 1% of users sent {heavy} of today's evaluated events.")
    for row in users or ():
        name, n = plain(row["user_id"]), row["evaluated"]
        console.print(f"  {name}: {n:,} evaluated today, {row['share']:.0%}")
    for sentence in found.alerts:
        console.print(f"[yellow]Alarm:[/yellow] {plain(sentence)}")


@live_app.command("refit")
def refit(folder: _Folder) -> None:
    """Refit and recalibrate on all that is known, and serve that from then on."""
    with _beside_a_server(folder) as live:
        live.refit()
        found = live.status()
    messages().print(f"Counted {plain(str(folder))} anew at {found.fitted_at}.")


@live_app.command("forget")
def forget(
    folder: _Folder,
    user: Annotated[
        str | None, typer.Argument(help="Whom; asked for if not given, so that no log has it.")
    ] = None,
) -> None:
    """Delete a user: from events and counts at once, from files at the next recount."""
    whom = typer.prompt("User", hide_input=True) if user is None else user
    with _beside_a_server(folder) as live:
        receipt = live.forget(whom)
    write_json(dict(vars(receipt)))


@live_app.command("export")
def export(
    folder: _Folder, file: Annotated[Path, typer.Argument(help="A Parquet file to write.")]
) -> None:
    """Write all profiles as they are now, from which a fit gives the same counts."""
    with _beside_a_server(folder) as live:
        n = live.export(file)
    messages().print(f"Wrote {n:,} rows to {plain(str(file))}.")


def _beside_a_server(folder: Path) -> Live:
    """Open a live model that may be served meanwhile, as one more worker of that server would."""
    from surerec.live import Live  # noqa: PLC0415

    return Live(folder, refit=False, hold=False)


class _Lines:
    """The lines of a file; an event of more characters than the limit is refused.

    Parameters
    ----------
    file : text file
        Open for reading.
    name : str
        What errors call it.
    """

    def __init__(self, file: TextIO, name: str) -> None:
        self._file, self._name, self._number = file, name, 0
        self.next_event()

    @property
    def where(self) -> str:
        """The latest line, for errors."""
        return f"{self._name}, line {self._number}"

    def next_event(self) -> None:
        """Count the characters of the next event from here on."""
        self._left = _LONGEST_EVENT

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(self._left + 1):
            self._number += 1
            self._left -= len(line)
            if self._left < 0:
                raise InputError(
                    f"{self.where}: the event has more than {_LONGEST_EVENT:,} characters; write "
                    "one event per line, and close every quote."
                )
            yield line


def _read(file: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each event, for errors, and the event."""
    if file is None or str(file) == "-":
        name, opening = "standard input", nullcontext(sys.stdin)
    else:
        name, opening = str(file), file.open(encoding="utf-8-sig", newline="")  # type: ignore[assignment]
    try:
        with opening as opened:
            yield from _parse(_Lines(opened, name))
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not text in UTF-8.") from None


def _parse(lines: _Lines) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read lines of JSON or CSV, whichever the first that is not empty is."""
    given = iter(lines)
    for first in given:
        lines.next_event()
        if first.strip():
            break
    else:
        return
    texts = chain([first], given)
    if first.lstrip().startswith("{"):
        for text in texts:
            lines.next_event()
            if text.strip():
                yield lines.where, _object(text, lines.where)
        return
    try:
        rows = csv.DictReader(texts)
        columns = _columns(rows.fieldnames or (), lines.where)
        for row in rows:
            lines.next_event()
            if None in row or None in row.values():
                raise InputError(f"{lines.where}: has not as many cells as the header.")
            cells = zip(columns, row.values(), strict=True)
            yield lines.where, {column: _cell(column, value) for column, value in cells if value}
    except csv.Error as error:
        raise InputError(f"{lines.where}: cannot be read as CSV ({error}).") from None


def _columns(header: Sequence[str], where: str) -> list[str]:
    """Return what each column is: the fields of an event by any of their usual names."""
    try:
        found = find_columns(header, {"user": None, "item": None, "time": "", "rating": ""}, where)
    except InputError:
        raise InputError(
            f"{where}: is neither a JSON object nor a header with a column of users and one of "
            "items, such as user,item,time or customer,product,purchased_at."
        ) from None
    roles = {found[role]: role for role in _ROLES if role in found}
    columns = [roles.get(column, column) for column in header]
    if len(set(columns)) < len(columns):
        raise InputError(f"{where}: names a column twice.")
    return columns


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # of brackets in brackets
        found = None
    if not isinstance(found, dict):
        raise InputError(f'{where}: is no JSON object, such as {{"user": 7, "item": 11}}.')
    return found


def _cell(column: str, value: str) -> int | float | str:
    """Return a time in seconds as a number; ids stay the texts they are: 007 is not 7."""
    if column == "time":
        for number in (int, float):
            with suppress(ValueError):
                return number(value)
    return value
