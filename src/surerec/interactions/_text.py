"""Text files in all common dialects, read as text cells by polars."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from numba import njit

from surerec._inputs import as_input_error, check_file, read_whole
from surerec._memory import available_memory
from surerec._words import in_bytes
from surerec.errors import InputError
from surerec.interactions._names import find_columns, looks_like_header
from surerec.interactions._tables import RawTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray


_HEAD: Final = 1 << 16
_PIECE: Final = 1 << 22
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FILM: Final = re.compile(rb"\d+:\r?\n")  # the first line of each Netflix-Prize file
_NUMBERS: Final = {
    **dict.fromkeys(("user", "item", "time"), pl.Int64),
    **dict.fromkeys(("rating", "score", "rank"), pl.Float64),
}
_WORTHWHILE: Final = 1 << 23  # bytes; for less, compiling the check takes longer than reading
_WHOLE_LINE: Final = "\x01"  # a separator that no text has, so that polars returns whole lines
_POSITIONS: Final = ("user_id", "item_id", "rating", "timestamp")  # of files without a header


@dataclass(frozen=True)
class Dialect:
    """Dialect of a text file."""

    separator: str
    quote: str | None
    header: bool
    names: tuple[str, ...]
    netflix: bool = False


def table_from_text(
    path: Path,
    requested: Mapping[str, str | None],
    *,
    columns: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> RawTable:
    """Read CSV, TSV, ``::``-separated, RecBole ``.inter`` or Netflix-Prize text.

    Parameters
    ----------
    path : Path
        The file; ``.gz`` is decompressed in memory.
    requested : mapping
        Requested columns by role; see :func:`find_columns`.
    columns : sequence of str, optional
        Names of the columns of a file without a header.
    n_rows : int, optional
        Read only the first rows.
    """
    source, head = _open(path)
    with as_input_error(path, "cannot be read as a table", "Check its quotes and separators."):
        dialect = sniff(path, head, requested, columns)
        roles = find_columns(dialect.names, requested, str(path))
        try:
            return _read(path, source, dialect, roles, n_rows)
        except pl.exceptions.PolarsError as error:
            if "utf-8" not in str(error):
                raise
        # Not UTF-8 and without a byte order mark: older data sets are Latin-1.
        source = _bytes(source).decode("latin-1").encode()
        return _read(path, source, dialect, roles, n_rows)


def _open(path: Path) -> tuple[Path | bytes, str]:
    """Return a source for polars (the path if possible) and the beginning as text."""
    source: Path | bytes = path
    head = b""
    if check_file(path):  # files under /proc report size 0, and some never end
        with as_input_error(path, "cannot be read"), path.open("rb") as file:
            head = file.read(_HEAD)
    if head.startswith(b"\x1f\x8b"):
        source = _unpack(path)
        head = source[:_HEAD]
    encoding = next((name for bom, name in _BOMS if head.startswith(bom)), None)
    if encoding is None and b"\0" in head:
        encoding = "utf-16-le" if head[1:2] == b"\0" else "utf-16-be"
    if encoding is not None:
        with as_input_error(path, "neither text nor Parquet"):
            source = _bytes(source).decode(encoding).encode()
        head = source[:_HEAD]
    text = head.decode("utf-8", errors="replace")
    if not text.strip():
        raise InputError(f"{path}: the file is empty. Pass rows of user, item and time.")
    return source, text


def _unpack(path: Path) -> bytes:
    limit = available_memory() // 4
    text = io.BytesIO()
    with (
        as_input_error(path, "a damaged gzip file", "Download it again."),
        gzip.open(path) as file,
    ):
        # In pieces: for a single large read, Python allocates the memory beforehand.
        while piece := file.read(_PIECE):
            text.write(piece)
            if text.tell() > limit:
                raise InputError(
                    f"{path}: more than {in_bytes(limit)} when decompressed, a quarter of the free "
                    "memory. Decompress it to disk first."
                )
    return text.getvalue()


def _bytes(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else read_whole(source)


def sniff(
    path: Path, head: str, requested: Mapping[str, str | None], columns: Sequence[str] | None
) -> Dialect:
    """Detect the dialect of a text file from its beginning, or raise InputError."""
    # Lines as in polars: `splitlines` would also split at \f, \x1c and others.
    first = next(line for line in head.split("\n") if line.strip()).removesuffix("\r")
    if re.fullmatch(r"\s*\d+:\s*", first):
        names = ("user_id", "rating", "date", "item_id")
        return Dialect(",", None, header=False, names=names, netflix=True)
    typed = all(re.fullmatch(r"\s*\w+:(token|float)(_seq)?\s*", f) for f in first.split("\t"))
    if "::" in first:
        separator, quote = "::", None
    else:
        separator = max("\t,;|", key=first.count)
        quote = None if typed else '"'
    fields = next(csv.reader([first], delimiter=separator, quotechar=quote)) if quote else (
        first.split(separator)
    )  # fmt: skip
    dialect = Dialect(separator, quote, header=False, names=tuple(fields))
    if columns is not None:
        if len(columns) != len(fields):
            raise InputError(
                f"{path}:1: columns= has {len(columns)} names, but the line has {len(fields)} "
                f"fields: {first.strip()[:80]!r}. Name all of them."
            )
        return replace(dialect, names=tuple(columns))
    if looks_like_header(fields, requested):
        return replace(dialect, header=True)
    if separator == "::" and len(fields) == len(_POSITIONS):
        return replace(dialect, names=_POSITIONS)
    raise InputError(
        f"{path}:1: data instead of column names: {first.strip()[:80]!r}. Name all {len(fields)} "
        "columns with columns= (user_id,item_id,rating,timestamp), or add a header line."
    )


def _read(
    path: Path, source: Path | bytes, dialect: Dialect, roles: Mapping[str, str], n_rows: int | None
) -> RawTable:
    first_line = 2 if dialect.header else 1
    if dialect.netflix:
        frame = _scan_films(source, n_rows).collect()
        lines = frame["number"].to_numpy()
        return RawTable(str(path), frame.drop("number"), lambda row: f"{path}:{lines[row] + 1}")
    # By position: column names of polars differ between versions, and headers may repeat a name.
    positions = {role: dialect.names.index(name) for role, name in roles.items()}
    malformed = np.empty(0, dtype=np.int64)
    found = _read_numbers(source, dialect, positions) if n_rows is None else None
    if found is None:
        try:
            cells = _scan(source, dialect, n_rows).collect()
        except pl.exceptions.ComputeError as error:
            if "more fields" not in str(error):
                raise
            cells = _scan(source, dialect, n_rows, ragged=True).collect()
            malformed = _too_long(source, dialect, len(cells))
        if cells.width < len(dialect.names):
            raise InputError(
                f"{path}:1: fewer than the {len(dialect.names)} fields of the first line with "
                "content. Remove the lines above it."
            )
        found = pl.DataFrame({role: cells.to_series(at) for role, at in positions.items()})
    return RawTable(
        str(path),
        found,
        lambda row: f"{path}:{row + first_line}",
        malformed=malformed,
        blank=_blank(found, source, first_line),
    )


def _read_numbers(
    source: Path | bytes, dialect: Dialect, positions: Mapping[str, int]
) -> pl.DataFrame | None:
    """Read a large file of numeric ids, times and ratings; None if some are not numbers."""
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    is_plain = len(dialect.separator) == 1 and positions.keys() <= _NUMBERS.keys()
    if size < _WORTHWHILE or not is_plain:
        return None
    text = np.memmap(source, np.uint8, "r") if isinstance(source, Path) else (
        np.frombuffer(source, np.uint8)
    )  # fmt: skip
    if not has_plain_numbers(text, np.uint8(ord(dialect.separator))):
        return None
    try:
        names = _scan(source, dialect, None).collect_schema().names()
        if len(names) < len(dialect.names):
            return None
        kinds = {names[at]: _NUMBERS[role] for role, at in positions.items()}
        frame = _scan(source, dialect, None, kinds=kinds).select(*kinds).collect()
    except pl.exceptions.PolarsError:
        return None
    return frame.select(pl.col(names[at]).alias(role) for role, at in positions.items())


@njit(nogil=True, cache=True)
def has_plain_numbers(text: NDArray[np.uint8], separator: np.uint8) -> bool:
    """Return whether no field is quoted or begins with a sign or with a zero before a digit.

    Such an id is text: an integer would lose how it is written.
    """
    odd = False
    for place in range(len(text) - 1):
        before, here, after = text[place - 1], text[place], text[place + 1]
        begins = (place == 0) | (before == separator) | (before == 10)  # noqa: PLR2004  # a newline
        padded = (here == 48) & (after >= 48) & (after < 58)  # noqa: PLR2004  # of digits
        odd |= (begins & (padded | (here == 43) | (here == 45))) | (here == 34)  # noqa: PLR2004
    return not odd


def _scan(
    source: Path | bytes,
    dialect: Dialect,
    n_rows: int | None,
    *,
    ragged: bool = False,
    kinds: Mapping[str, type[pl.DataType]] | None = None,
) -> pl.LazyFrame:
    """Scan cells as text, except columns with a type in `kinds`."""
    if len(dialect.separator) == 1:
        return pl.scan_csv(
            source,
            separator=dialect.separator,
            quote_char=dialect.quote,
            has_header=dialect.header,
            infer_schema=False,
            schema_overrides=kinds,
            truncate_ragged_lines=ragged,
            n_rows=n_rows,
            glob=False,  # a name may have brackets
        )
    lines = _scan_lines(source, n_rows, skip=int(dialect.header))
    return lines.select(
        pl.col("line")
        .str.strip_chars_end("\r")
        .str.splitn(dialect.separator, len(dialect.names))
        .struct.unnest()
    )


def _scan_lines(
    source: Path | bytes | list[Path], n_rows: int | None, skip: int = 0
) -> pl.LazyFrame:
    return pl.scan_csv(
        source,
        separator=_WHOLE_LINE,
        quote_char=None,
        has_header=False,
        skip_rows=skip,
        infer_schema=False,
        new_columns=["line"],
        n_rows=n_rows,
        glob=False,
    )


def table_from_films(paths: Sequence[Path]) -> RawTable | None:
    """Read many Netflix-Prize files in one scan; None if that fails."""
    try:
        for path in paths:
            with path.open("rb") as file:
                if not _FILM.match(file.read(20)):
                    return None
        frame = (
            _scan_films(list(paths), None)
            .select(
                pl.col("user", "item").cast(pl.Int64),
                pl.col("time").str.to_date("%Y-%m-%d"),
                pl.col("rating").cast(pl.Float64),
            )
            .collect()
        )
    except (OSError, pl.exceptions.PolarsError):
        return None  # reading each file on its own reports the problem
    if frame.null_count().sum_horizontal()[0]:
        return None
    return RawTable(str(paths[0]), frame)


def _scan_films(source: Path | bytes | list[Path], n_rows: int | None) -> pl.LazyFrame:
    """Scan lines ``user,rating,date`` that follow a line with their item, such as ``7:``."""
    is_film = pl.col("line").str.ends_with(":")
    rows = (
        _scan_lines(source, None)
        .with_columns(pl.col("line").str.strip_chars())
        .with_row_index("number")
        .with_columns(
            item=pl.when(is_film).then(pl.col("line").str.strip_chars_end(":")).forward_fill()
        )
        .filter(~is_film & (pl.col("line") != ""))
        .with_columns(
            pl.col("line").str.splitn(",", 3).struct.rename_fields(["user", "rating", "time"])
        )
        .unnest("line")
        .select("user", "item", "time", "rating", "number")
    )
    return rows if n_rows is None else rows.head(n_rows)


def _lines(source: Path | bytes) -> Iterator[str]:
    file = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    with file, io.TextIOWrapper(file, encoding="utf-8", errors="replace") as text:
        yield from text


def _too_long(source: Path | bytes, dialect: Dialect, n_rows: int) -> NDArray[np.int64]:
    """Return the rows with too many fields; slow, and used only for messages."""
    reader = csv.reader(
        _lines(source),
        delimiter=dialect.separator,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    rows = (row for number, row in enumerate(reader) if number >= dialect.header)
    width = len(dialect.names)
    long = [number for number, row in enumerate(rows) if len(row) > width and number < n_rows]
    return np.array(long, dtype=np.int64)


def _blank(frame: pl.DataFrame, source: Path | bytes, first_line: int) -> NDArray[np.int64]:
    """Return the rows that are blank lines, not those with separators only."""
    first = frame.to_series(0)
    is_empty = first.is_null() if first.dtype != pl.String else first.is_null() | (first == "")
    empty = is_empty.arg_true().to_numpy()
    if not empty.size:
        return empty.astype(np.int64)
    suspects = set((empty + first_line).tolist())
    blank = [
        number - first_line
        for number, line in enumerate(_lines(source), start=1)
        if number in suspects and not line.strip()
    ]
    return np.array(blank, dtype=np.int64)
