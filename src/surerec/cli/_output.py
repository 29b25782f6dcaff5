"""Output of commands: data to stdout or a file, messages to stderr."""

from __future__ import annotations

import json
import math
import shlex
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from surerec._files import file_aside
from surerec._inputs import reason
from surerec._words import visible
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import polars as pl
    from rich.text import Text

    from surerec.calibration import Guarantee
    from surerec.recommenders import Explanation, RecommendationSet

plain = escape


class _Terminal(Console):
    """A console that escapes control characters in ids and titles."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Return a text with its control characters escaped."""
        return super().render_str(visible(text), **how)


def stdout() -> Console:
    """Return the console for tables; output to a file or pipe is 160 characters wide."""
    console = _Terminal(highlight=False)
    return console if console.is_terminal else _Terminal(highlight=False, width=160)


def messages() -> Console:
    """Return the console for messages."""
    return _Terminal(stderr=True, highlight=False, soft_wrap=True)


def table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], numbers: slice | None = None
) -> Table:
    """Build a table; numeric columns are right-aligned."""
    found = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for column in found.columns[numbers] if numbers else ():
        column.justify = "right"
    for row in rows:
        found.add_row(*row)
    return found


def next_steps(steps: Mapping[tuple[str, ...], str]) -> None:
    """Print commands to run next, each with its purpose."""
    typed = {shlex.join(words): about for words, about in steps.items()}
    width = max(map(len, typed))
    for place, (command, about) in enumerate(typed.items()):
        before = "Next: " if place == 0 else "      "
        words = f"[dim]{before}[/dim]{plain(command):<{width}}  [dim]{plain(about)}[/dim]"
        messages().print(words)


def format_of(given: str, output: Path | None) -> str:
    """Return the output format, by default from the file's suffix."""
    if output is None or given != "table":
        return given
    kind = output.suffix.lower().removeprefix(".")
    if kind not in ("json", "csv", "parquet"):
        raise InputError(
            f"{output}: the suffix names no file format. Use .json, .csv or .parquet, or pass "
            "--format."
        )
    return kind


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    """Open a file that is renamed into place when complete, or stdout.

    A device, a pipe or an open file is appended to instead.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        with file_aside(path) as aside, aside.open("ab") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({reason(error)}); choose another --output."
        ) from error


def about_output(recommender: str, guarantee: Guarantee) -> dict[str, str]:
    """Return the metadata of batch output, which are the recommender and the guarantee."""
    return {"surerec.recommender": recommender, "surerec.guarantee": str(guarantee)}


def write_frames(
    frames: Iterable[pl.DataFrame],
    kind: str,
    output: Path | None,
    about: Mapping[str, str] | None = None,
) -> int:
    """Write frames of one schema in bounded memory; return the number of rows.

    `about` becomes metadata of a Parquet file; a CSV file has none.
    """
    if output is None and kind == "parquet" and sys.stdout.isatty():
        raise InputError("Parquet cannot be printed; pass --output FILE, or use a pipe.")
    n_rows = 0
    writer: pq.ParquetWriter | None = None
    with _opened(output) as file:
        try:
            for number, frame in enumerate(frames):
                n_rows += len(frame)
                if kind == "csv":
                    frame.write_csv(file, include_header=number == 0)
                    continue
                rows = frame.to_arrow()
                if writer is None:
                    schema = rows.schema.with_metadata(dict(about) if about else None)
                    writer = pq.ParquetWriter(file, schema, compression="zstd")
                writer.write_table(rows)
        finally:
            if writer is not None:
                writer.close()
    return n_rows


def write_json(value: dict[str, Any], output: Path | None = None) -> None:
    """Write a dictionary as JSON to a file or to stdout; NaN and infinities become null."""
    finite = _finite(value)
    text = json.dumps(finite, ensure_ascii=False, indent=2, default=str, allow_nan=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    with _opened(output) as file:
        file.write(text.encode())


def write_result(found: RecommendationSet | Explanation, kind: str, output: Path | None) -> None:
    """Write a result as JSON, or its rows as a table with the recommender named on stderr."""
    if kind == "json":
        write_json(found.to_dict(), output)
        return
    write_frames([found.to_frame()], kind, output)
    messages().print(f"Answered by {found.recommender}.", markup=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
