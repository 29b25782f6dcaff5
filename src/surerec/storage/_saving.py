"""Saving: new files beside the old ones, one replaced manifest, then the old ones go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec._version import __version__
from surerec.errors import InputError
from surerec.storage._disk import (
    is_there,
    remove_others,
    require_room,
    sole_writer,
    sync_folder,
    write,
    writing_errors,
)
from surerec.storage._folder import MANIFEST, is_unfinished, names_in, read_manifest
from surerec.storage._layout import file_name
from surerec.storage._manifest import FileRecord, Manifest, encode
from surerec.storage._parts import RecommenderCard, part_contents
from surerec.storage._spec import check_recommenders
from surerec.storage._statistics import contents, describe

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from surerec.precedence import PrecedenceStatistics
    from surerec.storage._content import Content
    from surerec.storage._spec import RecommenderSpec

__all__ = ["save_model"]


def save_model(
    folder: str | os.PathLike[str],
    statistics: PrecedenceStatistics,
    recommenders: Mapping[str, RecommenderSpec],
    *,
    overwrite: bool = False,
) -> None:
    """Store statistics once, and recommenders on them by name.

    A folder that holds the same statistics gains these recommenders and keeps its others; no
    array is written again. Whatever interrupts a save, the folder holds the old model or the new
    one. The folder holds people's histories: guard it as you guard the data.

    Parameters
    ----------
    folder : path
        A new or empty folder, or one that holds a model.
    statistics : PrecedenceStatistics
        Made by :func:`surerec.count_precedence` or from given counts.
    recommenders : mapping of str to RecommenderSpec
        Names are letters, digits, ".", "_" and "-". One that the folder has under the same name
        is replaced, with its arrays and texts.
    overwrite : bool, default=False
        Replace a model of other statistics, with all its recommenders.

    Raises
    ------
    InputError
        If the folder holds something else, or other statistics and `overwrite` is not set; if a
        recommender cannot be stored; if the disk is full.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from surerec import PrecedenceStatistics
    >>> from surerec.storage import RecommenderSpec, read_card, save_model
    >>> statistics = PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(folder, statistics, {"careful": RecommenderSpec("crs", {"k": 5})})
    ...     save_model(folder, statistics, {"bold": RecommenderSpec("crs", {"k": 50})})
    ...     list(read_card(folder)["recommenders"])
    ['careful', 'bold']
    """
    place = Path(folder)
    specs = check_recommenders(recommenders)
    data, counts, settings = describe(statistics)
    with writing_errors(place):
        _held(place)  # a folder of something else is refused before any work
        wanted = contents(statistics, counts)
        parts = part_contents(specs)
        everything = [*wanted, *parts.values()]
        size = sum(each.size for each in everything)
        with progress("Saving the model", total=2 * size, in_bytes=True) as advance:
            files = _named(everything, advance)
            part_files = dict(zip(parts, (each.name for each in files[len(wanted) :]), strict=True))
            cards = {
                name: RecommenderCard.of(name, spec, part_files) for name, spec in specs.items()
            }
            now = datetime.now(UTC).isoformat(timespec="seconds")
            records = {each.name: each.record for each in files}
            new = Manifest(__version__, now, now, data, counts, settings, cards, records)
            with sole_writer(place):
                old = _held(place)
                _commit(place, old, _merged(place, old, new, overwrite=overwrite), files, advance)


@dataclass(frozen=True)
class _File:
    """A file to be."""

    name: str
    record: FileRecord
    content: Content


def _held(folder: Path) -> Manifest | None:
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


def _named(contents: Sequence[Content], advance: Callable[[float], None]) -> list[_File]:
    """Name every content by its role and checksum, on all cores, in their order."""

    def named(position: int) -> tuple[int, _File]:
        content = contents[position]
        checksum = content.sha256(advance)
        name = file_name(content.role, checksum)
        return position, _File(name, FileRecord(content.size, checksum), content)

    largest_first = sorted(range(len(contents)), key=lambda position: -contents[position].size)
    files = dict(run_blocks(named, largest_first))
    return [files[position] for position in range(len(contents))]


def _merged(folder: Path, old: Manifest | None, new: Manifest, *, overwrite: bool) -> Manifest:
    """Keep the recommenders of a model with the same statistics; refuse to lose another model."""
    if old is None:
        return new
    if old.has_statistics_of(new):
        return new.keeping(old)
    if not overwrite:
        raise InputError(
            f"The folder {folder} holds a model of other statistics ({_in_words(old)}, not "
            f"{_in_words(new)}); save into another folder, or pass overwrite=True to replace "
            "that model and all its recommenders."
        )
    return new


def _in_words(manifest: Manifest) -> str:
    name = f"{manifest.data.name}: " if manifest.data and manifest.data.name else ""
    settings = f"{manifest.settings.rows} rows, ties={manifest.settings.ties!r}"
    counts = f"{manifest.counts.users:,} users, {manifest.counts.items:,} items"
    return f"{name}{counts}, {settings}"


def _commit(
    folder: Path,
    old: Manifest | None,
    new: Manifest,
    files: Iterable[_File],
    advance: Callable[[float], None],
) -> None:
    before = set() if old is None else old.files.keys()
    try:
        by_name = {each.name: each for each in files}  # equal parts are one file
        missing = [
            each for each in by_name.values() if not is_there(folder / each.name, each.record)
        ]
        require_room(folder, sum(each.content.size for each in missing))
        for each in missing:
            write(folder / each.name, each.content.pieces(), advance)
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
