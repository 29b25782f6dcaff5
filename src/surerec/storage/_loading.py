"""Loading: every file mapped, every byte checked unless the caller is in a hurry."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from surerec._checks import check_profiles
from surerec._columns import Columns
from surerec._files import digest
from surerec._progress import progress
from surerec._state import State
from surerec._threads import run_blocks
from surerec.errors import InputError
from surerec.interactions import IdMap, Interactions
from surerec.precedence import PrecedenceStatistics, Ties, rows_from
from surerec.storage._files import (
    ARRAYS,
    ROW_ROLES,
    check_state_array,
    check_table,
    open_array,
    open_table,
    read_text,
    role_of,
)
from surerec.storage._folder import MANIFEST, damaged, plain_size, read_manifest, reading_errors
from surerec.storage._spec import RecommenderSpec

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import polars as pl
    from numpy.typing import NDArray

    from surerec.storage._manifest import DataCard, Manifest, RecommenderCard


_LOOKS = 20  # at the same manifest, before a file that it lists counts as missing


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
    manifest, looks = read_manifest(place), 0
    while True:
        try:
            with reading_errors(place):
                return _open(place, manifest, verify=verify)
        except FileNotFoundError as error:
            # A save may have replaced the model since its manifest was read, or another one after
            # it brought the same manifest back.
            latest = read_manifest(place)
            looks = looks + 1 if latest == manifest else 0
            if looks == _LOOKS:
                name = Path(error.filename or MANIFEST).name
                raise damaged(place, f"{name} is missing") from None
            manifest = latest


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
    return read_manifest(Path(folder)).card()


def _open(folder: Path, manifest: Manifest, *, verify: bool) -> StoredModel:
    for name, record in manifest.files.items():
        size = plain_size(folder, name)
        if size != record.bytes:
            what = "truncated to" if size < record.bytes else "grown to"
            raise damaged(folder, f"{name} was {what} {size:,} of {record.bytes:,} bytes")
    if verify:
        _verify(folder, manifest)
    files = _MappedFiles(folder, manifest)
    with _refusing(folder, "its files do not fit together"):
        statistics = _statistics(files, manifest)
    recommenders = {name: files.spec(each) for name, each in manifest.recommenders.items()}
    return StoredModel(statistics, recommenders, manifest.card())


def _verify(folder: Path, manifest: Manifest) -> None:
    records = manifest.files
    total = sum(record.bytes for record in records.values())
    # The largest first, so that no thread begins one when the others are done.
    names = sorted(records, key=lambda name: -records[name].bytes)
    with progress("Checking the model", total=total, unit="bytes") as advance:
        checksums = run_blocks(lambda name: digest(folder / name, "sha256"), names)
        for name, checksum in zip(names, checksums, strict=True):
            if checksum != records[name].sha256:
                raise damaged(folder, f"{name} is not as it was saved")
            advance(records[name].bytes)


class _MappedFiles:
    """The files of a manifest, opened when asked for and checked against its counts."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._sizes = manifest.counts.sizes()
        self._records = manifest.files
        self._names = {role_of(name): name for name in manifest.files}
        # Recommenders may share a file: it is opened once, as every mapping keeps it open.
        self._opened: dict[str, Any] = {}

    def array(self, role: str) -> NDArray[Any]:
        name = self._names[role]
        with self._refusing(name):
            array = open_array(self._folder / name)
            ARRAYS[role].check(role, array, dict(self._sizes))
        return array

    def table(self, role: str) -> pl.DataFrame:
        name = self._names[role]
        with self._refusing(name):
            table = open_table(self._folder / name)
            check_table(role, table, self._sizes)
        return table

    def spec(self, card: RecommenderCard) -> RecommenderSpec:
        """Return a recommender, given what the manifest says of it."""
        arrays = {key: self._once(name, self._state_array) for key, name in card.arrays.items()}
        texts = {key: self._once(name, self._state_text) for key, name in card.texts.items()}
        return RecommenderSpec(card.kind, card.params, State(arrays, texts))

    def _once(self, name: str, opened: Callable[[str], Any]) -> Any:
        if name not in self._opened:
            with self._refusing(name):
                self._opened[name] = opened(name)
        return self._opened[name]

    def _state_array(self, name: str) -> NDArray[Any]:
        array = open_array(self._folder / name)
        check_state_array(array)
        return array

    def _state_text(self, name: str) -> str:
        return read_text(self._folder / name, self._records[name].sha256)

    def _refusing(self, name: str) -> AbstractContextManager[None]:
        return _refusing(self._folder, f"{name} is not as it was saved")


def _statistics(files: _MappedFiles, manifest: Manifest) -> PrecedenceStatistics:
    """Build statistics from their files; ValueError if they do not fit together.

    No index leads out of its array, whoever wrote the files: kernels do not look where they write.
    What the counts say is taken for granted.
    """
    if manifest.data is None:
        source = Interactions.no_users(manifest.counts.items)
    else:
        source = _interactions(files, manifest.data)
    arrays = {role: files.array(role) for role in ROW_ROLES[manifest.settings.rows]}
    rows = rows_from(manifest.settings.rows, arrays, source)
    support, n_users = files.array("support"), manifest.counts.users
    if manifest.settings.ties not in get_args(Ties) or support.max(initial=0) > n_users:
        raise ValueError(manifest.settings.ties)
    return PrecedenceStatistics(
        n_users,
        support,
        rows,
        ties=cast("Ties", manifest.settings.ties),
        interactions=source,
    )


def _interactions(files: _MappedFiles, data: DataCard) -> Interactions:
    items = files.table("items")
    offsets, items_taken = files.array("offsets"), files.array("items_taken")
    check_profiles(offsets, items_taken, len(items))
    interactions = Interactions(
        IdMap(files.table("users")[Columns.User], noun="user"),
        IdMap(items[Columns.Item], noun="item"),
        offsets,
        items_taken,
        files.array("times"),
        name=data.name,
        origin=data.origin,
        rows_read=data.rows_read,
    )
    # By code already: no need to match ids again.
    if Columns.Title in items.columns:
        interactions.titles = items[Columns.Title]
    if Columns.Genres in items.columns:
        interactions.genres = items[Columns.Genres]
    return interactions


@contextmanager
def _refusing(folder: Path, what: str) -> Iterator[None]:
    """Raise an error that a model is damaged where its content makes no sense."""
    try:
        yield
    except InputError:
        raise  # a sentence already
    except ValueError:
        raise damaged(folder, what) from None
