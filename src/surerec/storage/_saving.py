"""Saving: new files beside the old ones, one replaced manifest, then the old ones go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec._version import __version__
from surerec.storage._cards import FileRecord
from surerec.storage._commit import commit, held, merged
from surerec.storage._disk import sole_writer, write, writing_errors
from surerec.storage._layout import file_name
from surerec.storage._manifest import Manifest
from surerec.storage._parts import RecommenderCard, part_contents
from surerec.storage._spec import check_recommenders
from surerec.storage._statistics import contents, describe

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from surerec.precedence import PrecedenceStatistics
    from surerec.storage._content import Content
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
    specs = check_recommenders(recommenders)
    data, counts, settings = describe(statistics)
    with writing_errors(place):
        held(place)  # a folder of something else is refused before any work
        wanted = contents(statistics, counts)
        parts = part_contents(specs)
        everything = [*wanted, *parts.values()]
        size = sum(each.size for each in everything)
        with progress("Saving the model", total=2 * size, unit="bytes") as advance:
            files = named(everything, advance)
            part_files = dict(zip(parts, (each.name for each in files[len(wanted) :]), strict=True))
            cards = {
                name: RecommenderCard.of(name, spec, part_files) for name, spec in specs.items()
            }
            now = datetime.now(UTC).isoformat(timespec="seconds")
            records = {each.name: each.record for each in files}
            new = Manifest(__version__, now, now, data, counts, settings, cards, records)
            with sole_writer(place):
                old = held(place)
                commit(place, old, merged(place, old, new, overwrite=overwrite), files, advance)


@dataclass(frozen=True)
class WrittenFile:
    """A file to be."""

    name: str
    record: FileRecord
    content: Content

    @property
    def room(self) -> int:
        """Bytes that it takes."""
        return self.content.size

    def put(self, path: Path, advance: Callable[[float], None]) -> None:
        """Write it."""
        write(path, self.content.pieces(), advance)


def named(contents: Sequence[Content], advance: Callable[[float], None]) -> list[WrittenFile]:
    """Name every content by its role and checksum, on all cores, in their order."""

    def name_one(position: int) -> tuple[int, WrittenFile]:
        content = contents[position]
        checksum = content.sha256(advance)
        name = file_name(content.role, checksum)
        return position, WrittenFile(name, FileRecord(content.size, checksum), content)

    largest_first = sorted(range(len(contents)), key=lambda position: -contents[position].size)
    files = dict(run_blocks(name_one, largest_first))
    return [files[position] for position in range(len(contents))]
