"""A data set by its name: from the cache, from its sources, or from a file at hand."""

from __future__ import annotations

import fnmatch
import os
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from surerec._arguments import check_path
from surerec.datasets._catalogue import Layout, find_dataset
from surerec.datasets._extract import extract, is_archive
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
    r"""Load a data set of the catalogue, with its titles where it has them.

    On first use it is downloaded into the cache, from the first of its sources that works.
    ``origin`` of the result names that source. Every source gives the publisher's ids, and what
    is read is compared with the numbers of users, items and rows in the catalogue.

    Parameters
    ----------
    name : str
        A name of the catalogue, such as "ml-100k".
    path : path-like, optional
        What you have of it already: the publisher's archive (zip, tar.gz), the unpacked folder,
        or the file of ratings; titles are taken from the file beside it. Nothing is downloaded.
        A copy with other ids or counts than published gets a name that says so.
    **reading
        Passed on to :func:`surerec.read_interactions`: ``threshold``, ``n_rows``, …

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If there is no such set, `path` does not hold it, or what was downloaded is not what the
        catalogue describes.
    FetchError
        If no source could give it; the sentence names each and says why.

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
    if path is None:
        fetched = fetch(name)
        files = _match(fetched.layout.ratings, fetched.files)
        titles = _match(fetched.layout.titles, fetched.files)
        found = _read(dataset, fetched.layout, files, titles, {"origin": fetched.source} | reading)
        if differs := _difference(dataset, found, reading):
            raise InputError(
                f"{dataset.name} from {fetched.source} is not the published edition: {differs}. "
                f"Fetch it again with `surerec datasets fetch {dataset.name} --force`, or pass "
                "your own copy as path=."
            )
        return found
    given = check_path("path", path).expanduser()
    defaults = {"origin": f"file {given.name}"} | reading
    if given.is_file() and not is_archive(given):
        layout = _layout_of(dataset, given)
        titles = [given.parent / each for each in layout.titles]
        found = _read(dataset, layout, [given], [t for t in titles if t.is_file()], defaults)
    else:
        with _folder(dataset, given) as folder:
            layout, files, titles = _search(dataset, folder, given)
            found = _read(dataset, layout, files, titles, defaults)
    if _difference(dataset, found, reading):
        found.name = f"{dataset.name} (not as published)"
    return found


def _difference(dataset: Dataset, found: Interactions, reading: dict[str, Any]) -> str | None:
    """Compare with the catalogue, unless the caller wants only some of the rows."""
    if reading.get("n_rows", dataset.n_rows) != dataset.n_rows:
        return None
    return difference(dataset, found)


def _read(
    dataset: Dataset,
    layout: Layout,
    files: Sequence[Path],
    titles: Sequence[Path],
    reading: dict[str, Any],
) -> Interactions:
    defaults: dict[str, Any] = {
        "name": dataset.name,
        "columns": layout.columns,
        "n_rows": dataset.n_rows,
        "threshold": dataset.threshold,
    }
    if titles and not {"title", "titles"} & set(reading):
        defaults["titles"] = read_titles(titles[0])
    return read_interactions(files if len(files) > 1 else files[0], **defaults | reading)


def _layout_of(dataset: Dataset, file: Path) -> Layout:
    """Tell by its name which of the known files this is; a renamed one must explain itself."""
    plain = file.with_suffix("") if file.suffix == ".gz" else file
    for layout in dataset.layouts:
        if _match(layout.ratings, [plain]):
            return layout
    return Layout((), dataset.layouts[0].titles)


@contextmanager
def _folder(dataset: Dataset, given: Path) -> Iterator[Path]:
    """Give a folder as it is, and an archive as a folder for the time being."""
    if not given.exists():
        raise InputError(f"{given}: no such file or folder; give {dataset.title} as path=.")
    if given.is_dir():
        yield given
        return
    patterns = [each for layout in dataset.layouts for each in layout.ratings + layout.titles]

    def wanted(names: Collection[str]) -> list[str]:
        # Of two members with the same bare name the one nearer to the top is meant.
        nearest = sorted(names, key=lambda name: name.count("/"), reverse=True)
        by_name = {PurePosixPath(name).name: name for name in nearest}
        return [name for bare, name in by_name.items() if _match(patterns, [Path(bare)])]

    with TemporaryDirectory(prefix="surerec-") as temporary:
        extract(given, wanted, Path(temporary))
        try:
            yield Path(temporary)
        except InputError as error:
            # The folder will be gone: what is named is the archive that was given.
            said = str(error).replace(f"{temporary}{os.sep}", f"{given}: ")
            raise InputError(said) from error


def _search(dataset: Dataset, folder: Path, given: Path) -> tuple[Layout, list[Path], list[Path]]:
    """Find the files of a set in a folder, or one folder below."""
    here = [each for each in sorted(folder.iterdir()) if each.is_file()]
    below = [each for each in sorted(folder.glob("*/*")) if each.is_file()]
    for layout in dataset.layouts:
        for files in (here, below):
            if all(_match([pattern], files) for pattern in layout.ratings):
                ratings = _match(layout.ratings, files)
                beside = [each for each in ratings if each.parent == ratings[0].parent]
                return layout, beside, _match(layout.titles, here + below)
    looked_for = " or ".join(" and ".join(layout.ratings) for layout in dataset.layouts)
    raise InputError(f"{given}: no {looked_for} in it, which {dataset.title} should have.")


def _match(patterns: Sequence[str], files: Sequence[Path]) -> list[Path]:
    """Give the files that match, in the order of the patterns, then of the files."""
    found = [
        [file for file in files if fnmatch.fnmatch(file.name.lower(), pattern.lower())]
        for pattern in patterns
    ]
    return [file for each in found for file in each]
