"""The staging folder of executors: atomic parts, and model files joined from them.

A part is written under a temporary name and renamed. A retried or duplicated task renames the same
bytes to the same name, which changes nothing.
"""

from __future__ import annotations

import hashlib
import io
import itertools
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


_PIECE = 8 << 20  # numbers per write


@dataclass(frozen=True)
class SealedArray:
    """An array of a model that is stored in parts."""

    role: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[str, ...]
    """Names of the parts in order; together they may hold more than the array."""
    stored: str | None = None
    """Data type of the parts, if it differs from that of the array."""
    transposed: bool = False
    """Whether the array is the transpose of its parts."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class Staging:
    """A folder on a path that driver and executors share."""

    folder: str

    @property
    def model(self) -> Path:
        """Folder of the model files."""
        return Path(self.folder) / "model"

    def path(self, name: str) -> Path:
        """Return the path of a part."""
        return Path(self.folder) / name

    def write(self, name: str, pieces: Iterable[Any]) -> None:
        """Write a part in one step."""
        aside = self.path(f"{name}.{secrets.token_hex(8)}.part")
        try:
            with aside.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
            aside.replace(self.path(name))
        finally:
            aside.unlink(missing_ok=True)

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array."""
        self.write(name, [_bytes(array)])

    def array(self, name: str, dtype: str, first: int = 0, n: int = -1) -> NDArray[Any]:
        """Read an array, or `n` of its values; writable, as kernels are compiled for that type."""
        kind = np.dtype(dtype)
        return np.fromfile(self.path(name), kind, n, offset=first * kind.itemsize)

    def write_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Write a frame."""
        sink = io.BytesIO()
        frame.write_ipc(sink)
        self.write(name, [sink.getvalue()])

    def frame(self, name: str) -> pl.DataFrame:
        """Read a frame."""
        content = self.path(name).read_bytes()  # as a path, brackets would be a pattern
        return pl.read_ipc(io.BytesIO(content))

    def seal(self, array: SealedArray) -> tuple[str, FileRecord]:
        """Join the parts of an array into a file of the model; return its name and record.

        The bytes are those that :func:`surerec.storage.save_model` would write.
        """
        head = io.BytesIO()
        kind = np.lib.format.dtype_to_descr(np.dtype(array.dtype))
        facts = {"descr": kind, "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(head, facts)
        checksum, size, pieces = hashlib.sha256(), 0, map(_bytes, self._pieces(array))
        aside = self.model / f"{array.role}.{secrets.token_hex(8)}.part"
        try:
            with aside.open("xb") as file:
                for piece in itertools.chain([memoryview(head.getvalue())], pieces):
                    file.write(piece)
                    checksum.update(piece)
                    size += len(piece)
                file.flush()
                os.fsync(file.fileno())
            if size != len(head.getvalue()) + array.nbytes:
                raise InputError(
                    f"The parts of {array.role} in {self.folder} are incomplete. Fit again, and "
                    "make sure that nothing else writes there."
                )
            name = file_name(array.role, checksum.hexdigest())
            aside.replace(self.model / name)
        finally:
            aside.unlink(missing_ok=True)
        return name, FileRecord(bytes=size, sha256=checksum.hexdigest())

    def _pieces(self, array: SealedArray) -> Iterator[NDArray[Any]]:
        parts = [self._mapped(part, array.stored or array.dtype) for part in array.parts]
        if array.transposed:
            n_rows, n_columns = array.shape
            at_once = max(1, _PIECE // n_columns)
            for first in range(0, n_rows, at_once):
                columns = [x.reshape(-1, n_rows)[:, first : first + at_once] for x in parts]
                yield np.concatenate(columns, dtype=array.dtype).T
            return
        left = math.prod(array.shape)
        for part in parts:
            numbers = part[:left]
            left -= len(numbers)
            for first in range(0, len(numbers), _PIECE):
                yield numbers[first : first + _PIECE].astype(array.dtype, copy=False)

    def _mapped(self, name: str, dtype: str) -> NDArray[Any]:
        if not self.path(name).stat().st_size:  # empty files cannot be mapped
            return np.empty(0, dtype)
        return np.memmap(self.path(name), dtype, "r")


def _bytes(numbers: Any) -> memoryview:
    return np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data
