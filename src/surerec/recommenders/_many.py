"""Recommending to many people: rows of all of them in one frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.errors import InputError, NoUsers
from surerec.recommenders._sets import batch_columns, result_columns, result_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany
    from surerec.interactions import IdMap
    from surerec.measures import Queries, Query
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._histories import Histories
    from surerec.recommenders._wanted import Wanted

    class Answers(Protocol):
        """What is needed of a recommender here."""

        statistics_: PrecedenceStatistics
        items_: IdMap

        def assess(self, query: Query, *, wanted: Wanted) -> Assessment:
            """Evaluate all candidates."""

        def rows_of(self, users: NDArray[np.int64], wanted: Wanted) -> pl.DataFrame:
            """Give the rows of some users."""

        def rows_for(self, queries: Queries, people: pl.Series, wanted: Wanted) -> pl.DataFrame:
            """Give the rows of some people."""

        def best_of(self, queries: Queries, wanted: Wanted) -> BestOfMany | None:
            """Find the best of some people at once, if that can be."""


_USERS_AT_ONCE = 256
_ROWS_AT_ONCE = 1 << 22  # at the most, as whole sets may hold nearly the whole catalogue


def iter_users(
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

    at_once = _people_at_once(model, wanted.limit)

    def batch(start: int) -> pl.DataFrame:
        return model.rows_of(codes[start : start + at_once], wanted)

    yield from _in_batches(batch, len(codes), at_once)


def iter_histories(model: Answers, histories: Histories, wanted: Wanted) -> Iterator[pl.DataFrame]:
    """Give the rows of people by their histories, some at a time and in their order."""
    at_once = _people_at_once(model, wanted.limit)

    def batch(start: int) -> pl.DataFrame:
        some = histories.queries.part(start, start + at_once)
        people = histories.people.slice(start, len(some))
        return model.rows_for(some, people, wanted)

    yield from _in_batches(batch, len(histories), at_once)


def _people_at_once(model: Answers, limit: int | None) -> int:
    longest = model.statistics_.n_items if limit is None else limit
    return int(np.clip(_ROWS_AT_ONCE // max(longest, 1), 1, _USERS_AT_ONCE))


def _in_batches(
    batch: Callable[[int], pl.DataFrame], n_people: int, at_once: int
) -> Iterator[pl.DataFrame]:
    with progress("Recommending", total=n_people) as advance:
        for rows in run_blocks(batch, range(0, n_people, at_once)):
            yield rows
            advance(at_once)


def frame_of(
    model: Answers,
    queries: Queries,
    people: pl.Series,
    wanted: Wanted,
) -> pl.DataFrame:
    """Give the rows of some people: one frame for all, as frames cost more than rows.

    All at once where that can be, else they are asked for one by one.
    """
    best = model.best_of(queries, wanted)
    if best is not None:
        columns, owners = batch_columns(best), best.owners
    else:
        parts = []
        for place in range(len(queries)):
            assessment = model.assess(wanted.limited(queries[place]), wanted=wanted)
            order = wanted.chosen(assessment)[0][: wanted.limit]
            parts.append(result_columns(assessment, order))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        owners = np.repeat(np.arange(len(parts)), [len(part[Columns.Item]) for part in parts])
    return framed(model, columns, people.gather(owners))


def framed(model: Answers, columns: dict[str, NDArray[Any]], people: pl.Series) -> pl.DataFrame:
    """Make the frame of the results of many people, with the ids of whom each row is about."""
    ids = people.alias(Columns.User)
    return result_frame(columns, model.items_.ids).select(ids, pl.all())
