"""A model that others wrote, file by file: sealed where it was made, then moved to its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from surerec._version import __version__
from surerec.storage._cards import Counts, DataCard, FileRecord, Settings
from surerec.storage._commit import commit, held, merged
from surerec.storage._content import array_content, table_content
from surerec.storage._disk import sole_writer, write, writing_errors
from surerec.storage._folder import MANIFEST, read_manifest
from surerec.storage._layout import file_name
from surerec.storage._manifest import Manifest, encode
from surerec.storage._parts import RecommenderCard, part_contents
from surerec.storage._saving import WrittenFile, named
from surerec.storage._spec import check_recommenders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from surerec.storage._content import Content
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
    """Write an array as a model has it; give its name and record."""
    return _write(folder, array_content(role, array))


def write_table(folder: Path, role: str, columns: dict[str, pl.Series]) -> tuple[str, FileRecord]:
    """Write a table as a model has it; give its name and record."""
    return _write(folder, table_content(role, columns))


def _write(folder: Path, content: Content) -> tuple[str, FileRecord]:
    checksum = content.sha256(_ignore)
    name = file_name(content.role, checksum)
    write(folder / name, content.pieces())
    return name, FileRecord(content.size, checksum)


def seal_model(
    folder: Path,
    data: DataCard,
    counts: Counts,
    settings: Settings,
    files: Mapping[str, FileRecord],
) -> None:
    """Make a folder that has all the files of a model into one, with no recommender yet."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(__version__, now, now, data, counts, settings, {}, dict(files))
    write(folder / MANIFEST, [memoryview(encode(manifest.card()))])


def check_free(folder: Path) -> None:
    """Refuse a folder of something else before any work."""
    with writing_errors(folder):
        held(folder)


@dataclass(frozen=True)
class _StagedFile:
    """A file that is on the same disk already, under another name."""

    name: str
    record: FileRecord
    source: Path

    @property
    def room(self) -> int:
        return 0

    def put(self, path: Path, advance: Callable[[float], None]) -> None:
        self.source.replace(path)
        advance(self.record.bytes)


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
    specs = check_recommenders(recommenders)
    parts = part_contents(specs)
    new_parts: list[WrittenFile] = named(list(parts.values()), _ignore)
    part_files = dict(zip(parts, (each.name for each in new_parts), strict=True))
    cards = {name: RecommenderCard.of(name, spec, part_files) for name, spec in specs.items()}
    sealed = read_manifest(staged)
    records = sealed.files | {each.name: each.record for each in new_parts}
    new = Manifest(
        sealed.surerec_version,
        sealed.created,
        sealed.updated,
        sealed.data,
        sealed.counts,
        sealed.settings,
        cards,
        records,
    )
    moved = [_StagedFile(name, record, staged / name) for name, record in sealed.files.items()]
    with writing_errors(folder), sole_writer(folder):
        old = held(folder)
        commit(
            folder,
            old,
            merged(folder, old, new, overwrite=overwrite),
            [*moved, *new_parts],
            _ignore,
        )
