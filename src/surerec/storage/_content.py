"""The bytes of one file: made from an array or a table, and opened as a memory map."""

from __future__ import annotations

import hashlib
import io
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray


_PIECE = 16 << 20  # bytes between two moves of the progress bar

# What NumPy's reader raises, beside ValueError, at a header that was made to lead it astray.
_BAD_HEADER = (
    MemoryError,
    OverflowError,
    RecursionError,
    SyntaxError,
    TypeError,
    tokenize.TokenError,
)


@dataclass(frozen=True)
class Content:
    """What a file will hold, in memory already; nothing is copied."""

    role: str
    parts: tuple[memoryview, ...]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return sum(part.nbytes for part in self.parts)

    def pieces(self) -> Iterator[memoryview]:
        """Give the bytes, piece by piece."""
        for part in self.parts:
            for start in range(0, part.nbytes, _PIECE):
                yield part[start : start + _PIECE]

    def sha256(self, advance: Callable[[float], None]) -> str:
        """Give the checksum; `advance` hears of the bytes."""
        checksum = hashlib.sha256()
        for piece in self.pieces():
            checksum.update(piece)
            advance(piece.nbytes)
        return checksum.hexdigest()


def array_content(role: str, array: NDArray[Any]) -> Content:
    """Give an array as the bytes of a ``.npy`` file."""
    flat = np.asarray(array, order="C")  # a single number keeps its shape, ()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(flat))
    return Content(role, (memoryview(header.getvalue()), flat.reshape(-1).view(np.uint8).data))


def text_content(role: str, text: str) -> Content:
    """Give a text as the bytes of a UTF-8 file, line ends as they are."""
    return Content(role, (memoryview(text.encode("utf-8")),))


def table_content(role: str, columns: dict[str, pl.Series]) -> Content:
    """Give columns as the bytes of an Arrow IPC file.

    Written by pyarrow in one batch with plain types, so that equal columns give equal bytes
    however polars holds them.
    """
    import pyarrow as pa  # noqa: PLC0415  # a tenth of a second that nobody waits for before this

    plain = pl.CompatLevel.oldest()
    table = pa.table(
        {name: column.to_arrow(compat_level=plain) for name, column in columns.items()}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return Content(role, (memoryview(sink.getvalue()),))


def open_array(path: Path) -> NDArray[Any]:
    """Map an array from its file, read-only, as the plain kind that kernels know; no pickle."""
    try:
        with np.errstate(over="ignore"):  # a shape beyond all memory is refused a line later
            array = np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except _BAD_HEADER as error:
        raise ValueError(path) from error
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError(path)
    return array


def read_text(path: Path, sha256: str) -> str:
    """Read a text, line ends as they are; ValueError if it is another than was saved."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(path)
    return content.decode("utf-8")


def open_table(path: Path) -> pl.DataFrame:
    """Map a table from its file, one batch of plain columns, all of whose text lies inside it."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            if reader.num_record_batches > 1 or not all(map(_is_plain, reader.schema.types)):
                raise ValueError(path)
            table = reader.read_all()
        table.validate(full=True)
    except OSError as error:
        if error.errno is not None:  # the disk's; Arrow's own have none
            raise
        raise ValueError(path) from error
    except (pa.ArrowException, MemoryError) as error:
        raise ValueError(path) from error
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101  # what a table becomes
    return frame


def _is_plain(kind: pa.DataType) -> bool:
    from pyarrow import types  # noqa: PLC0415

    return any(
        is_one(kind) for is_one in (types.is_integer, types.is_string, types.is_large_string)
    )
