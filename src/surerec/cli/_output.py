"""Where data and messages go: data to stdout or a file, messages to stderr."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow.parquet as pq
import typer
from rich.console import Console

from surerec._files import file_aside
from surerec._inputs import reason
from surerec._shown import visible
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import polars as pl
    from rich.text import Text

    from surerec.calibration import Guarantee
    from surerec.recommenders import Explanation, RecommendationSet


Format: TypeAlias = Literal["table", "json", "csv", "parquet"]


class _Terminal(Console):
    """A console on which control characters of ids and titles are shown, not obeyed."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Return a text ready to print."""
        return super().render_str(visible(text), **how)


def stdout() -> Console:
    """Give the console for people; into a file or pipe there is no screen to fit into."""
    console = _Terminal()
    return console if console.is_terminal else _Terminal(width=160)


def messages() -> Console:
    """Give the console for messages."""
    return _Terminal(stderr=True, highlight=False, soft_wrap=True)


def format_of(given: Format, output: Path | None) -> Format:
    """Return the format to write: for a file without one, that of its name."""
    if output is None or given != "table":
        return given
    named: dict[str, Format] = {".json": "json", ".csv": "csv", ".parquet": "parquet"}
    if output.suffix.lower() not in named:
        raise InputError(
            f"{output}: a table for people is not written to a file: end the name in .json, .csv "
            "or .parquet, or give --format."
        )
    return named[output.suffix.lower()]


@contextmanager
def write_aside(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name when it is complete, or not at all.

    What is written to a device, a pipe or an open file is added to what is there.
    """
    with _written(path), file_aside(path) as aside, aside.open("ab") as file:
        yield file


def make_folder(path: Path) -> None:
    """Make a folder for several files, unless it is there."""
    with _written(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({reason(error)}).") from error


def write_frame(
    frame: pl.DataFrame, kind: str, output: Path | None, about: Mapping[str, str] | None = None
) -> None:
    """Write a frame as csv or parquet, to a file or to stdout; see :func:`write_frames`."""
    write_frames([frame], kind, output, about)


def about_output(recommender: str, guarantee: Guarantee) -> dict[str, str]:
    """Return what batch output says of itself: the recommender and the guarantee."""
    return {"surerec.recommender": recommender, "surerec.guarantee": str(guarantee)}


def write_frames(
    frames: Iterable[pl.DataFrame],
    kind: str,
    output: Path | None,
    about: Mapping[str, str] | None = None,
) -> int:
    """Write frames of one schema one after the other, in bounded memory; return their rows.

    `about` becomes metadata of a Parquet file; a CSV file has no place for it.
    """
    if output is None:
        if kind == "parquet" and sys.stdout.isatty():
            raise InputError("Parquet is not for the screen: give --output FILE, or a pipe.")
        return _write(frames, kind, sys.stdout.buffer, about)
    with write_aside(output) as file:
        return _write(frames, kind, file, about)


def _write(
    frames: Iterable[pl.DataFrame], kind: str, file: IO[bytes], about: Mapping[str, str] | None
) -> int:
    n_rows = 0
    writer: pq.ParquetWriter | None = None
    try:
        for number, frame in enumerate(frames):
            n_rows += len(frame)
            if kind == "csv":
                frame.write_csv(file, include_header=number == 0)
                continue
            table = frame.to_arrow()
            if writer is None:
                schema = table.schema.with_metadata(dict(about) if about else None)
                writer = pq.ParquetWriter(file, schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
    return n_rows


def write_text(text: str, output: Path | None) -> None:
    """Write a text, to a file or to stdout."""
    if output is None:
        typer.echo(text, nl=False)
        return
    with write_aside(output) as file:
        file.write(text.encode())


def write_json(value: dict[str, Any], output: Path | None) -> None:
    """Write a dictionary as JSON, to a file or to stdout."""
    write_text(to_json(value) + "\n", output)


def write_result(found: RecommendationSet | Explanation, kind: str, output: Path | None) -> None:
    """Write an answer as JSON, or its rows as a bare table.

    Whose answer a bare table is, is written to stderr.
    """
    if kind == "json":
        write_json(found.to_dict(), output)
        return
    write_frame(found.to_frame(), kind, output)
    messages().print(f"Answered by {found.recommender}.", markup=False)


def to_json(value: dict[str, Any]) -> str:
    """Write JSON that every reader accepts: NaN and infinities, which JSON lacks, are null."""
    return json.dumps(_finite(value), ensure_ascii=False, indent=2, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
