"""How things are called: data sets in words and in file names, algorithms by their kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from surerec.experiments._algorithms import ALGORITHMS
from surerec.measures import find_measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl


def titles_of(datasets: pl.DataFrame) -> dict[str, str]:
    """Give each data set's title by its name."""
    return dict(datasets.select("dataset", "title").iter_rows())


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Give each data set a part of a file name that is safe and its own.

    Examples
    --------
    >>> file_names(["ml-100k", "my ratings", "my/ratings"])
    {'ml-100k': 'ml-100k', 'my ratings': 'my-ratings', 'my/ratings': 'my-ratings-2'}
    """
    found: dict[str, str] = {}
    for name in names:
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "data"
        taken, number, unique = set(found.values()), 2, safe
        while unique in taken:
            unique = f"{safe}-{number}"
            number += 1
        found[name] = unique
    return found


def family(algorithm: str) -> str:
    """Give the kind of an algorithm: how it aggregates over the profile.

    Examples
    --------
    >>> family("ICRS12"), family("ICRS1"), family("CRS-Max")
    ('mean', 'maximum', 'not inductive')
    """
    if not algorithm.startswith("ICRS"):
        return "not inductive"
    aggregate = find_measure(algorithm).aggregate
    # CM1 with I = 1 is the largest factor (paper.md 4).
    return "maximum" if aggregate == "top" else aggregate


def members(kind: str) -> tuple[str, ...]:
    """Give the algorithms of a kind.

    Examples
    --------
    >>> members("mean")
    ('ICRS4', 'ICRS8', 'ICRS12', 'ICRS16')
    """
    return tuple(name for name in ALGORITHMS if family(name) == kind)
