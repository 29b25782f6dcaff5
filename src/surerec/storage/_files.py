"""The files of a model: their roles, names and schemas, and their bytes, written and mapped."""

from __future__ import annotations

import hashlib
import io
import tokenize
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._memory import in_words
from surerec._state import ArraySchema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray


TABLES: Final = {"users": Columns.User, "items": Columns.Item}
"""The tables by role, with the column of ids."""

_INDEX: Final = ("uint32", "uint64")
_COUNTS: Final = ("uint16", "uint32")
_SPANS: Final = {
    f"{side}_{part}": schema
    for side in ("following", "preceding")
    for part, schema in (
        ("offsets", ArraySchema("int64", ("n_items+1",))),
        ("starts", ArraySchema(_INDEX, ("n_rows",))),
        ("stops", ArraySchema(_INDEX, ("n_rows",))),
    )
}
_HELD: Final = {
    f"{direction}_held_{part}": schema
    for direction in ("followers", "predecessors")
    for part, schema in (
        ("slots", ArraySchema("int64", ("n_items",))),
        ("dense", ArraySchema(_COUNTS, (None, "n_items"))),
        ("offsets", ArraySchema("int64", (None,))),
        ("items", ArraySchema("uint32", (None,))),
        ("counts", ArraySchema(_COUNTS, (None,))),
    )
}
ARRAYS: Final[dict[str, ArraySchema]] = {
    "support": ArraySchema("uint32", ("n_items",)),
    "offsets": ArraySchema("int64", ("n_users+1",)),
    "items_taken": ArraySchema("uint32", ("n_rows",)),
    "times": ArraySchema("int64", ("n_rows",)),
    "followers": ArraySchema(_COUNTS, ("n_items", "n_items")),
    "predecessors": ArraySchema(_COUNTS, ("n_items", "n_items")),
    **_SPANS,
    **_HELD,
}
"""The arrays of statistics by role; their numbers are looked at as they are read."""

ROW_ROLES: Final[dict[str, tuple[str, ...]]] = {
    "dense": ("followers", "predecessors"),
    "on-demand": tuple(_SPANS),
    "bounded": (*_SPANS, *_HELD),
    "none": (),
}
"""The arrays of rows, by the kind of their store; only dense ones do without profiles."""

STATE_ROLES: Final = {"arrays": "array", "texts": "text"}
"""What recommenders keep beside the statistics, by field: any number of files of each role."""
MOST_TEXT: Final = 1 << 30
"""Bytes of one text: texts are read, not mapped, and a stranger's file must not fill the memory."""
_STATE_ARRAY: Final = ArraySchema(
    (
        "bool", "float32", "float64",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    ),
    None,
)  # fmt: skip

ROLES: Final = frozenset({*TABLES, *ARRAYS, *STATE_ROLES.values()})

_PIECE: Final = 16 << 20  # bytes between two moves of the progress bar

# What NumPy's reader raises, beside ValueError, at a header that was made to lead it astray.
_BAD_HEADER = (
    MemoryError,
    OverflowError,
    RecursionError,
    SyntaxError,
    TypeError,
    tokenize.TokenError,
)


def file_kind(role: str) -> str:
    """Return the ending of a file's name."""
    return "arrow" if role in TABLES else "txt" if role == STATE_ROLES["texts"] else "npy"


def file_name(role: str, sha256: str) -> str:
    """Return the name of the file of that role and content.

    Examples
    --------
    >>> file_name("users", 64 * "a"), file_name("times", 64 * "b"), file_name("text", 64 * "c")
    ('users-aaaaaaaaaaaaaaaa.arrow', 'times-bbbbbbbbbbbbbbbb.npy', 'text-cccccccccccccccc.txt')
    """
    return f"{role}-{sha256[:16]}.{file_kind(role)}"


def role_of(name: str) -> str:
    """Return the role of a file from its name."""
    return name.partition("-")[0]


def roles_for(rows: str, *, with_profiles: bool) -> set[str]:
    """Return the roles of the files that a model has; ValueError if there is no such model."""
    profiles = {*TABLES, "offsets", "items_taken", "times"} if with_profiles else set()
    if rows not in ROW_ROLES or not (with_profiles or rows == "dense"):
        raise ValueError(rows)
    return {"support", *ROW_ROLES[rows]} | profiles


def check_state_array(array: object) -> None:
    """Raise ValueError unless it is an array that can be part of a state."""
    # By type, for a masked array would lose its mask.
    if not isinstance(array, np.ndarray) or type(array) not in (np.ndarray, np.memmap):
        raise ValueError(f"it is of type {type(array).__name__}, not a NumPy array")
    _STATE_ARRAY.check("it", array, {})


def check_state_text(text: object) -> None:
    """Raise ValueError unless it is a text that can be part of a state."""
    if not isinstance(text, str):
        raise ValueError(f"it is of type {type(text).__name__}, not text")  # noqa: TRY004
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(f"UTF-8 cannot say its character {error.start + 1:,}") from None
    if size > MOST_TEXT:
        raise ValueError(f"it has {in_words(size)}, more than {in_words(MOST_TEXT)}")


def check_table(role: str, table: pl.DataFrame, sizes: dict[str, int]) -> None:
    """Raise ValueError unless a table holds as many ids as there are, and texts if any."""
    types = dict(table.schema)
    ids = types.pop(TABLES[role], None)
    texts = {types.pop(name, pl.String()) for name in (Columns.Title, Columns.Genres)}
    is_id = ids is not None and (ids.is_integer() or ids == pl.String)
    length = sizes["n_users" if role == "users" else "n_items"]
    has_all = is_id and not table[TABLES[role]].null_count()
    if not has_all or texts != {pl.String()} or types or len(table) != length:
        raise ValueError(f"{role} has {len(table)} rows of {table.schema}, not {length} ids")


@dataclass(frozen=True, eq=False)
class Content:
    """What a file will hold, in memory already; nothing is copied."""

    role: str
    parts: tuple[memoryview, ...]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return sum(part.nbytes for part in self.parts)

    def pieces(self) -> Iterator[memoryview]:
        """Return the bytes, piece by piece."""
        for part in self.parts:
            for start in range(0, part.nbytes, _PIECE):
                yield part[start : start + _PIECE]

    @cached_property
    def sha256(self) -> str:
        """The checksum."""
        checksum = hashlib.sha256()
        for piece in self.pieces():
            checksum.update(piece)
        return checksum.hexdigest()

    @property
    def name(self) -> str:
        """The name of the file, by role and checksum."""
        return file_name(self.role, self.sha256)


def array_content(role: str, array: NDArray[Any]) -> Content:
    """Return an array as the bytes of a ``.npy`` file."""
    flat = np.asarray(array, order="C")  # a single number keeps its shape, ()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(flat))
    return Content(role, (memoryview(header.getvalue()), flat.reshape(-1).view(np.uint8).data))


def text_content(role: str, text: str) -> Content:
    """Return a text as the bytes of a UTF-8 file, line ends as they are."""
    return Content(role, (memoryview(text.encode("utf-8")),))


def table_content(role: str, columns: dict[str, pl.Series]) -> Content:
    """Return columns as the bytes of an Arrow IPC file.

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
