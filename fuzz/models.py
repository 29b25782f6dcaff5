"""Small model folders of every kind of recommender and row storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

import surerec as sr
from surerec.recommenders import save_all

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.recommenders import Recommender

HISTORY: Final = [3, 1, 4, 15, 9, 2, 6]
"""History of a new user, by id."""
USERS: Final = [0, 7, 41]
"""Users to query, by id."""
_STRATEGIES: Final = ("dense", "bounded")


def save(place: Path) -> list[Path]:
    """Save a folder for each row storage, one of given counts, and one of learned measures."""
    films = _films()
    folders = []
    for strategy in _STRATEGIES:
        memory = 20_000 if strategy == "bounded" else None
        counts = sr.count_precedence(films, strategy=strategy, memory=memory)
        save_all(place / strategy, {name: each.fit(counts) for name, each in _formulas().items()})
        folders.append(place / strategy)
    counts = sr.count_precedence(films, ties="strict")
    learned = {
        "population": sr.PopulationConformal("learned").fit(counts),
        "inductive": sr.InductiveConformal("learned").fit(counts),
    }
    save_all(place / "learned", learned)
    matrix = [[int(n) for n in counts.followers(item)] for item in range(counts.n_items)]
    given = sr.PrecedenceStatistics.from_counts(matrix, counts.support, counts.n_users)
    save_all(place / "given", {"icrs": sr.InductiveConformal("CM12").fit(given)})
    return [*folders, place / "learned", place / "given"]


def _formulas() -> dict[str, Recommender]:
    return {
        "icrs": sr.InductiveConformal("CM12"),
        "median": sr.InductiveConformal("CM3"),
        "top": sr.InductiveConformal("CM1", top=2, smoothed=True, random_state=3),
        "population": sr.PopulationConformal("CM12", segments=2),
        "hit": sr.PopulationConformal("CM4", guarantee="hit", horizon=5, threshold="rank"),
        "window": sr.PopulationConformal("CM12", window=200),
        "crs-max": sr.TransductiveConformal(),
        "crs-med": sr.TransductiveConformal("median"),
        "mining": sr.PrecedenceMining(),
        "mining-top": sr.PrecedenceMining(top=1),
    }


def _films() -> sr.Interactions:
    films = sr.datasets.synthetic(n_users=120, n_items=50, n_rows=2400, random_state=1)
    titles = [f"film {code}" if code % 7 else None for code in range(films.n_items)]
    films.titles = pl.Series(titles, dtype=pl.String)
    return films
