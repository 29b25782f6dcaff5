"""Recommending to many users: rows of all of them in one frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.errors import InputError, NoUsers
from surerec.measures import Query
from surerec.recommenders._sets import batch_columns, result_columns, result_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Protocol

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany
    from surerec.interactions import IdMap
    from surerec.precedence import PrecedenceStatistics

    class Answers(Protocol):
        """What is needed of a recommender here."""

        statistics_: PrecedenceStatistics
        items_: IdMap

        def assess(self, query: Query) -> Assessment:
            """Evaluate all candidates."""

        def rows_of(
            self, users: NDArray[np.int64], significance: float | None, limit: int | None
        ) -> pl.DataFrame:
            """Give the rows of some users."""


_USERS_AT_ONCE = 256
_ROWS_AT_ONCE = 1 << 22  # at the most, as whole sets may hold nearly the whole catalogue


def iter_batches(
    model: Answers, users: Sequence[Any] | None, significance: float | None, limit: int | None
) -> Iterator[pl.DataFrame]:
    """Give the rows of users by id, or of all, some at a time and in their order."""
    interactions = model.statistics_.interactions
    if interactions is None:
        raise NoUsers("These statistics have no users to recommend to.")
    n_users = interactions.n_users
    codes = np.arange(n_users) if users is None else interactions.users.require(users)
    if not len(codes):
        raise InputError("There is nobody to recommend to: the list of users is empty.")

    longest = model.statistics_.n_items if limit is None else limit
    at_once = int(np.clip(_ROWS_AT_ONCE // max(longest, 1), 1, _USERS_AT_ONCE))

    def batch(start: int) -> pl.DataFrame:
        return model.rows_of(codes[start : start + at_once], significance, limit)

    with progress("Recommending", total=len(codes)) as advance:
        for rows in run_blocks(batch, range(0, len(codes), at_once)):
            yield rows
            advance(at_once)


def rows_of(
    model: Answers,
    users: NDArray[np.int64],
    best: BestOfMany | None,
    significance: float | None,
    limit: int | None,
) -> pl.DataFrame:
    """Give the rows of some users: one frame for all, as frames cost more than rows.

    `best` is what they are if they were found all at once; else users are asked for one by one.
    """
    interactions = model.statistics_.interactions
    if interactions is None:
        raise NoUsers("These statistics have no users to recommend to.")
    if best is not None:
        columns, owners = batch_columns(best), users[best.owners]
    else:
        parts = []
        for user in users:
            assessment = model.assess(Query.of_user(interactions, int(user)))
            parts.append(result_columns(assessment, assessment.ordered(significance)[:limit]))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        owners = np.repeat(users, [len(part[Columns.Item]) for part in parts])
    ids = interactions.users.ids.gather(owners).alias(Columns.User)
    return result_frame(columns, model.items_.ids).select(ids, pl.all())
