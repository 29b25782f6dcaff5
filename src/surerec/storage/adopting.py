"""A model that others wrote, file by file: sealed where it was made, then moved to its place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from surerec._version import __version__
from surerec.storage._files import array_content, file_name, table_content
from surerec.storage._folder import MANIFEST, read_manifest, write, writing_errors
from surerec.storage._manifest import Counts, DataCard, FileRecord, Manifest, Settings, encode
from surerec.storage._saving import SavedStates, by_name, held, records_of, replace_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from surerec.storage._files import Content
    from surerec.storage._spec import RecommenderSpec

__all__ = [
    "Counts",
    "DataCard",
    "FileRecord",
    "Settings",
    "adopt_model",
    "check_free",
    "file_name",
    "seal_model",
    "write_array",
    "write_table",
    "writing_errors",
]


def _ignore(_: float) -> None:
    pass


def write_array(folder: Path, role: str, array: NDArray[Any]) -> tuple[str, FileRecord]:
    """Write an array as a model has it; return its name and record."""
    return _write(folder, array_content(role, array))


def write_table(folder: Path, role: str, columns: dict[str, pl.Series]) -> tuple[str, FileRecord]:
    """Write a table as a model has it; return its name and record."""
    return _write(folder, table_content(role, columns))


def _write(folder: Path, content: Content) -> tuple[str, FileRecord]:
    write(folder / content.name, content.pieces())
    return content.name, FileRecord(content.size, content.sha256)


def seal_model(
    folder: Path,
    data: DataCard,
    counts: Counts,
    settings: Settings,
    files: Mapping[str, FileRecord],
) -> None:
    """Turn a folder that has all the files of a model into one, with no recommender yet."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(__version__, now, now, data, counts, settings, {}, dict(files))
    write(folder / MANIFEST, [memoryview(encode(manifest.card()))])


def check_free(folder: Path) -> None:
    """Refuse a folder of something else before any work."""
    with writing_errors(folder):
        held(folder)


def adopt_model(
    staged: Path,
    folder: Path,
    recommenders: Mapping[str, RecommenderSpec],
    *,
    overwrite: bool = False,
) -> None:
    """Move a sealed model to its place, with recommenders on it: all of it, or nothing.

    What :func:`surerec.storage.save_model` says of the folder holds here; no array is copied.
    """
    states = SavedStates(recommenders)
    written = by_name(states.contents(), _ignore)
    sealed = read_manifest(staged)
    moved = {name: staged / name for name in sealed.files}
    records = sealed.files | records_of(written)
    new = replace(sealed, recommenders=states.cards(), files=records)
    with writing_errors(folder):
        replace_model(folder, new, {**moved, **written}, _ignore, overwrite=overwrite)
