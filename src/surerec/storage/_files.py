"""The files of a model: roles, names and schemas; how they are written and memory-mapped."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import stat
from dataclasses import dataclass
from functools import cached_property
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._state import ArraySchema
from surerec._words import in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


TABLES: Final = {"users": Columns.User, "items": Columns.Item}
"""The tables by role, with their id columns."""
_PROFILES: Final = (*TABLES, "offsets", "item_codes", "times")

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
_INTEGERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
ARRAYS: Final[dict[str, ArraySchema]] = {
    "support": ArraySchema("uint32", ("n_items",)),
    "offsets": ArraySchema("int64", ("n_users+1",)),
    "item_codes": ArraySchema("uint32", ("n_rows",)),
    "times": ArraySchema("int64", ("n_rows",)),
    "followers": ArraySchema(_COUNTS, ("n_items", "n_items")),
    "predecessors": ArraySchema(_COUNTS, ("n_items", "n_items")),
    **_SPANS,
    **_HELD,
    "array": ArraySchema(("bool", "float32", "float64", *_INTEGERS), None),
}
"""The arrays by role; the role "array" is for the state of recommenders, in any number of files."""

ROW_ROLES: Final[dict[str, tuple[str, ...]]] = {
    "dense": ("followers", "predecessors"),
    "bounded": (*_SPANS, *_HELD),
    "none": (),
}
"""The arrays of rows by storage strategy; only dense rows need no profiles."""

STATE_ROLES: Final = {"arrays": "array", "texts": "text"}
"""The roles of a recommender's state, by field of its manifest entry."""
MOST_TEXT: Final = 1 << 30
"""Largest text in bytes. Texts are read into memory, which an untrusted file must not fill."""

_BINARY: Final = getattr(os, "O_BINARY", 0)  # on Windows only

# NumPy's reader raises these, beside ValueError, for a malicious header.
_BAD_HEADER = (MemoryError, OverflowError, RecursionError, SyntaxError, TypeError, TokenError)


class FileRecord(TypedDict):
    """The manifest entry of a file."""

    bytes: int
    sha256: str


def _file_kind(role: str) -> str:
    return "arrow" if role in TABLES else "txt" if role == "text" else "npy"


FILE_NAME: Final = "|".join(
    rf"{role}-[0-9a-f]{{16}}\.{_file_kind(role)}" for role in (*TABLES, *ARRAYS, "text")
)
"""Pattern of the names of all files except the manifest."""


def file_name(role: str, sha256: str) -> str:
    """Return the name of a file with this role and checksum.

    Examples
    --------
    >>> file_name("users", 64 * "a"), file_name("times", 64 * "b"), file_name("text", 64 * "c")
    ('users-aaaaaaaaaaaaaaaa.arrow', 'times-bbbbbbbbbbbbbbbb.npy', 'text-cccccccccccccccc.txt')
    """
    return f"{role}-{sha256[:16]}.{_file_kind(role)}"


def role_of(name: str) -> str:
    """Return the role of a file from its name."""
    return name.partition("-")[0]


def roles_for(rows: str, *, with_profiles: bool) -> list[str]:
    """Return the roles of the files of statistics; raise ValueError for an invalid combination."""
    if rows not in ROW_ROLES or not (with_profiles or rows == "dense"):
        raise ValueError(rows)
    return ["support", *ROW_ROLES[rows], *(_PROFILES if with_profiles else ())]


@dataclass(frozen=True, eq=False)
class Content:
    """The bytes of a file to write, without copies."""

    role: str
    parts: tuple[memoryview, ...]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return sum(part.nbytes for part in self.parts)

    @cached_property
    def sha256(self) -> str:
        """Checksum of the content."""
        checksum = hashlib.sha256()
        for part in self.parts:
            checksum.update(part)
        return checksum.hexdigest()

    @property
    def name(self) -> str:
        """Name of the file, from role and checksum."""
        return file_name(self.role, self.sha256)

    @property
    def record(self) -> FileRecord:
        """Manifest entry of the file."""
        return FileRecord(bytes=self.size, sha256=self.sha256)


def content_of(role: str, value: Any, sizes: dict[str, int] | None = None) -> Content:
    """Return an array, a text or the columns of a table as the bytes of a file.

    Raises
    ------
    ValueError
        If an array does not match its schema, a text is too long or not valid UTF-8, or ids are
        neither integers nor text.
    """
    if role in TABLES:
        return Content(role, (_table_bytes(role, value),))
    if role == "text":
        content = value.encode("utf-8")
        if len(content) > MOST_TEXT:
            raise ValueError(f"it has {in_bytes(len(content))}, more than {in_bytes(MOST_TEXT)}")
        return Content(role, (memoryview(content),))
    # An exact type check, because a masked array would lose its mask.
    if type(value) not in (np.ndarray, np.memmap):
        raise ValueError(f"{role} is of type {type(value).__name__}, not a NumPy array")
    ARRAYS[role].check(role, value, dict(sizes or {}))
    flat = np.asarray(value, order="C")  # keeps the shape () of a scalar
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(flat))
    return Content(role, (memoryview(header.getvalue()), flat.reshape(-1).view(np.uint8).data))


def _table_bytes(role: str, columns: dict[str, pl.Series]) -> memoryview:
    """Return columns as the bytes of an Arrow IPC file.

    pyarrow writes one batch with plain types, so that equal columns give equal bytes.
    """
    import pyarrow as pa  # noqa: PLC0415  # takes 0.1 s to import

    kind = columns[TABLES[role]].dtype
    if not kind.is_integer() and kind != pl.String:
        raise ValueError(f"the ids of {role} are of type {kind}, not integers or text")
    plain = pl.CompatLevel.oldest()
    table = pa.table(
        {name: column.to_arrow(compat_level=plain) for name, column in columns.items()}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return memoryview(sink.getvalue())


def write(path: Path, pieces: Iterable[memoryview]) -> None:
    """Write and sync a file under a temporary name, then rename it.

    The file gets the permissions of its folder, so that files of a private folder are private.
    """
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    mode = stat.S_IMODE(path.parent.stat().st_mode) & 0o666
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode | 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames are durable; does nothing on Windows."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def open_file(path: Path, record: FileRecord, sizes: dict[str, int]) -> Any:
    """Map an array or a table, or read a text; raise ValueError if it does not fit its role."""
    role = role_of(path.name)
    if role == "text":
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != record["sha256"]:
            raise ValueError(path)
        return content.decode("utf-8")
    if role in TABLES:
        return _open_table(path, role, sizes)
    try:
        with np.errstate(over="ignore"):  # open_memmap refuses a shape that overflows
            # Mapped read-only, as the plain array type that kernels are compiled for; no pickle.
            array = np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except _BAD_HEADER as error:
        raise ValueError(path) from error
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError(path)
    ARRAYS[role].check(role, array, dict(sizes))
    return array


def _open_table(path: Path, role: str, sizes: dict[str, int]) -> pl.DataFrame:
    """Map a table of ids and optional texts from its file."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            plain = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
            is_plain = all(any(one(kind) for one in plain) for kind in reader.schema.types)
            if reader.num_record_batches > 1 or not is_plain:
                raise ValueError(path)
            table = reader.read_all()
        table.validate(full=True)  # no offset points outside the file
    except OSError as error:
        if error.errno is not None:  # from the disk; Arrow's own errors have no errno
            raise
        raise ValueError(path) from error
    except (pa.ArrowException, MemoryError) as error:
        raise ValueError(path) from error
    frame = pl.DataFrame(table)
    types, is_text = dict(frame.schema), {Columns.Title: pl.String, Columns.Genres: pl.String}
    has_ids = types.pop(TABLES[role], None) is not None and not frame[TABLES[role]].null_count()
    if not has_ids or types.items() - is_text.items() or len(frame) != sizes[f"n_{role}"]:
        raise ValueError(path)
    return frame
