"""Loads a named data set from the cache, from its sources, or from a local copy."""

from __future__ import annotations

import fnmatch
import os
import zipfile
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from surerec._arguments import check_path
from surerec.datasets._catalogue import Layout, find_dataset
from surerec.datasets._download import extract
from surerec.datasets._fetch import fetch
from surerec.datasets._publisher import difference
from surerec.datasets._titles import read_titles
from surerec.errors import InputError
from surerec.interactions import Interactions, read_interactions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from surerec.datasets._catalogue import Dataset


def load_dataset(
    name: str, *, path: str | os.PathLike[str] | None = None, **reading: Any
) -> Interactions:
    r"""Load a data set of the catalogue, with titles if it has any.

    The first use downloads it to the cache, from the first of its sources that works. ``origin``
    of the result names that source. All sources have the publisher's ids. The numbers of users,
    items and rows are compared with the catalogue.

    Parameters
    ----------
    name : str
        A name of the catalogue, such as "ml-100k".
    path : path-like, optional
        A local copy: the publisher's zip archive, the unpacked folder, or the file of ratings,
        with titles in the same folder. Nothing is downloaded. The name of a copy with other ids or
        counts ends with "(not as published)".
    **reading
        Options of :func:`surerec.read_interactions`: ``rating_above``, ``n_rows``, …

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If the name is unknown, or `path` or the download is not this data set.
    FetchError
        If all sources fail; the message has the reason for each.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> _ = (folder / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    >>> _ = (folder / "u.item").write_text("242|Kolya (1996)|24-Jan-1997\n", encoding="latin-1")
    >>> ratings = load_dataset("ml-100k", path=folder)
    >>> ratings
    Interactions('ml-100k (not as published)', 2 users, 2 items, 2 rows)
    >>> ratings.profile(196)["title"].to_list()
    ['Kolya (1996)']
    """
    dataset = find_dataset(name)
    defaults: dict[str, Any] = {
        "name": dataset.name,
        "n_rows": dataset.n_rows,
        "rating_above": dataset.rating_above,
    }
    if path is None:
        fetched = fetch(name)
        defaults["origin"] = fetched.source
        layout, there = fetched.layout, fetched.files
        ratings, titles = _match(layout.ratings, there), _match(layout.titles, there)
        found = _read(layout, ratings, titles, defaults, reading)
    else:
        given = check_path("path", path).expanduser()
        defaults["origin"] = f"file {given.name}"
        if given.is_file() and not zipfile.is_zipfile(given):
            layout = _layout_of(dataset, given)
            paths = [given.parent / each for each in layout.titles]
            titles = [each for each in paths if each.is_file()]
            found = _read(layout, [given], titles, defaults, reading)
        else:
            with _folder(dataset, given) as folder:
                found = _read(*_search(dataset, folder, given), defaults, reading)
    all_rows = reading.get("n_rows", dataset.n_rows) == dataset.n_rows
    if all_rows and (differs := difference(dataset, found)):
        if path is None:
            raise InputError(
                f"{dataset.name} from {fetched.source} differs from the published edition: "
                f"{differs}. Download it again with `surerec datasets fetch {dataset.name} "
                "--force`, or pass your own copy as path=."
            )
        found.name = f"{dataset.name} (not as published)"
    return found


def _read(
    layout: Layout,
    ratings: Sequence[Path],
    titles: Sequence[Path],
    defaults: dict[str, Any],
    reading: dict[str, Any],
) -> Interactions:
    """Read the ratings, and the first file of titles unless `reading` has titles."""
    if titles and not {"title", "titles"} & set(reading):
        defaults["titles"] = read_titles(titles[0])
    return read_interactions(ratings, **defaults | {"columns": layout.columns} | reading)


def _layout_of(dataset: Dataset, file: Path) -> Layout:
    """Return the layout with a file of this name; a renamed file needs a header."""
    if ".tar" in file.suffixes or file.suffix == ".tgz":
        raise InputError(f"{file}: is a tar archive. Unpack it and pass the folder as path=.")
    plain = file.with_suffix("") if file.suffix == ".gz" else file
    for layout in dataset.layouts:
        if _match(layout.ratings, [plain]):
            return layout
    return Layout((), dataset.layouts[0].titles)


@contextmanager
def _folder(dataset: Dataset, given: Path) -> Iterator[Path]:
    """Yield a folder, or a temporary folder with the files of an archive."""
    if not given.exists():
        raise InputError(
            f"{given}: no such file or folder. Pass a copy of {dataset.title} as path=."
        )
    if given.is_dir():
        yield given
        return
    patterns = [each for one in dataset.layouts for each in (*one.ratings, *one.titles)]

    def choose(names: Collection[str]) -> list[str]:
        # Prefer the member nearest to the top if two have the same bare name.
        nearest = sorted(names, key=lambda name: name.count("/"), reverse=True)
        by_name = {PurePosixPath(name).name: name for name in nearest}
        return [name for bare, name in by_name.items() if _match(patterns, [Path(bare)])]

    with TemporaryDirectory(prefix="surerec-") as temporary:
        extract(given, choose, Path(temporary))
        try:
            yield Path(temporary)
        except InputError as error:
            # Name the archive instead of the temporary folder.
            message = str(error).replace(f"{temporary}{os.sep}", f"{given}: ")
            raise InputError(message) from error


def _search(dataset: Dataset, folder: Path, given: Path) -> tuple[Layout, list[Path], list[Path]]:
    """Find the files of a data set in a folder or its subfolders."""
    here = [each for each in sorted(folder.iterdir()) if each.is_file()]
    below = [each for each in sorted(folder.glob("*/*")) if each.is_file()]
    for layout in dataset.layouts:
        for files in (here, below):
            if all(_match([pattern], files) for pattern in layout.ratings):
                ratings = _match(layout.ratings, files)
                same_folder = [each for each in ratings if each.parent == ratings[0].parent]
                return layout, same_folder, _match(layout.titles, here + below)
    missing = " or ".join(" and ".join(layout.ratings) for layout in dataset.layouts)
    raise InputError(f"{given}: no {missing}. Pass a copy of {dataset.title} as path=.")


def _match(patterns: Sequence[str], files: Sequence[Path]) -> list[Path]:
    """Return the matching files, ordered by pattern, then by file."""
    return [
        file
        for pattern in patterns
        for file in files
        if fnmatch.fnmatch(file.name.lower(), pattern.lower())
    ]
