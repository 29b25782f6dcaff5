"""A model folder: loaded with every byte checked, and replaced in one step."""

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
_LOOKS: Final = 20  # at the same manifest, before a file that it lists counts as missing
_NAME_ANOTHER: Final = "name the folder that a model was saved into"
_PART: Final = r"\.[0-9a-f]{8}\.part"
_OURS: Final = re.compile(rf"(?:{FILE_NAME})(?:{_PART})?|{re.escape(MANIFEST)}{_PART}")


# Loading.


@dataclass(frozen=True)
class StoredModel:
    """A loaded model: statistics, recommenders, and what the folder says of itself."""

    statistics: PrecedenceStatistics
    """The statistics, on memory-mapped files."""
    recommenders: dict[str, RecommenderSpec]
    """The recommenders by name."""
    card: dict[str, Any]
    """What the folder says of itself; see :func:`read_card`."""


def load_model(folder: str | os.PathLike[str], *, verify: bool = True) -> StoredModel:
    """Load a model folder; its arrays are memory-mapped, read-only, and read when used.

    Parameters
    ----------
    folder : path
        Where a model was saved.
    verify : bool, default=True
        Compare every byte with the checksums. Without it, the files' presence, sizes, types and
        shapes are checked, ids and titles, texts, and that no index leads out of its array; but
        the counts, the times and what recommenders learned are taken for granted, so that a
        model of gigabytes opens in milliseconds: for folders that you have verified before.

    Raises
    ------
    InputError
        If there is no model, or a damaged one, or one that a newer surerec wrote.

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
    card, looks = read_card(place), 0
    while True:
        try:
            with _reading_errors(place):
                return _open(place, card, verify=verify)
        except FileNotFoundError as error:
            # A save may have replaced the model since its manifest was read, or another one after
            # it brought the same manifest back.
            latest = read_card(place)
            looks = looks + 1 if latest == card else 0
            if looks == _LOOKS:
                name = Path(error.filename or MANIFEST).name
                raise damaged(place, f"{name} is missing") from None
            card = latest


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model folder says of itself, without opening its arrays.

    Parameters
    ----------
    folder : path
        Where a model was saved.

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
        If there is no model, or its manifest is damaged, or a newer surerec wrote it.

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
            raise InputError(f"{place} is a file; {_NAME_ANOTHER}.")
        try:
            _plain_size(place, MANIFEST)
            raw = (place / MANIFEST).read_bytes()
        except FileNotFoundError:
            if (names := _names_in(place)) and _is_unfinished(names):
                raise InputError(
                    f"The folder {place} holds no complete model, for its saving was interrupted "
                    "or is still going on; wait for it, or save the model again."
                ) from None
            raise InputError(
                f"The folder {place} holds no surerec model, for it has no {MANIFEST}; "
                f"{_NAME_ANOTHER}."
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
            raise damaged(folder, f"{name} is not as it was saved")
        return name

    files, total = {}, sum(record["bytes"] for record in records.values())
    with progress("Checking the model", total=total, unit="bytes") as advance:
        # The largest first, so that no thread begins one when the others are done.
        for name in run_blocks(check, sorted(records, key=lambda each: -records[each]["bytes"])):
            advance(records[name]["bytes"])
    for name, record in records.items():
        try:
            files[name] = open_file(folder / name, record, sizes)
        except ValueError:
            raise damaged(folder, f"{name} is not as it was saved") from None
    try:
        statistics = _statistics(card, {role_of(name): each for name, each in files.items()})
    except InputError:
        raise  # a sentence already
    except ValueError:
        raise damaged(folder, "its files do not fit together") from None
    recommenders = {}
    for name, each in card["recommenders"].items():
        arrays, texts = (
            {key: files[file] for key, file in each[kind].items()} for kind in ("arrays", "texts")
        )
        recommenders[name] = RecommenderSpec(each["kind"], each["params"], State(arrays, texts))
    return StoredModel(statistics, recommenders, card)


def _statistics(card: dict[str, Any], files: dict[str, Any]) -> PrecedenceStatistics:
    """Build statistics from their files by role; ValueError if they do not fit together.

    No index leads out of its array, whoever wrote the files: kernels do not look where they write.
    What the counts say is taken for granted.
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
    # By code already: no need to match ids again.
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
    check_free(place)  # a folder of something else is refused before any work
    about, cards, states = _about(statistics), *stored(recommenders)
    contents = sorted(_contents(statistics, sizes_of(about["counts"])), key=lambda each: -each.size)
    # Hashed on all cores, the largest first; equal ones are one file.
    files = dict(run_blocks(lambda each: (each.name, each), contents)) | states
    records = {name: each.record for name, each in files.items()}
    _replace_model(place, new_card(about, cards, records), files, overwrite=overwrite)


def _about(statistics: PrecedenceStatistics) -> dict[str, Any]:
    """Return what the manifest says of statistics."""
    kind, source = statistics.rows.kind, statistics.interactions
    # What is not held is counted from the profiles, wherever the rows are loaded.
    if kind is None or not (statistics.has_profiles or statistics.rows.holds_all):
        raise InputError(
            "Statistics without one of their users cannot be stored; store the whole ones, "
            "made by count_precedence or from given counts."
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
    """Return the content of every file that the statistics need."""
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
        raise InputError(f"These statistics cannot be stored: {error}.") from None


def check_free(folder: Path) -> None:
    """Refuse a folder of something else before any work."""
    with writing_errors(folder):
        _held(folder)


def seal_model(
    folder: Path,
    about: dict[str, Any],
    values: Mapping[str, Any],
    files: Mapping[str, FileRecord],
) -> None:
    """Turn a folder that has large files of a model into one, with no recommender yet.

    Parameters
    ----------
    folder : path
        Where the files are.
    about : dict
        ``data``, ``counts`` and ``settings``, as :func:`read_card` returns them.
    values : mapping of str to array or columns
        What the other files are to hold, by role.
    files : mapping of str to FileRecord
        What the files that are there hold.
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
    """Move a sealed model to its place, with recommenders on it: all of it, or nothing.

    What :func:`save_model` says of the folder holds here; no array is copied.
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
    """Replace a model by another in one step, under the lock of its folder.

    Each of the files is a Content to write, or the path of a file on the same disk to move.
    """
    with writing_errors(folder), _sole_writer(folder):
        old = _held(folder)
        if old is not None:
            if (both := merged(old, new)) is None and not overwrite:
                raise InputError(
                    f"The folder {folder} holds a model of other statistics ({_in_words(old)}, not "
                    f"{_in_words(new)}); save into another folder, or give overwrite=True "
                    "(--overwrite on the command line) to replace that model and all its "
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
            # Whichever manifest is in place now, its files stay.
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
    # Listed once: outside the lock, another saver may commit between two looks.
    names = _names_in(folder) if folder.is_dir() else {MANIFEST}
    if MANIFEST in names:
        return read_card(folder)
    if _is_unfinished(names):
        return None
    raise InputError(
        f"The folder {folder} holds other files than a surerec model; save into a new or an "
        "empty folder."
    )


def _put(folder: Path, records: dict[str, FileRecord], files: Mapping[str, Any]) -> None:
    """Write or move the files that are not there."""
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
    """List a folder; one that another saver has just given up is empty."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()


def _is_unfinished(names: set[str]) -> bool:
    """Return whether there is nothing in a folder but what a save leaves that has not ended."""
    return all(_OURS.fullmatch(name) or name in {_LOCK, MANIFEST} for name in names)


def _plain_size(folder: Path, name: str) -> int:
    """Return the size of a file in the folder itself; a link could lead anywhere."""
    about = (folder / name).lstat()
    if not stat.S_ISREG(about.st_mode):
        raise damaged(folder, f"{name} is a link or no file at all")
    return about.st_size


def _is_there(path: Path, record: FileRecord) -> bool:
    """Return whether a file is there and whole, so that saving again repairs a damaged one."""
    try:
        about = path.lstat()
        same_size = stat.S_ISREG(about.st_mode) and about.st_size == record["bytes"]
        return same_size and digest(path, "sha256") == record["sha256"]
    except OSError:
        return False


def _remove_others(folder: Path, keep: Collection[str]) -> None:
    """Remove the data files that are not kept, and what interrupted saves left."""
    for entry in list(folder.iterdir()):
        if _OURS.fullmatch(entry.name) and entry.name not in keep:
            with suppress(OSError):  # Windows keeps what a reader has open; the next save tries
                entry.unlink()


@contextmanager
def _sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; make the folder, and take it away if it stays empty."""
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
    """Turn the disk's errors into a sentence, but for a missing file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"The model in {folder} cannot be read ({reason}); check the disk and the rights."
        ) from error


@contextmanager
def writing_errors(folder: Path) -> Iterator[None]:
    """Turn the disk's errors into a sentence that says what to do; refuse an unreadable name."""
    check_utf8(folder)
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        advice = "make room there" if error.errno in DISK_FULL else "make it writable"
        raise InputError(
            f"The model cannot be written into {folder} ({reason}), and what was there stays; "
            f"{advice}, or save into a folder elsewhere."
        ) from error
