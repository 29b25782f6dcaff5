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
    from surerec.recommenders._wanted import Wanted

    class Answers(Protocol):
        """What is needed of a recommender here."""

        statistics_: PrecedenceStatistics
        items_: IdMap

        def assess(self, query: Query, *, wanted: Wanted) -> Assessment:
            """Evaluate all candidates."""

        def rows_of(self, users: NDArray[np.int64], wanted: Wanted) -> pl.DataFrame:
            """Give the rows of some users."""


_USERS_AT_ONCE = 256


def iter_batches(
    model: Answers, users: Sequence[Any] | None, wanted: Wanted
) -> Iterator[pl.DataFrame]:
    """Give the rows of users by id, or of all, some at a time and in their order."""
    interactions = model.statistics_.interactions
    if interactions is None:
        raise NoUsers("These statistics have no users to recommend to.")
    n_users = interactions.n_users
    codes = np.arange(n_users) if users is None else interactions.users.require(users)
    if not len(codes):
        raise InputError("There is nobody to recommend to: the list of users is empty.")

    def batch(start: int) -> pl.DataFrame:
        return model.rows_of(codes[start : start + _USERS_AT_ONCE], wanted)

    with progress("Recommending", total=len(codes)) as advance:
        for rows in run_blocks(batch, range(0, len(codes), _USERS_AT_ONCE)):
            yield rows
            advance(_USERS_AT_ONCE)


def rows_of(
    model: Answers,
    users: NDArray[np.int64],
    best: BestOfMany | None,
    wanted: Wanted,
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
            query = wanted.limited(Query.of_user(interactions, int(user)))
            assessment = model.assess(query, wanted=wanted)
            order = wanted.chosen(assessment)[0][: wanted.limit]
            parts.append(result_columns(assessment, order))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        owners = np.repeat(users, [len(part[Columns.Item]) for part in parts])
    return framed(model, columns, owners)


def framed(
    model: Answers, columns: dict[str, NDArray[Any]], owners: NDArray[np.int64]
) -> pl.DataFrame:
    """Make the frame of the results of many users, with their own ids."""
    interactions = model.statistics_.interactions
    assert interactions is not None  # noqa: S101  # there are users
    ids = interactions.users.ids.gather(owners).alias(Columns.User)
    return result_frame(columns, model.items_.ids).select(ids, pl.all())
