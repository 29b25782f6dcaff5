"""The settings of a run, its tables and its folder."""

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
from surerec._files import file_aside
from surerec._inputs import parse_json, read_whole
from surerec._version import __version__
from surerec.datasets import CATALOGUE, find_dataset, load_dataset
from surerec.errors import InputError
from surerec.interactions import Interactions, read_interactions
from surerec.measures import TRAINED

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
        """Read it as a user writes it."""
        name, separator, path = text.partition("=")
        if separator:
            return cls(name.strip(), path.strip())
        if text not in CATALOGUE and Path(text).is_file():
            return cls(Path(text).stem, text)
        return cls(text.strip())

    def check(self) -> None:
        """Refuse what cannot be loaded, before any work is done."""
        if self.path is None:
            find_dataset(self.name)
        elif not Path(self.path).expanduser().exists():
            raise InputError(f"{self.path}: no such file.")

    def load(self, **reading: Any) -> Interactions:
        """Load the interactions, read as the settings of `read_interactions` say."""
        if self.path is None or self.name in CATALOGUE:
            return load_dataset(self.name, path=self.path, **reading)
        return read_interactions(self.path, name=self.name, **reading)


@dataclass(frozen=True)
class StudySettings:
    """The settings of a run; the same ones give the same numbers on any number of threads."""

    datasets: tuple[DataSource, ...]
    """What to run on."""
    n_users: int = 500
    """Users evaluated in each data set."""
    random_state: int = 0
    """Of the choice of users and of the random split."""
    k: int = 10
    """The cut of precision, recall and F1."""
    timed_users: int = 50
    """Users over whom execution times are taken; 0 leaves them out."""
    tuning_users: int = 100
    """Users over whom I and the split shares are swept; 0 leaves it out."""
    extra: tuple[str, ...] = ()
    """Trained measures to run the paper's method on, outside its ranks: "als", "learned"."""

    reading: dict[str, Any] = field(default_factory=dict)
    """How the data are read: settings of `read_interactions`, such as the names of columns."""

    def __post_init__(self) -> None:
        if not self.datasets:
            raise InputError("There is no data set to run on: name at least one.")
        names = [source.name for source in self.datasets]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InputError(f"The data set {min(twice)!r} is named twice.")
        for measure in self.extra:
            if measure not in TRAINED:
                raise InputError(
                    f"There is no extra measure {measure!r}: choose from {', '.join(TRAINED)}."
                )
        check_whole("n_users", self.n_users)
        check_whole("k", self.k)
        check_whole("timed_users", self.timed_users, lowest=0)
        check_whole("tuning_users", self.tuning_users, lowest=0)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON has them, without `reading` if it is empty."""
        given = {name: value for name, value in asdict(self).items() if value != {}}
        return json.loads(json.dumps(given))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Results:
    """The tables of a run; each has a column ``dataset`` in front, but for `growth`."""

    datasets: pl.DataFrame
    """title, users, items, rows, origin, and the paper's Table 1 beside them."""
    metrics: pl.DataFrame
    """split, algorithm, metric, mean, standard_error, n_users."""
    curves: pl.DataFrame
    """split, algorithm, k, precision, recall, f1."""
    validity: pl.DataFrame
    """split, algorithm, epsilon, validity_error, standard_error, efficiency_error, set_size, …."""
    times: pl.DataFrame | None = None
    """algorithm, median_ms, p90_ms, n_users."""
    growth: pl.DataFrame | None = None
    """algorithm, variable, value, milliseconds, slope."""
    tuning: pl.DataFrame | None = None
    """sweep, algorithm, top, training, calibration, ap, ap_error, auc, auc_error, n_users."""
    extra: pl.DataFrame | None = None
    """As `metrics`, of the measures outside the paper that were asked for."""
    extra_validity: pl.DataFrame | None = None
    """As `validity`, of the same."""


def versions() -> dict[str, str]:
    """Return the versions of the libraries that made the numbers."""
    found = {"surerec": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):  # an extra that was not needed
            found[library] = version(library)
    return found


def prepare_folder(output: Path, settings: StudySettings, *, resume: bool, overwrite: bool) -> None:
    """Make the output folder, or take up the one of an interrupted run with the same settings."""
    record = output / _FILE
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: a file; name a folder for the results.")
    if output.is_dir() and any(output.iterdir()):
        if not record.is_file():
            raise InputError(f"{output}: holds other files; name a new or an empty folder.")
        if overwrite:
            for entry in list(output.iterdir()):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        elif not resume:
            raise InputError(
                f"{output}: holds another run's results; go on with --resume, or start anew "
                "with --overwrite."
            )
        elif _recorded(record) != settings.as_dict():
            raise InputError(
                f"{output}: was begun with other settings (see {_FILE}); use the same to resume, "
                "or start anew with --overwrite."
            )
    content = {"settings": settings.as_dict(), "versions": versions()}
    try:
        output.mkdir(parents=True, exist_ok=True)
        with file_aside(record) as aside:
            aside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{output}: cannot be written ({error.strerror}); name a folder elsewhere."
        ) from error


def _recorded(record: Path) -> Any:
    try:
        return parse_json(read_whole(record))["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{record}: cannot be read; start anew with --overwrite.") from error
