"""What a run for many people ends with: how many, for whom nothing or everything, what holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surerec.recommenders import Histories, Recommender


@dataclass
class Tally:
    """Counts people and rows as they are written."""

    fitted: Recommender
    n_asked: int | None
    """How many were named; None for all users of the data."""
    people: Histories | None
    _rows: list[pl.DataFrame] = field(default_factory=list)

    def counting(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Give the frames on, and keep how many rows each person has."""
        for frame in frames:
            self._rows.append(frame.group_by(Columns.User, maintain_order=True).len())
            yield frame

    def sentences(self, k: int | None, asked: dict[str, Any]) -> list[str]:
        """Say for how many people there is something, nothing or everything, and what holds.

        `asked` are the settings of the run, with which one person is asked again for the promise.
        """
        interactions = self.fitted.statistics_.interactions
        n_users = 0 if interactions is None else interactions.n_users
        n_asked = self.n_asked if self.n_asked is not None else n_users
        if self.people is not None:
            n_asked = len(self.people)
        rows = pl.concat(self._rows) if self._rows else pl.DataFrame({"len": []})
        nothing = max(n_asked - len(rows), 0)
        said = f"{len(rows):,} of {n_asked:,} people have recommendations"
        if nothing:
            said += f"; nothing qualified for {nothing:,}"
        if not len(rows) or self.people is not None or interactions is None:
            return [f"{said}."]
        lengths = np.diff(interactions.offsets)[interactions.users.codes(rows[Columns.User])]
        if k is None:
            everything = int((rows["len"].to_numpy() == interactions.n_items - lengths).sum())
            said += f"; everything qualified for {everything:,}"
        about = {name: value for name, value in asked.items() if value not in (None, False)}
        about.pop("chances", None)
        middle = rows[Columns.User][int(np.argsort(lengths)[len(lengths) // 2])]
        promise = self.fitted.recommend(middle, **about).guarantee
        return [f"{said}.", f"Promise, as to user {middle}: {promise}"]
