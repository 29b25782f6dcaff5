"""What a run for many people ends with: how many, for whom nothing or everything, what holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
            of_user = frame.group_by(Columns.User, maintain_order=True)
            self._rows.append(of_user.agg(pl.len(), pl.col(Columns.Covered).first()))
            yield frame

    def sentences(self, k: int | None) -> list[str]:
        """Return for how many users there is something, nothing or everything; who is covered."""
        interactions = self.fitted.statistics_.interactions
        n_asked = self.n_asked if self.n_asked is not None else interactions.n_users
        if self.people is not None:
            n_asked = len(self.people)
        rows = pl.concat(self._rows) if self._rows else pl.DataFrame({"len": []})
        nothing = max(n_asked - len(rows), 0)
        said = f"{len(rows):,} of {n_asked:,} people have recommendations"
        if nothing:
            said += f"; nothing qualified for {nothing:,}"
        if not len(rows):
            return [f"{said}."]
        if k is None and self.people is None:
            lengths = np.diff(interactions.offsets)[interactions.users.codes(rows[Columns.User])]
            everything = int((rows["len"].to_numpy() == interactions.n_items - lengths).sum())
            said += f"; everything qualified for {everything:,}"
        covered = int(rows[Columns.Covered].sum())
        column = f"the column {Columns.Covered} says which"
        return [f"{said}.", f"The guarantee covers {covered:,} of these {len(rows):,}; {column}."]
