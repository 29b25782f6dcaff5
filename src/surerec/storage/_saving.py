"""Saving: new files beside the old ones, one replaced manifest, then the old ones go."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from surerec._columns import Columns
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec._version import __version__
from surerec.errors import InputError
from surerec.storage._files import (
    ARRAYS,
    STATE_ROLES,
    Content,
    array_content,
    table_content,
    text_content,
)
from surerec.storage._folder import (
    MANIFEST,
    is_there,
    is_unfinished,
    names_in,
    read_manifest,
    remove_others,
    require_room,
    sole_writer,
    sync_folder,
    write,
    writing_errors,
)
from surerec.storage._manifest import (
    Counts,
    DataCard,
    FileRecord,
    Manifest,
    RecommenderCard,
    Settings,
    encode,
)
from surerec.storage._spec import check_recommenders

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from surerec.interactions import IdMap
    from surerec.precedence import PrecedenceStatistics
    from surerec.storage._spec import RecommenderSpec


def save_model(
    folder: str | os.PathLike[str],
    statistics: PrecedenceStatistics,
    recommenders: Mapping[str, RecommenderSpec],
    *,
    overwrite: bool = False,
) -> None:
    """Save a model into a folder: statistics once, and recommenders on them by name.

    A folder that holds the same statistics gains these recommenders, which come first, and keeps
    its others; no array is written again. Whatever interrupts a save, the folder holds the old
    model or the new one. The folder holds people's histories: guard it as you guard the data.

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
    ['bold', 'careful']
    """
    place = Path(folder)
    states = SavedStates(recommenders)
    data, counts, settings = _describe(statistics)
    with writing_errors(place):
        held(place)  # a folder of something else is refused before any work
        everything = [*_contents(statistics, counts), *states.contents()]
        size = sum(each.size for each in everything)
        with progress("Saving the model", total=2 * size, unit="bytes") as advance:
            files = by_name(everything, advance)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            new = Manifest(
                __version__, now, now, data, counts, settings, states.cards(), records_of(files)
            )
            replace_model(place, new, files, advance, overwrite=overwrite)


def _describe(statistics: PrecedenceStatistics) -> tuple[DataCard | None, Counts, Settings]:
    """Return what the data are, how much they hold, and how the statistics were made."""
    rows, source = statistics.rows.kind, statistics.interactions
    # What is not held is counted from the profiles, wherever the rows are loaded.
    if rows is None or not (statistics.has_profiles or statistics.rows.holds_all):
        raise InputError(
            "Statistics without one of their users cannot be stored; store the whole ones, "
            "made by count_precedence or from given counts."
        )
    n_users, n_items = int(statistics.n_users), statistics.n_items
    settings = Settings(statistics.ties, rows)
    if not statistics.has_profiles:
        return None, Counts(n_users, n_items, None), settings
    data = DataCard(source.name, source.origin, source.rows_read)
    return data, Counts(n_users, n_items, source.n_rows), settings


def _contents(statistics: PrecedenceStatistics, counts: Counts) -> list[Content]:
    """Return the content of every file that the statistics need."""
    arrays = {"support": statistics.support} | statistics.rows.arrays()
    tables: dict[str, dict[str, pl.Series]] = {}
    source = statistics.interactions
    if statistics.has_profiles:
        arrays |= {
            "offsets": source.offsets,
            "items_taken": source.items_taken,
            "times": source.times,
        }
        texts = {Columns.Title: source.titles, Columns.Genres: source.genres}
        known = {name: column for name, column in texts.items() if column is not None}
        tables["users"] = {Columns.User: _plain_ids(source.users)}
        tables["items"] = {Columns.Item: _plain_ids(source.items), **known}
    try:
        for role, array in arrays.items():
            ARRAYS[role].check(role, array, counts.sizes())
    except ValueError as error:
        raise InputError(f"These statistics cannot be stored: {error}.") from None
    return [array_content(role, array) for role, array in arrays.items()] + [
        table_content(role, columns) for role, columns in tables.items()
    ]


def _plain_ids(ids: IdMap) -> pl.Series:
    if not ids.ids.dtype.is_integer() and ids.ids.dtype != pl.String:
        raise InputError(
            f"The {ids.noun}s' ids are of type {ids.ids.dtype}; integers and text can be stored."
        )
    return ids.ids


class SavedStates:
    """Recommenders on their way into a folder: checked, each array and text as a file's content."""

    def __init__(self, recommenders: Mapping[str, RecommenderSpec]) -> None:
        self._specs = check_recommenders(recommenders)
        self._contents = {
            name: (
                {
                    key: array_content(STATE_ROLES["arrays"], array)
                    for key, array in spec.state.arrays.items()
                },
                {
                    key: text_content(STATE_ROLES["texts"], text)
                    for key, text in spec.state.texts.items()
                },
            )
            for name, spec in self._specs.items()
        }

    def contents(self) -> list[Content]:
        """Return the contents of all arrays and texts."""
        return [
            content
            for both in self._contents.values()
            for some in both
            for content in some.values()
        ]

    def cards(self) -> dict[str, RecommenderCard]:
        """Return what a manifest says of the recommenders."""
        return {
            name: RecommenderCard(
                spec.kind,
                spec.params,
                *({key: each.name for key, each in some.items()} for some in self._contents[name]),
            )
            for name, spec in self._specs.items()
        }


def by_name(contents: Iterable[Content], advance: Callable[[float], None]) -> dict[str, Content]:
    """Return contents by the names of their files, hashed on all cores; equal ones are one."""

    def hashed(content: Content) -> Content:
        _ = content.sha256
        return content

    found = {}
    for content in run_blocks(hashed, sorted(contents, key=lambda each: -each.size)):
        advance(content.size)
        found[content.name] = content
    return found


def records_of(files: Mapping[str, Content]) -> dict[str, FileRecord]:
    """Return what a manifest says of files."""
    return {name: FileRecord(each.size, each.sha256) for name, each in files.items()}


def held(folder: Path) -> Manifest | None:
    """Return the manifest of the model in a folder; None if the folder is free for one."""
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


def _merged(folder: Path, old: Manifest | None, new: Manifest, *, overwrite: bool) -> Manifest:
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


def replace_model(
    folder: Path,
    new: Manifest,
    files: Mapping[str, Content | Path],
    advance: Callable[[float], None],
    *,
    overwrite: bool,
) -> None:
    """Replace a model by another in one step, under the lock of its folder.

    Parameters
    ----------
    folder : path
        Where the model is to be.
    new : Manifest
        What it will say of itself, but for recommenders that it keeps.
    files : mapping of str to Content or path
        Its files: what to write, or a file on the same disk to move.
    advance : callable
        Hears of the bytes.
    overwrite : bool
        Whether to replace a model of other statistics.
    """
    with sole_writer(folder):
        old = held(folder)
        new = _merged(folder, old, new, overwrite=overwrite)
        before = set() if old is None else old.files.keys()
        try:
            _put(folder, new, files, advance)
            write(folder / MANIFEST, [memoryview(encode(new.card()))])
            sync_folder(folder)
            sync_folder(folder.parent)
        except BaseException:
            # Whichever manifest is in place now, its files stay.
            remove_others(folder, before | (new.files.keys() if _has(folder, new) else set()))
            raise
        remove_others(folder, new.files.keys())


def _put(
    folder: Path,
    new: Manifest,
    files: Mapping[str, Content | Path],
    advance: Callable[[float], None],
) -> None:
    missing = {
        name: each for name, each in files.items() if not is_there(folder / name, new.files[name])
    }
    written = [each for each in missing.values() if isinstance(each, Content)]
    require_room(folder, sum(each.size for each in written))
    for name, each in missing.items():
        if isinstance(each, Content):
            write(folder / name, each.pieces(), advance)
        else:
            each.replace(folder / name)
    sync_folder(folder)


def _has(folder: Path, manifest: Manifest) -> bool:
    try:
        return (folder / MANIFEST).read_bytes() == encode(manifest.card())
    except OSError:
        return False
