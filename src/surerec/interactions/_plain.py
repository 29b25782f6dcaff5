"""Large files of plain text, parsed in blocks on all cores; odd ones are left to `_text`.

Plain is a file whose ids are whole numbers, whose times are whole numbers or dates and in which no
cell that is wanted is missing or quoted. What is read is what `_text` and `_cells` would read.
"""

from __future__ import annotations

import codecs
import math
import re
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._inputs import check_file, damage_in_words
from surerec._threads import run_blocks
from surerec.errors import InputError
from surerec.interactions._cells import is_unit
from surerec.interactions._names import find_columns
from surerec.interactions._parsing import (
    DATE,
    ITEM,
    NUMBER,
    RATING,
    SKIPPED,
    USER,
    count_lines,
    parse_films,
    parse_rows,
)
from surerec.interactions._size import plain_text_fits
from surerec.interactions._tables import RawTable
from surerec.interactions._text import Dialect, sniff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Piece = tuple[Path, int, int]  # of a file, from one byte to another
    # Columns in the order of _ROLES; their rows; those of them that are of the film before the
    # block; its last film; rows below the threshold.
    _Parsed = tuple[tuple[NDArray[Any], ...], int, int, int, int]

_WORTHWHILE: Final = 1 << 23  # bytes: polars reads less sooner than the kernels here are compiled
_BLOCK: Final = 1 << 24  # bytes that a thread reads at a time
_PART: Final = 1 << 23  # values of a column that are given room at a time: 64 MB
_LINE: Final = 1 << 16  # bytes that a line of a plain file surely does not have
_FILM: Final = re.compile(rb"\d+:\r?\n")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_ROLES: Final = ("user", "item", "time", "rating")
_NEWLINE: Final = 10
_OTHERS: Final = (b"\x1f\x8b", b"PAR1", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def plain_table(
    paths: Sequence[Path],
    wanted: Mapping[str, str | None],
    *,
    columns: Sequence[str] | None,
    time_format: str | None,
    threshold: float | None,
) -> RawTable | None:
    """Read a plain text file, or any number of Netflix-Prize files; None if something is odd.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    wanted : mapping
        The columns that the caller named, by role.
    columns : sequence of str, optional
        Names of the columns of a file without a header.
    time_format, threshold
        As in :func:`surerec.read_interactions`.
    """
    if time_format is not None and not is_unit(time_format):
        return None
    try:
        with damage_in_words(paths[0], "is not plain"):
            sizes = [check_file(path) for path in paths]
            if sum(sizes) < _WORTHWHILE or not plain_text_fits(sum(sizes)):
                return None
            dialect = sniff(paths[0], _head(paths[0]), wanted, columns)
            roles = find_columns(dialect.names, wanted, str(paths[0]))
            if dialect.netflix:
                lowest = -math.inf if threshold is None else threshold
                return _films(paths, sizes, lowest)
            return _rows(paths[0], sizes[0], dialect, roles) if len(paths) == 1 else None
    except InputError:
        return None  # whoever reads it with care says what is the matter


def _head(path: Path) -> str:
    """Give the first part of a file of one byte a character; others are no plain ones."""
    with path.open("rb") as file:
        head = file.read(_LINE)
    if head.startswith(_OTHERS) or b"\0" in head or not head.strip():
        raise UnicodeError
    return head.decode("utf-8", errors="replace")


def _rows(path: Path, size: int, dialect: Dialect, roles: Mapping[str, str]) -> RawTable | None:
    with path.open("rb") as file:
        lines = [file.readline(_LINE) for _ in range(2 if dialect.header else 1)]
    if not all(line.endswith(b"\n") for line in lines) or not lines[0].strip():
        return None
    if lines[0].count(b'"') % 2:  # a name of a column that goes on in the next line
        return None
    cells = lines[-1].decode("latin-1").split(dialect.separator)
    if len(cells) != len(dialect.names):
        return None
    by_name = {"user": USER, "item": ITEM, "rating": RATING}
    fields = np.full(len(cells), SKIPPED)
    for role, name in roles.items():
        at = dialect.names.index(name)
        is_date = role == "time" and _DATE.match(cells[at])
        fields[at] = by_name.get(role, DATE if is_date else NUMBER)
    separator = np.frombuffer(dialect.separator.encode(), dtype=np.uint8)
    quote = np.uint8(ord(dialect.quote or "\n"))  # which no field has

    rooms = {role: _Room(np.float64 if role == "rating" else np.int64) for role in _ROLES}

    def parse(text: NDArray[np.uint8]) -> _Parsed:
        n_lines = count_lines(text)
        users, items, times, ratings = (room.take(n_lines) for room in rooms.values())
        wholes = (users, items, times)
        n_rows = parse_rows(text, separator, quote, fields, wholes, ratings)
        return (*wholes, ratings), n_rows, 0, -1, 0

    pieces = _cut(path, len(lines[0]) if dialect.header else 0, size)
    first_line = 2 if dialect.header else 1
    found = _parsed([[piece] for piece in pieces], parse, tuple(roles), dates=DATE in fields)
    if found is None:
        return None
    return RawTable(str(path), found[0], lambda row: f"line {row + first_line}")


def _films(paths: Sequence[Path], sizes: Sequence[int], threshold: float) -> RawTable | None:
    rooms = (_Room(np.int32), _Room(np.int32), _Room(np.int64))

    def parse(text: NDArray[np.uint8]) -> _Parsed:
        n_lines = count_lines(text)
        users, items, times = (room.take(n_lines) for room in rooms)
        return (users, items, times), *parse_films(text, threshold, users, items, times)

    found = _parsed(list(_blocks(paths, sizes)), parse, _ROLES[:3], dates=True, begins=_FILM)
    if found is None:
        return None
    # Of what is read here nothing can be complained about, so that no place is asked for.
    return RawTable(str(paths[0]), found[0], lambda row: f"row {row + 1}", n_below=found[1])


def _parsed(
    blocks: Sequence[Sequence[Piece]],
    parse: Callable[[NDArray[np.uint8]], _Parsed],
    roles: Sequence[str],
    *,
    dates: bool,
    begins: re.Pattern[bytes] | None = None,
) -> tuple[pl.DataFrame, int] | None:
    """Parse blocks on all cores; their columns stay in as many parts, which nobody joins.

    Returns the rows, and how many more were left out for their rating.
    """

    def read(block: Sequence[Piece]) -> _Parsed | None:
        text = _text(block, begins)
        return None if text is None else parse(text)

    parts: dict[str, list[pl.Series]] = {role: [] for role in roles}
    film, n_below = -1, 0
    for parsed in run_blocks(read, blocks):
        if parsed is None or parsed[1] < 0:
            return None
        arrays, n_rows, n_before, last, below = parsed
        # The first rows of a block within a file are of the film that the block before ended with.
        arrays[1][:n_before] = film
        film = last if last >= 0 else film
        n_below += below
        for role, array in zip(_ROLES, arrays, strict=False):
            if role in parts:
                parts[role].append(pl.Series(array[:n_rows]))
    whole = {role: pl.concat(series, rechunk=False) for role, series in parts.items()}
    if dates and "time" in whole:
        whole["time"] = whole["time"].cast(pl.Datetime("us"))
    return pl.DataFrame(whole), n_below


class _Room:
    """Memory of one column, taken in parts that are given back to the system when it is let go.

    The system's `malloc` keeps what is freed of arrays below 32 MB, and so of those of a block.
    """

    def __init__(self, kind: type[np.generic]) -> None:
        self.free = np.empty(0, dtype=kind)
        self.lock = Lock()

    def take(self, n: int) -> NDArray[Any]:
        """Give an array of `n`, with nothing in it yet."""
        with self.lock:
            if n > len(self.free):
                self.free = np.empty(max(n, _PART), dtype=self.free.dtype)
            taken, self.free = self.free[:n], self.free[n:]
        return taken


def _cut(path: Path, start: int, size: int) -> list[Piece]:
    """Cut a file into pieces that end with lines; none if its lines are too long."""
    cuts = [start]
    with path.open("rb") as file:
        while size - cuts[-1] > _BLOCK:
            file.seek(cuts[-1] + _BLOCK)
            rest = file.readline(_LINE)
            if not rest.endswith(b"\n"):
                break
            cuts.append(cuts[-1] + _BLOCK + len(rest))
    return [(path, begin, end) for begin, end in pairwise([*cuts, size]) if begin < end]


def _blocks(paths: Sequence[Path], sizes: Sequence[int]) -> Iterator[list[Piece]]:
    """Put small files together and cut large ones."""
    block: list[Piece] = []
    held = 0
    for path, size in zip(paths, sizes, strict=True):
        for piece in _cut(path, 0, size) if size > _BLOCK else [(path, 0, size)]:
            block.append(piece)
            held += piece[2] - piece[1]
            if held >= _BLOCK:
                yield block
                block, held = [], 0
    if block:
        yield block


def _text(block: Sequence[Piece], begins: re.Pattern[bytes] | None) -> NDArray[np.uint8] | None:
    """Give the bytes of pieces, each ending with a newline; None if they are not what they seem."""
    text = np.empty(sum(end - begin + 1 for _, begin, end in block), dtype=np.uint8)
    done = 0
    for path, begin, end in block:
        here = text.data[done : done + end - begin]
        with path.open("rb", buffering=0) as file:
            file.seek(begin)
            if file.readinto(here) != end - begin:
                return None
        if begins is not None and begin == 0 and not begins.match(here):
            return None
        done += end - begin
        if text[done - 1] != _NEWLINE:
            text[done] = _NEWLINE
            done += 1
    return text[:done]
