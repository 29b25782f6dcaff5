"""The settings of a run, its tables and its output folder."""

from __future__ import annotations

import json
import platform
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surerec._arguments import check_whole
from surerec._files import file_aside, holds_output
from surerec._inputs import as_input_error, parse_json, read_whole
from surerec._version import __version__
from surerec.datasets import CATALOGUE, find_dataset, load_dataset
from surerec.errors import InputError
from surerec.interactions import Interactions, read_interactions

if TYPE_CHECKING:
    import polars as pl

_FILE = "settings.json"
_LIBRARIES = ("numpy", "numba", "scipy", "polars", "pyarrow", "matplotlib", "scikit-posthocs")


@dataclass(frozen=True)
class DataSource:
    """A data set to run on: a name of the catalogue, ``name=path``, or a ratings file.

    Examples
    --------
    >>> DataSource.parse("ml-25m=/data/ml-25m.zip")
    DataSource(name='ml-25m', path='/data/ml-25m.zip')
    """

    name: str
    path: str | None = None

    @classmethod
    def parse(cls, text: str) -> DataSource:
        """Parse the text that a user types."""
        name, separator, path = text.partition("=")
        if separator:
            return cls(name.strip(), path.strip())
        if text not in CATALOGUE and Path(text).is_file():
            return cls(Path(text).stem, text)
        return cls(text.strip())

    def check(self) -> None:
        """Check that the data set exists, before any work is done."""
        if self.path is None:
            find_dataset(self.name)
        elif not Path(self.path).expanduser().exists():
            raise InputError(f"{self.path}: no such file. Check the path.")

    def load(self, **reading: Any) -> Interactions:
        """Load the interactions; `reading` are options of `read_interactions`."""
        if self.path is None or self.name in CATALOGUE:
            return load_dataset(self.name, path=self.path, **reading)
        return read_interactions(self.path, name=self.name, **reading)


@dataclass(frozen=True)
class StudySettings:
    """The settings of a run, which determine its numbers on any number of threads."""

    datasets: tuple[DataSource, ...]
    """The data sets."""
    n_users: int = 500
    """Users evaluated in each data set."""
    random_state: int = 0
    """Seed of the choice of users and of the random split."""
    k: int = 10
    """List length of precision, recall and F1."""
    timed_users: int = 50
    """Users for execution times; 0 skips them."""
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of `read_interactions`, such as column names."""

    def __post_init__(self) -> None:
        if not self.datasets:
            raise InputError("No data set to run on. Name at least one.")
        names = [source.name for source in self.datasets]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InputError(f"The data set {min(twice)!r} is named twice. Name it once.")
        check_whole("n_users", self.n_users)
        check_whole("k", self.k)
        check_whole("timed_users", self.timed_users, lowest=0)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON types, without an empty `reading`."""
        given = {name: value for name, value in asdict(self).items() if value != {}}
        return json.loads(json.dumps(given))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Results:
    """The tables of a run; the first column of each is ``dataset``."""

    datasets: pl.DataFrame
    """title, users, items, rows, origin, and the counts of the paper's Table 1."""
    metrics: pl.DataFrame
    """split, algorithm, metric, mean, standard_error, n_users."""
    validity: pl.DataFrame
    """split, algorithm, epsilon, validity_error, standard_error, efficiency_error, set_size, …."""
    times: pl.DataFrame | None = None
    """algorithm, median_ms, p90_ms, n_users."""


def versions() -> dict[str, str]:
    """Return the versions of surerec, Python and the libraries."""
    found = {"surerec": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):  # an extra that is not installed
            found[library] = version(library)
    return found


def prepare_folder(output: Path, settings: StudySettings, *, resume: bool, overwrite: bool) -> None:
    """Create the output folder, or check the one of a run that is resumed or overwritten."""
    record = output / _FILE
    if holds_output(output, {_FILE}, "a run"):
        if overwrite:
            for entry in list(output.iterdir()):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        elif not resume:
            raise InputError(
                f"{output}: contains the results of another run. Continue it with --resume, or "
                "replace it with --overwrite."
            )
        elif _recorded(record) != settings.as_dict():
            raise InputError(
                f"{output}: was started with other settings (see {_FILE}). Resume with the same "
                "settings, or replace it with --overwrite."
            )
    content = {"settings": settings.as_dict(), "versions": versions()}
    with as_input_error(output, "cannot be written", "Use another folder."):
        output.mkdir(parents=True, exist_ok=True)
        with file_aside(record) as aside:
            aside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _recorded(record: Path) -> Any:
    try:
        return parse_json(read_whole(record))["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{record}: cannot be read. Replace the run with --overwrite.") from error
