"""Model folders: verified loading and atomic saving."""

from __future__ import annotations

import re
import stat
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from surerec._arguments import check_profiles
from surerec._columns import Columns
from surerec._files import DISK_FULL, check_utf8, digest
from surerec._inputs import did_you_mean
from surerec._lock import exclusive
from surerec._progress import progress
from surerec._state import State
from surerec._threads import run_blocks
from surerec.errors import InputError
from surerec.interactions import IdMap, Interactions, RowsRead
from surerec.precedence import PrecedenceStatistics, Ties, rows_from
from surerec.storage._files import (
    FILE_NAME,
    ROW_ROLES,
    Content,
    content_of,
    open_file,
    role_of,
    sync_folder,
    write,
)
from surerec.storage._manifest import (
    MANIFEST,
    RecommenderSpec,
    damaged,
    decode,
    encode,
    merged,
    new_card,
    sizes_of,
    stored,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Mapping

    from surerec.storage._files import FileRecord


_LOCK: Final = ".lock"
_ATTEMPTS: Final = 20  # with the same manifest, before a listed file counts as missing
_NAME_ANOTHER: Final = "pass a folder that holds a saved model"
_PART: Final = r"\.[0-9a-f]{8}\.part"
_OURS: Final = re.compile(rf"(?:{FILE_NAME})(?:{_PART})?|{re.escape(MANIFEST)}{_PART}")


# Loading.


@dataclass(frozen=True)
class StoredModel:
    """A loaded model: statistics, recommenders and manifest."""

    statistics: PrecedenceStatistics
    """Statistics on memory-mapped files."""
    recommenders: dict[str, RecommenderSpec]
    """Recommenders by name."""
    card: dict[str, Any]
    """The manifest; see :func:`read_card`."""


def load_model(folder: str | os.PathLike[str], *, verify: bool = True) -> StoredModel:
    """Load a model folder; its arrays are memory-mapped and read-only.

    Parameters
    ----------
    folder : path
        A model folder.
    verify : bool, default=True
        Compare all files with their checksums. If False, only sizes, types, shapes, ids, titles,
        texts and index ranges are checked; counts, times and the state of recommenders are
        trusted. A model of gigabytes then opens in milliseconds. Use it for verified folders.

    Raises
    ------
    InputError
        If the folder holds no model, a damaged one, or one in another format.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import surerec as sr
    >>> statistics = sr.count_precedence(sr.Interactions.from_profiles([0, 2, 4], [0, 1, 1, 0]))
    >>> from surerec.storage import RecommenderSpec, save_model
    >>> with TemporaryDirectory() as folder:
    ...     save_model(folder, statistics, {"main": RecommenderSpec("InductiveConformal")})
    ...     model = load_model(folder)
    ...     model.statistics.followers(0), sorted(model.recommenders)
    (array([0, 1], dtype=uint32), ['main'])
    """
    place = Path(folder)
    card, attempts = read_card(place), 0
    while True:
        try:
            with _reading_errors(place):
                return _open(place, card, verify=verify)
        except FileNotFoundError as error:
            # A save may have replaced the model since its manifest was read, and a later save may
            # have restored the same manifest.
            latest = read_card(place)
            attempts = attempts + 1 if latest == card else 0
            if attempts == _ATTEMPTS:
                name = Path(error.filename or MANIFEST).name
                raise damaged(place, f"{name} is missing") from None
            card = latest


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the manifest of a model folder, without opening its arrays.

    Parameters
    ----------
    folder : path
        A model folder.

    Returns
    -------
    dict
        ``format``, ``format_version``, ``surerec_version``, ``created`` and ``updated`` (UTC),
        ``data`` (``name``, ``origin`` and ``rows_read``; None for given counts), ``counts``
        (``users``, ``items``, ``rows``), ``settings``, ``recommenders`` (``kind`` and ``params``
        by name, ``arrays`` and ``texts`` with the file of each) and ``files``
        (``bytes`` and ``sha256`` by name).

    Raises
    ------
    InputError
        If the folder holds no model, a damaged manifest, or a model in another format.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import surerec as sr
    >>> from surerec.storage import save_model
    >>> statistics = sr.PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(folder, statistics, {})
    ...     read_card(folder)["counts"]
    {'users': 3, 'items': 2, 'rows': None}
    """
    place = Path(folder)
    with _reading_errors(place):
        if not place.exists():
            hint = did_you_mean(place, f"; {_NAME_ANOTHER}.")
            raise InputError(f"There is no folder {place}{hint}")
        if not place.is_dir():
            raise InputError(f"{place} is a file, not a model folder; {_NAME_ANOTHER}.")
        try:
            _plain_size(place, MANIFEST)
            raw = (place / MANIFEST).read_bytes()
        except FileNotFoundError:
            if (names := _names_in(place)) and _is_unfinished(names):
                raise InputError(
                    f"The folder {place} holds an incomplete model: a save was interrupted or is "
                    "still running. Wait for it to finish, or save the model again."
                ) from None
            raise InputError(
                f"The folder {place} holds no surerec model (no {MANIFEST}); {_NAME_ANOTHER}."
            ) from None
    return decode(raw, place)


def _open(folder: Path, card: dict[str, Any], *, verify: bool) -> StoredModel:
    records: dict[str, FileRecord] = card["files"]
    sizes = sizes_of(card["counts"])

    def check(name: str) -> str:
        size, expected = _plain_size(folder, name), records[name]["bytes"]
        if size != expected:
            what = "truncated to" if size < expected else "grown to"
            raise damaged(folder, f"{name} was {what} {size:,} of {expected:,} bytes")
        if verify and digest(folder / name, "sha256") != records[name]["sha256"]:
            raise damaged(folder, f"{name} has changed since it was saved")
        return name

    files, total = {}, sum(record["bytes"] for record in records.values())
    with progress("Checking the model", total=total, unit="bytes") as advance:
        # The largest files first, to balance the threads.
        for name in run_blocks(check, sorted(records, key=lambda each: -records[each]["bytes"])):
            advance(records[name]["bytes"])
    for name, record in records.items():
        try:
            files[name] = open_file(folder / name, record, sizes)
        except ValueError:
            raise damaged(folder, f"{name} has changed since it was saved") from None
    try:
        statistics = _statistics(card, {role_of(name): each for name, each in files.items()})
    except InputError:
        raise  # has a message for users
    except ValueError:
        raise damaged(folder, "its files do not match each other") from None
    recommenders = {}
    for name, each in card["recommenders"].items():
        arrays, texts = (
            {key: files[file] for key, file in each[kind].items()} for kind in ("arrays", "texts")
        )
        recommenders[name] = RecommenderSpec(each["kind"], each["params"], State(arrays, texts))
    return StoredModel(statistics, recommenders, card)


def _statistics(card: dict[str, Any], files: dict[str, Any]) -> PrecedenceStatistics:
    """Build statistics from their files by role; raise ValueError if these do not match.

    All indices are checked, because kernels do not check bounds. Counts are trusted.
    """
    counts, settings, support = card["counts"], card["settings"], files["support"]
    if card["data"] is None:
        source = Interactions.no_users(counts["items"])
    else:
        source = _interactions(files, card["data"])
    rows = rows_from(
        settings["rows"], {role: files[role] for role in ROW_ROLES[settings["rows"]]}, source
    )
    if settings["ties"] not in get_args(Ties) or support.max(initial=0) > counts["users"]:
        raise ValueError(settings["ties"])
    return PrecedenceStatistics(
        counts["users"], support, rows, ties=settings["ties"], interactions=source
    )


def _interactions(files: dict[str, Any], data: dict[str, Any]) -> Interactions:
    items = files["items"]
    check_profiles(files["offsets"], files["item_codes"], len(items))
    interactions = Interactions(
        IdMap(files["users"][Columns.User], noun="user"),
        IdMap(items[Columns.Item], noun="item"),
        files["offsets"],
        files["item_codes"],
        files["times"],
        **{**data, "rows_read": RowsRead(**data["rows_read"])},
    )
    # In the order of codes, so that ids need no matching.
    interactions.titles = items.get_column(Columns.Title, default=None)
    interactions.genres = items.get_column(Columns.Genres, default=None)
    return interactions


# Saving.


def save_model(
    folder: str | os.PathLike[str],
    statistics: PrecedenceStatistics,
    recommenders: Mapping[str, RecommenderSpec],
    *,
    overwrite: bool = False,
) -> None:
    """Save statistics and named recommenders in a model folder.

    If the folder holds the same statistics, the new recommenders are added before the existing
    ones and no array is written again. After an interruption, the folder holds the old model or the
    new one. The folder contains users' histories; protect it like the data.

    Parameters
    ----------
    folder : path
        A new or empty folder, or one that holds a model.
    statistics : PrecedenceStatistics
        Result of :func:`surerec.count_precedence`, or statistics from counts.
    recommenders : mapping of str to RecommenderSpec
        Recommenders by name: letters, digits, ".", "_" and "-". They replace existing ones of the
        same name.
    overwrite : bool, default=False
        Replace a model with other statistics, including all its recommenders.

    Raises
    ------
    InputError
        If the folder holds other files, or other statistics without `overwrite`; if a recommender
        cannot be stored; if the disk is full.

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
    check_free(place)  # before any work
    about, cards, states = _about(statistics), *stored(recommenders)
    contents = sorted(_contents(statistics, sizes_of(about["counts"])), key=lambda each: -each.size)
    # Hash on all cores, the largest first; equal contents share a file.
    files = dict(run_blocks(lambda each: (each.name, each), contents)) | states
    records = {name: each.record for name, each in files.items()}
    _replace_model(place, new_card(about, cards, records), files, overwrite=overwrite)


def _about(statistics: PrecedenceStatistics) -> dict[str, Any]:
    """Return the manifest entries of statistics."""
    kind, source = statistics.rows.kind, statistics.interactions
    # Rows that are not stored are counted from the profiles after loading.
    if kind is None or not (statistics.has_profiles or statistics.rows.holds_all):
        raise InputError(
            "Statistics with a user left out cannot be stored; save the complete statistics from "
            "count_precedence."
        )
    data = n_rows = None
    if statistics.has_profiles:
        n_rows, rows_read = source.n_rows, asdict(source.rows_read)
        data = {"name": source.name, "origin": source.origin, "rows_read": rows_read}
    return {
        "data": data,
        "counts": {"users": int(statistics.n_users), "items": statistics.n_items, "rows": n_rows},
        "settings": {"ties": statistics.ties, "rows": kind},
    }


def _contents(statistics: PrecedenceStatistics, sizes: dict[str, int]) -> list[Content]:
    """Return the contents of all files of statistics."""
    values: dict[str, Any] = {"support": statistics.support, **statistics.rows.arrays()}
    source = statistics.interactions
    if statistics.has_profiles:
        values |= {role: getattr(source, role) for role in ("offsets", "item_codes", "times")}
        texts = {Columns.Title: source.titles, Columns.Genres: source.genres}
        known = {name: column for name, column in texts.items() if column is not None}
        values["users"] = {Columns.User: source.users.ids}
        values["items"] = {Columns.Item: source.items.ids, **known}
    try:
        return [content_of(role, value, sizes) for role, value in values.items()]
    except ValueError as error:
        raise InputError(
            f"The statistics cannot be stored: {error}. Count them again with count_precedence."
        ) from None


def check_free(folder: Path) -> None:
    """Refuse a folder that holds other files than a model."""
    with writing_errors(folder):
        _held(folder)


def seal_model(
    folder: Path,
    about: dict[str, Any],
    values: Mapping[str, Any],
    files: Mapping[str, FileRecord],
) -> None:
    """Complete a folder of large files to a model without recommenders.

    Parameters
    ----------
    folder : path
        Folder of the files.
    about : dict
        ``data``, ``counts`` and ``settings``, as :func:`read_card` returns them.
    values : mapping of str to array or columns
        Contents of the missing files, by role.
    files : mapping of str to FileRecord
        Records of the existing files.
    """
    records = dict(files)
    for role, value in values.items():
        content = content_of(role, value)
        write(folder / content.name, content.parts)
        records[content.name] = content.record
    write(folder / MANIFEST, [memoryview(encode(new_card(about, {}, records)))])


def adopt_model(
    staged: Path,
    folder: Path,
    recommenders: Mapping[str, RecommenderSpec],
    *,
    overwrite: bool = False,
) -> None:
    """Move a sealed model with recommenders into its folder, in one step.

    The rules for the folder are those of :func:`save_model`; no array is copied.
    """
    sealed, (cards, states) = read_card(staged), stored(recommenders)
    records = sealed["files"] | {name: each.record for name, each in states.items()}
    files = {name: staged / name for name in sealed["files"]} | states
    new = {**sealed, "recommenders": cards, "files": records}
    _replace_model(folder, new, files, overwrite=overwrite)


def _replace_model(
    folder: Path,
    new: dict[str, Any],
    files: Mapping[str, Any],
    *,
    overwrite: bool,
) -> None:
    """Replace a model in one step, under the lock of its folder.

    Each file is a Content to write, or a path on the same disk to move.
    """
    with writing_errors(folder), _sole_writer(folder):
        old = _held(folder)
        if old is not None:
            if (both := merged(old, new)) is None and not overwrite:
                raise InputError(
                    f"The folder {folder} holds a model with other statistics ({_in_words(old)}, "
                    f"not {_in_words(new)}). Save into another folder, or pass overwrite=True "
                    "(--overwrite on the command line) to replace the model and all its "
                    "recommenders."
                )
            new = both or new
        before = set() if old is None else old["files"].keys()
        manifest = encode(new)
        try:
            _put(folder, new["files"], files)
            write(folder / MANIFEST, [memoryview(manifest)])
            sync_folder(folder)
            sync_folder(folder.parent)
        except BaseException:
            # Keep the files of the manifest that is in place now.
            with suppress(OSError):
                if (folder / MANIFEST).read_bytes() == manifest:
                    before = before | new["files"].keys()
            _remove_others(folder, before)
            raise
        _remove_others(folder, new["files"].keys())


def _in_words(card: dict[str, Any]) -> str:
    name = f"{card['data']['name']}: " if card["data"] and card["data"]["name"] else ""
    settings = f"{card['settings']['rows']} rows, ties={card['settings']['ties']!r}"
    return f"{name}{card['counts']['users']:,} users, {card['counts']['items']:,} items, {settings}"


def _held(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of the model in a folder; None if the folder is free for one."""
    if not folder.exists():
        return None
    # Listed once, because another process may commit between two listings outside the lock.
    names = _names_in(folder) if folder.is_dir() else {MANIFEST}
    if MANIFEST in names:
        return read_card(folder)
    if _is_unfinished(names):
        return None
    raise InputError(
        f"The folder {folder} holds other files than a surerec model; save into a new or empty "
        "folder."
    )


def _put(folder: Path, records: dict[str, FileRecord], files: Mapping[str, Any]) -> None:
    """Write or move the files that are missing."""
    for name, each in files.items():
        if _is_there(folder / name, records[name]):
            continue
        if isinstance(each, Content):
            write(folder / name, each.parts)
        else:
            each.replace(folder / name)
    sync_folder(folder)


# The disk.


def _names_in(folder: Path) -> set[str]:
    """List a folder; one that another process has just removed counts as empty."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()


def _is_unfinished(names: set[str]) -> bool:
    """Return whether a folder holds only files of an unfinished save."""
    return all(_OURS.fullmatch(name) or name in {_LOCK, MANIFEST} for name in names)


def _plain_size(folder: Path, name: str) -> int:
    """Return the size of a file; refuse links, which could point anywhere."""
    about = (folder / name).lstat()
    if not stat.S_ISREG(about.st_mode):
        raise damaged(folder, f"{name} is a link, not a regular file")
    return about.st_size


def _is_there(path: Path, record: FileRecord) -> bool:
    """Return whether a file exists and is intact, so that saving again repairs a damaged one."""
    try:
        about = path.lstat()
        same_size = stat.S_ISREG(about.st_mode) and about.st_size == record["bytes"]
        return same_size and digest(path, "sha256") == record["sha256"]
    except OSError:
        return False


def _remove_others(folder: Path, keep: Collection[str]) -> None:
    """Remove data files that are not kept, and leftovers of interrupted saves."""
    for entry in list(folder.iterdir()):
        if _OURS.fullmatch(entry.name) and entry.name not in keep:
            with suppress(OSError):  # Windows keeps open files; the next save tries again
                entry.unlink()


@contextmanager
def _sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; create the folder, and remove it if it stays empty."""
    is_new = not folder.exists()
    try:
        with exclusive(folder / _LOCK):
            yield
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _reading_errors(folder: Path) -> Iterator[None]:
    """Turn disk errors into an InputError, except for a missing file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"The model in {folder} cannot be read ({reason}); check the disk and the permissions."
        ) from error


@contextmanager
def writing_errors(folder: Path) -> Iterator[None]:
    """Turn disk errors into an InputError; refuse a folder name that is not UTF-8."""
    check_utf8(folder)
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        advice = "Free disk space" if error.errno in DISK_FULL else "Make the folder writable"
        raise InputError(
            f"The model cannot be written to {folder} ({reason}); existing files are unchanged. "
            f"{advice}, or save into another folder."
        ) from error
