"""The folder on which executors work: parts that appear whole, and models sealed from them.

A part is written under a name of its own and renamed. A task that is tried again, or twice at
once, renames the same bytes to the same name: whoever comes last changes nothing.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec.errors import InputError
from surerec.storage import FileRecord, file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


_PIECE = 16 << 20


@dataclass(frozen=True)
class SealedArray:
    """An array of a model that lies in parts."""

    role: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[str, ...]
    """Their names in order; end to end, they may hold more than the array."""
    kinds: tuple[str, ...] | None = None
    """The type of each part's numbers, if not that of the array."""
    across: bool = False
    """Whether the parts lie side by side instead: each holds some columns of all rows."""

    @property
    def kinds_of_parts(self) -> list[tuple[str, np.dtype[Any]]]:
        """The name of each part, and the type of its numbers."""
        kinds = self.kinds or (self.dtype,) * len(self.parts)
        return [(part, np.dtype(kind)) for part, kind in zip(self.parts, kinds, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class Staging:
    """A folder on a path that driver and executors share."""

    folder: str

    @property
    def model(self) -> Path:
        """Where the model's files are put together."""
        return Path(self.folder) / "model"

    def path(self, name: str) -> Path:
        """Return the path of a part."""
        return Path(self.folder) / name

    def write(self, name: str, pieces: Iterable[Any]) -> None:
        """Let a part appear whole."""
        aside = self.path(f"{name}.{secrets.token_hex(8)}.part")
        try:
            with aside.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
            aside.replace(self.path(name))
        finally:
            aside.unlink(missing_ok=True)

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array's numbers."""
        self.write(name, [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data])

    def array(self, name: str, dtype: str, first: int = 0, n: int = -1) -> NDArray[Any]:
        """Read an array's numbers, or `n` of them from the first on.

        Writable, as kernels compiled for that kind are there.
        """
        kind = np.dtype(dtype)
        return np.fromfile(self.path(name), kind, n, offset=first * kind.itemsize)

    def write_ids(self, name: str, ids: pl.Series) -> None:
        """Write ids with their type."""
        sink = io.BytesIO()
        ids.alias("id").to_frame().write_ipc(sink)
        self.write(name, [sink.getvalue()])

    def ids(self, name: str) -> pl.Series:
        """Read ids."""
        content = self.path(name).read_bytes()  # a path with brackets would be taken for a pattern
        return pl.read_ipc(io.BytesIO(content))["id"]

    def write_facts(self, name: str, facts: dict[str, Any]) -> None:
        """Write a few facts."""
        self.write(name, [json.dumps(facts).encode()])

    def facts(self, name: str) -> dict[str, Any]:
        """Read facts."""
        found: dict[str, Any] = json.loads(self.path(name).read_bytes())
        return found

    def seal(self, array: SealedArray) -> tuple[str, FileRecord]:
        """Join the parts of an array into the file that a model has; give its name and record.

        The bytes are those that :func:`surerec.storage.save_model` would write.
        """
        head = io.BytesIO()
        kind = np.lib.format.dtype_to_descr(np.dtype(array.dtype))
        facts = {"descr": kind, "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(head, facts)
        checksum, size = hashlib.sha256(), 0
        aside = self.model / f"{array.role}.{secrets.token_hex(8)}.part"
        try:
            with aside.open("xb") as file:
                pieces = self._across(array) if array.across else self._end_to_end(array)
                for piece in itertools.chain([head.getvalue()], pieces):
                    file.write(piece)
                    checksum.update(piece)
                    size += len(piece)
                file.flush()
                os.fsync(file.fileno())
            if size != len(head.getvalue()) + array.nbytes:
                raise InputError(
                    f"The parts of {array.role} in {self.folder} are not whole: fit again, and "
                    "see that nothing else writes there."
                )
            name = file_name(array.role, checksum.hexdigest())
            aside.replace(self.model / name)
        finally:
            aside.unlink(missing_ok=True)
        return name, FileRecord(bytes=size, sha256=checksum.hexdigest())

    def _end_to_end(self, array: SealedArray) -> Iterator[Any]:
        left = math.prod(array.shape)
        for part, kind in array.kinds_of_parts:
            first = 0
            while left:
                numbers = self.array(part, kind.name, first, min(_PIECE // kind.itemsize, left))
                if not len(numbers):
                    break
                first, left = first + len(numbers), left - len(numbers)
                yield numbers.astype(array.dtype, copy=False).view(np.uint8).data

    def _across(self, array: SealedArray) -> Iterator[Any]:
        n_rows, n_columns = array.shape
        parts = [
            (part, kind, self.path(part).stat().st_size // max(kind.itemsize * n_rows, 1))
            for part, kind in array.kinds_of_parts
        ]
        at_once = max(1, _PIECE // max(np.dtype(array.dtype).itemsize * n_columns, 1))
        for first in range(0, n_rows, at_once):
            n = min(at_once, n_rows - first)
            strips = [
                self.array(part, kind.name, first * width, n * width).reshape(n, width)
                for part, kind, width in parts
            ]
            yield np.hstack(strips, dtype=array.dtype).reshape(-1).view(np.uint8).data
