"""The user's cache: a folder for each data set, with a manifest that says what is in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surerec._files import digest
from surerec._inputs import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from surerec.datasets._entries import Counts, Dataset, Layout, Source


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
    expected : Counts, optional
        What the ratings of that source hold.
    layout : Layout
        What the files are.
    """

    folder: Path
    files: tuple[Path, ...]
    source: str
    expected: Counts | None
    layout: Layout


def recall(dataset: Dataset, folder: Path) -> Fetched | None:
    """Give what the cache has of a set; None if it is missing, damaged, or of unknown source."""
    try:
        manifest = parse_json((folder / _MANIFEST).read_bytes())
        source = next(each for each in dataset.sources if each.description == manifest["source"])
        sizes = {name: about["bytes"] for name, about in manifest["files"].items()}
        needed = source.layout.ratings + source.layout.titles
        if any((folder / name).stat().st_size != sizes[name] for name in needed):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return _fetched(source, folder, sizes)


def place(source: Source, unpacked: Path, files: Sequence[Path], folder: Path) -> Fetched:
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
    return _fetched(source, folder, about)


def _fetched(source: Source, folder: Path, names: Iterable[str]) -> Fetched:
    return Fetched(
        folder=folder,
        files=tuple(folder / name for name in names),
        source=source.description,
        expected=source.expected,
        layout=source.layout,
    )
