"""Text files of any usual dialect, read as cells of text by polars."""

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

from surerec._inputs import check_file, damage_in_words, read_whole
from surerec._memory import available_memory
from surerec._words import in_words
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
_WORTHWHILE: Final = 1 << 23  # bytes: polars reads less sooner than the check here is compiled
_WHOLE_LINE: Final = "\x01"  # a separator that no text has, so that polars gives whole lines
_POSITIONS: Final = ("user_id", "item_id", "rating", "timestamp")  # of files that have no header


@dataclass(frozen=True)
class Dialect:
    """How a text file is written."""

    separator: str
    quote: str | None
    header: bool
    names: tuple[str, ...]
    netflix: bool = False


def table_from_text(
    path: Path,
    wanted: Mapping[str, str | None],
    *,
    columns: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> RawTable:
    """Read CSV, TSV, ``::``-separated, RecBole ``.inter`` or Netflix-Prize text.

    Parameters
    ----------
    path : Path
        The file; ``.gz`` is unpacked in memory.
    wanted : mapping
        The columns that the caller named, by role.
    columns : sequence of str, optional
        Names of the columns of a file without a header.
    n_rows : int, optional
        Read only so many rows from the start.
    """
    source, head = _open(path)
    with damage_in_words(path, "cannot be read as a table"):
        dialect = sniff(path, head, wanted, columns)
        roles = find_columns(dialect.names, wanted, str(path))
        try:
            return _read(path, source, dialect, roles, n_rows)
        except pl.exceptions.PolarsError as error:
            if "utf-8" not in str(error):
                raise
        # Neither UTF-8 nor marked as something else: the older sets are Latin-1.
        source = _bytes(source).decode("latin-1").encode()
        return _read(path, source, dialect, roles, n_rows)


def _open(path: Path) -> tuple[Path | bytes, str]:
    """Return what polars can read (the path itself where it can) and the first part as text."""
    source: Path | bytes = path
    head = b""
    if check_file(path):  # files under /proc say that they are empty, and some never end
        with damage_in_words(path, "cannot be read"), path.open("rb") as file:
            head = file.read(_HEAD)
    if head.startswith(b"\x1f\x8b"):
        source = _unpack(path)
        head = source[:_HEAD]
    encoding = next((name for bom, name in _BOMS if head.startswith(bom)), None)
    if encoding is None and b"\0" in head:
        encoding = "utf-16-le" if head[1:2] == b"\0" else "utf-16-be"
    if encoding is not None:
        with damage_in_words(path, "neither text nor Parquet"):
            source = _bytes(source).decode(encoding).encode()
        head = source[:_HEAD]
    text = head.decode("utf-8", errors="replace")
    if not text.strip():
        raise InputError(f"{path}: the file is empty; it needs rows of user, item and time.")
    return source, text


def _unpack(path: Path) -> bytes:
    limit = available_memory() // 4
    text = io.BytesIO()
    with damage_in_words(path, "a damaged gzip file", "fetch it again"), gzip.open(path) as file:
        # In pieces: for all that it may read at once, Python sets the memory aside before it does.
        while piece := file.read(_PIECE):
            text.write(piece)
            if text.tell() > limit:
                raise InputError(
                    f"{path}: unpacks to more than {in_words(limit)}, a quarter of the free "
                    "memory; unpack it to disk first."
                )
    return text.getvalue()


def _bytes(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else read_whole(source)


def sniff(
    path: Path, head: str, wanted: Mapping[str, str | None], columns: Sequence[str] | None
) -> Dialect:
    """Find how a text file is written from its first part, and refuse it if that cannot be told."""
    # As polars has lines: `splitlines` would also cut at \f, \x1c and their like.
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
                f"{path}: {len(columns)} column names were given, but line 1 has {len(fields)} "
                f"fields: {first.strip()!r}."
            )
        return replace(dialect, names=tuple(columns))
    if looks_like_header(fields, wanted):
        return replace(dialect, header=True)
    if separator == "::" and len(fields) == len(_POSITIONS):
        return replace(dialect, names=_POSITIONS)
    raise InputError(
        f"{path}: line 1, {first.strip()[:80]!r}, is data, not names of columns; name all "
        f"{len(fields)} in order, such as --columns user_id,item_id,rating,timestamp on the "
        'command line or columns=["user_id", …] in Python, or add such a line to the file.'
    )


def _read(
    path: Path,
    source: Path | bytes,
    dialect: Dialect,
    roles: Mapping[str, str],
    n_rows: int | None,
) -> RawTable:
    first_line = 2 if dialect.header else 1
    if dialect.netflix:
        frame = _scan_films(source, n_rows).collect()
        lines = frame["number"].to_numpy()
        return RawTable(str(path), frame.drop("number"), lambda row: f"line {lines[row] + 1}")
    # By position: polars' own names differ between versions, and headers may repeat a name.
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
                f"{path}: line 1 has not the {len(dialect.names)} fields of the first line that "
                "holds something; remove what stands before it."
            )
        found = pl.DataFrame({role: cells.to_series(at) for role, at in positions.items()})
    return RawTable(
        str(path),
        found,
        lambda row: f"line {row + first_line}",
        malformed=malformed,
        blank=_blank(found, source, first_line),
    )


def _read_numbers(
    source: Path | bytes, dialect: Dialect, positions: Mapping[str, int]
) -> pl.DataFrame | None:
    """Read a large file whose ids, times and ratings are all numbers; None if some are not."""
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
    """Check that no field begins with a sign or a zero before a digit, and that none is quoted.

    Such an id is a text: as a number it could not be written again.
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
    """Scan cells as text, but for the columns whose kinds are named."""
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
    """Read many Netflix-Prize files in one scan; None if they are not, or something is odd."""
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
        return None  # each file on its own says what is the matter
    if frame.null_count().sum_horizontal()[0]:
        return None
    return RawTable(str(paths[0]), frame)


def _scan_films(source: Path | bytes | list[Path], n_rows: int | None) -> pl.LazyFrame:
    """Scan lines ``user,rating,date`` under a line such as ``7:`` that names their film."""
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
    """Find the rows with too many fields: slow, and only ever needed to complain."""
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
    """Find the rows that are blank lines, apart from lines whose fields are all empty."""
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
