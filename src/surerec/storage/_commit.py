"""The commit: files into their places, one replaced manifest, then the old files go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from surerec.errors import InputError
from surerec.storage._disk import is_there, remove_others, require_room, sync_folder, write
from surerec.storage._folder import MANIFEST, is_unfinished, names_in, read_manifest
from surerec.storage._manifest import Manifest, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from surerec.storage._cards import FileRecord


class NewFile(Protocol):
    """A file that a model folder is to have."""

    @property
    def name(self) -> str:
        """Its name there."""

    @property
    def record(self) -> FileRecord:
        """What it must be."""

    @property
    def room(self) -> int:
        """Bytes that putting it there takes from the disk."""

    def put(self, path: Path, advance: Callable[[float], None]) -> None:
        """Let it appear whole at a path; `advance` hears of the bytes."""


def held(folder: Path) -> Manifest | None:
    """Give the manifest of the model in a folder; None if the folder is free for one."""
    if not folder.exists():
        return None
    # Listed once: outside the lock, another saver may commit between two looks.
    names = names_in(folder) if folder.is_dir() else {MANIFEST}
    if MANIFEST in names:
        return read_manifest(folder)
    if is_unfinished(names):
        return None
    raise InputError(
        f"The folder {folder} holds other files than a surerec model; save into a new or an "
        "empty folder."
    )


def merged(folder: Path, old: Manifest | None, new: Manifest, *, overwrite: bool) -> Manifest:
    """Keep the recommenders of a model with the same statistics; refuse to lose another model."""
    if old is None:
        return new
    if old.has_statistics_of(new):
        return new.keeping(old)
    if not overwrite:
        raise InputError(
            f"The folder {folder} holds a model of other statistics ({_in_words(old)}, not "
            f"{_in_words(new)}); save into another folder, or give overwrite=True "
            "(--overwrite on the command line) to replace that model and all its recommenders."
        )
    return new


def _in_words(manifest: Manifest) -> str:
    name = f"{manifest.data.name}: " if manifest.data and manifest.data.name else ""
    settings = f"{manifest.settings.rows} rows, ties={manifest.settings.ties!r}"
    counts = f"{manifest.counts.users:,} users, {manifest.counts.items:,} items"
    return f"{name}{counts}, {settings}"


def commit(
    folder: Path,
    old: Manifest | None,
    new: Manifest,
    files: Iterable[NewFile],
    advance: Callable[[float], None],
) -> None:
    """Replace a model by another in one step, under the lock of its folder."""
    before = set() if old is None else old.files.keys()
    try:
        by_name = {each.name: each for each in files}  # equal parts are one file
        missing = [
            each for each in by_name.values() if not is_there(folder / each.name, each.record)
        ]
        require_room(folder, sum(each.room for each in missing))
        for each in missing:
            each.put(folder / each.name, advance)
        sync_folder(folder)
        write(folder / MANIFEST, [memoryview(encode(new.card()))])
        sync_folder(folder)
        sync_folder(folder.parent)
    except BaseException:
        # Whichever manifest is in place now, its files stay.
        remove_others(folder, before | (new.files.keys() if _has(folder, new) else set()))
        raise
    remove_others(folder, new.files.keys())


def _has(folder: Path, manifest: Manifest) -> bool:
    try:
        return (folder / MANIFEST).read_bytes() == encode(manifest.card())
    except OSError:
        return False
