"""Commands for live models: create one, ingest events, print its state."""

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
    help="Create and operate live models, which ingest events and adapt to drift.",
    no_args_is_help=True,
)

_Folder = Annotated[Path, typer.Argument(help="Folder of the live model.")]
_ROLES: Final = ("user", "item", "time")
_LONGEST_EVENT: Final = 1 << 20  # characters
_TERMS: Final = {
    "step": Option(float, "Step by which an error moves a threshold; 0.01 by default."),
    "false_alarms": Option(float, "Drift alerts per event without drift, at most; 1e-5."),
    "new_items_per_day": Option(int, "New items that events may add per day.", more={"min": 0}),
    "new_items": Option(int, "New items that events may add in total.", more={"min": 0}),
}


@live_app.command("init")
@opt.accepts(terms=_TERMS)
def init(
    folder: _Folder,
    model: opt.Model,
    *,
    recommender: opt.RecommenderName = None,
    store: Annotated[
        str, typer.Option(help="Event store: sqlite, or an address postgresql://…")
    ] = "sqlite",
    confidences: Annotated[
        str, typer.Option(help="Comma-separated confidence levels to track.")
    ] = "0.7,0.8,0.9",
    terms: Any,
) -> None:
    """Create a live model from a fitted one.

    [bold]Example:[/bold] surerec live init alive films
    """
    from surerec.live import Live, LiveTerms  # noqa: PLC0415  # slow to import

    try:
        levels = tuple(float(each) for each in confidences.split(","))
    except ValueError:
        raise InputError(
            f"--confidences is {confidences!r}; pass comma-separated numbers, such as 0.8,0.9."
        ) from None
    fitted = load(model, recommender)
    Live.create(folder, fitted, store=store, terms=LiveTerms(levels, **terms)).close()
    messages().print(
        f"Created the live model {plain(str(folder))} from {fitted.name_}; send events with "
        f"surerec live ingest {plain(str(folder))}."
    )


@live_app.command("ingest")
def ingest(
    folder: _Folder,
    file: Annotated[
        Path | None, typer.Argument(help="File of events; standard input by default, or as -.")
    ] = None,
    *,
    batch: Annotated[int, typer.Option(help="Events per transaction.", min=1)] = 500,
) -> None:
    """Ingest events from JSON lines or CSV, with user, item and optionally time and id.

    Each batch is committed before the next one starts. Sending an event again changes nothing.

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
                    messages().print(f"[yellow]Drift alert:[/yellow] {plain(sentence)}")
        except SurerecError:
            if total:
                messages().print(f"Ingested and committed before the error: {_tally(total)}.")
            raise
    messages().print(f"Ingested: {_tally(total)}.")


def _tally(total: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in total.items() if n) or "no events"


@live_app.command("status")
def status(
    folder: _Folder,
    *,
    heaviest: Annotated[
        bool, typer.Option("--heaviest", help="Also print the users with the most events today.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print nominal and observed coverage, event counts and drift alerts."""
    with _beside_a_server(folder) as live:
        found, users = live.status(), live.heaviest_users().to_dicts() if heaviest else None
    if as_json:
        write_json(dict(vars(found)) | ({} if users is None else {"heaviest_users": users}))
        return
    share = "{:.4f}" if found.n_evaluated else "–"
    forms = ("{:g}", share, "± {:.2g}", share)
    columns = (found.nominal, found.observed_by_user_day, found.within, found.observed)
    rows = [map(str.format, forms, row) for row in zip(*columns, strict=True)]
    console = stdout()
    headings = ("Nominal", "Observed by user-days", "Within", "Observed by events")
    console.print(table(headings, rows))
    skipped = ", ".join(f"{n:,} {reason}" for reason, n in found.not_evaluated.items()) or "none"
    console.print(
        f"\n{found.n_events:,} events, of which {found.n_evaluated:,} evaluated (items new to the "
        f"user) on {counted(found.n_user_days, 'user days')}; not evaluated: {skipped}.\n"
        f"Fitted at {found.fitted_at[:16]}; the counts include {found.n_since_fit:,} later events."
    )
    if found.heaviest_share is not None:
        heavy = f"{found.heaviest_share:.0%}"
        console.print(f"The heaviest 1% of users sent {heavy} of today's evaluated events.")
    for row in users or ():
        name, n = plain(row["user_id"]), row["evaluated"]
        console.print(f"  {name}: {n:,} evaluated today, {row['share']:.0%}")
    for sentence in found.alerts:
        console.print(f"[yellow]Drift alert:[/yellow] {plain(sentence)}")


@live_app.command("refit")
def refit(folder: _Folder) -> None:
    """Refit and recalibrate a live model on all its events."""
    with _beside_a_server(folder) as live:
        live.refit()
        found = live.status()
    messages().print(f"Refitted {plain(str(folder))} at {found.fitted_at}.")


@live_app.command("forget")
def forget(
    folder: _Folder,
    user: Annotated[
        str | None,
        typer.Argument(help="User id; prompted for by default, to keep it out of logs."),
    ] = None,
) -> None:
    """Delete a user from events and counts now, and from files at the next refit."""
    user = typer.prompt("User", hide_input=True) if user is None else user
    with _beside_a_server(folder) as live:
        receipt = live.forget(user)
    write_json(dict(vars(receipt)))


@live_app.command("export")
def export(
    folder: _Folder, file: Annotated[Path, typer.Argument(help="Parquet file to write.")]
) -> None:
    """Export the current interactions; a fit on them gives the same counts."""
    with _beside_a_server(folder) as live:
        n = live.export(file)
    messages().print(f"Wrote {n:,} rows to {plain(str(file))}.")


def _beside_a_server(folder: Path) -> Live:
    """Open a live model that a server may have open, as one more of its workers."""
    from surerec.live import Live  # noqa: PLC0415

    return Live(folder, refit=False, hold=False)


class _Lines:
    """Iterate over the lines of a file; refuse an event longer than the limit.

    Parameters
    ----------
    file : text file
        Open for reading.
    name : str
        Name of the file in errors.
    """

    def __init__(self, file: TextIO, name: str) -> None:
        self._file, self._name, self._number = file, name, 0
        self.next_event()

    @property
    def where(self) -> str:
        """Name of the file and number of the latest line, for errors."""
        return f"{self._name}, line {self._number}"

    def next_event(self) -> None:
        """Reset the number of characters for the next event."""
        self._left = _LONGEST_EVENT

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(self._left + 1):
            self._number += 1
            self._left -= len(line)
            if self._left < 0:
                raise InputError(
                    f"{self.where}: the event has more than {_LONGEST_EVENT:,} characters. Write "
                    "one event per line, and close every quote."
                )
            yield line


def _read(file: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location of each event, for errors, and the event."""
    if file is None or str(file) == "-":
        name, opening = "standard input", nullcontext(sys.stdin)
    else:
        name, opening = str(file), file.open(encoding="utf-8-sig", newline="")  # type: ignore[assignment]
    try:
        with opening as opened:
            yield from _parse(_Lines(opened, name))
    except UnicodeDecodeError:
        raise InputError(f"{name}: not valid UTF-8; convert the file to UTF-8.") from None


def _parse(lines: _Lines) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parse JSON lines or CSV, by the first line that is not empty."""
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
                raise InputError(
                    f"{lines.where}: the row and the header have different numbers of cells; "
                    "fix the row."
                )
            cells = zip(columns, row.values(), strict=True)
            yield lines.where, {column: _cell(column, value) for column, value in cells if value}
    except csv.Error as error:
        raise InputError(f"{lines.where}: invalid CSV ({error}); fix the line.") from None


def _columns(header: Sequence[str], where: str) -> list[str]:
    """Return the event field of each column, found by its usual names."""
    try:
        found = find_columns(header, {"user": None, "item": None, "time": "", "rating": ""}, where)
    except InputError:
        raise InputError(
            f"{where}: neither a JSON object nor a CSV header with a user and an item column. "
            "Begin with a header such as user,item,time or customer,product,purchased_at."
        ) from None
    roles = {found[role]: role for role in _ROLES if role in found}
    columns = [roles.get(column, column) for column in header]
    if len(set(columns)) < len(columns):
        raise InputError(f"{where}: a column name appears twice; rename one of them.")
    return columns


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # from deeply nested brackets
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f'{where}: not a JSON object; write one such as {{"user": 7, "item": 11}}.'
        )
    return found


def _cell(column: str, value: str) -> int | float | str:
    """Return a numeric time as a number; ids stay text, because 007 is not 7."""
    if column == "time":
        for number in (int, float):
            with suppress(ValueError):
                return number(value)
    return value
