"""Recommendations to many users: the rows of all of them in one frame, on all cores."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_flag
from surerec._columns import Columns
from surerec._progress import progress
from surerec._threads import available_threads, run_blocks
from surerec.errors import HistoriesWarning, InputError
from surerec.measures import Queries
from surerec.recommenders._histories import Histories, read_histories
from surerec.recommenders._query import refuse_times, select_known
from surerec.recommenders._sets import batch_columns, people_frame, stacked, user_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from surerec.recommenders._options import RecommendOptions
    from surerec.recommenders._parts import ModelParts

_USERS_AT_ONCE: Final = 512
_WORTH_A_THREAD: Final = 128
_ROWS_AT_ONCE = 1 << 22  # at the most, as whole sets may hold nearly the whole catalogue
_RECENT: Final = (
    "No times were given: guarantees assume that the histories ended near the end of the data."
)


def histories(
    model: ModelParts, source: Any, *, leave_out: bool, at: Any, reading: Mapping[str, Any]
) -> Histories:
    """Return histories of users who need not be in the data, as codes."""
    interactions = model.statistics.interactions
    is_of_data = check_flag("leave_out", leave_out)
    users = interactions.users if is_of_data else None
    found = read_histories(source, model.items, users, model.segments, reading, at)
    untimed = model.scorer.uses_times and not found.timed
    return replace(found, assumes=_RECENT) if untimed else found


def read_users(
    model: ModelParts,
    users: Sequence[Any] | None,
    given: Any,
    leave_out: bool,  # noqa: FBT001
    at: Any,
    unknown: str,
) -> NDArray[np.int64] | Histories:
    """Return the codes of users of the data, or histories."""
    if given is None:
        if check_flag("leave_out", leave_out):
            raise InputError(
                "leave_out is about histories=: users of the data are always left out."
            )
        refuse_times(None, at, "users of the data have times of their own")
        known = model.profiles()
        codes = np.arange(known.n_users)
        if users is not None:
            codes = select_known(known.users, users, unknown)
        if not len(codes):
            raise InputError("There is nobody to recommend to: the list of users is empty.")
        return codes
    if users is not None:
        raise InputError("Say for whom once: give users or histories=, not both.")
    if isinstance(given, Histories):
        refuse_times(None, at, "these were read before: pass at= to histories(…)")
        return given
    found = histories(model, given, leave_out=leave_out, at=at, reading={})
    for sentence in found.warnings():
        warnings.warn(sentence, HistoriesWarning, stacklevel=4)
    return found


def batches(
    model: ModelParts, whom: NDArray[np.int64] | Histories, options: RecommendOptions
) -> Iterator[pl.DataFrame]:
    """Yield the rows of users, some at a time and in their order."""
    longest = model.statistics.n_items if options.k is None else options.k
    most = int(np.clip(_ROWS_AT_ONCE // max(longest, 1), 1, _USERS_AT_ONCE))
    n_batches, n_threads = -(-len(whom) // most), available_threads()
    if n_batches > 1 or len(whom) >= n_threads * _WORTH_A_THREAD:
        # As many for each thread: the last would keep the others waiting.
        n_batches = n_threads * -(-n_batches // n_threads)
    at_once = -(-len(whom) // max(n_batches, 1))

    def batch(start: int) -> pl.DataFrame:
        if not isinstance(whom, Histories):
            return rows_of(model, whom[start : start + at_once], options)
        some = whom.queries.part(start, start + at_once)
        return rows_for(model, some, whom.people.slice(start, len(some)), options)

    with progress("Recommending", total=len(whom), unit="users") as advance:
        for rows in run_blocks(batch, range(0, len(whom), max(at_once, 1))):
            yield rows
            advance(at_once)


def rows_of(model: ModelParts, users: NDArray[np.int64], options: RecommendOptions) -> pl.DataFrame:
    """Return the rows of some users of the data, by code."""
    known = model.profiles()
    queries = Queries.of_users(known, users)
    return rows_for(model, queries, known.users.ids.gather(users), options)


def rows_for(
    model: ModelParts, queries: Queries, people: pl.Series, options: RecommendOptions
) -> pl.DataFrame:
    """Return the rows of some queries; `people` are the ids of their users."""
    if options.hits:
        columns, owners = _with_hits(model, queries, options)
    elif (best := model.best_of(queries, options)) is not None:
        columns, owners = batch_columns(best), best.owners
    else:
        parts = []
        for place in range(len(queries)):
            assessment = model.assess(options.limited(queries[place]), options=options)
            places = options.shown(assessment).places
            parts.append(user_columns(assessment, places, options.significance))
        columns, owners = stacked(parts)
    return people_frame(columns, people.gather(owners), model.items.ids, model.titles)


def _with_hits(
    model: ModelParts, asked: Queries, options: RecommendOptions
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the columns of lists with the probabilities of one, two and three hits."""
    queries = [asked[place].known_to(model.statistics) for place in range(len(asked))]
    found = [model.assess(query, options=options) for query in queries]
    orders = [options.shown(each).places for each in found]
    parts = [
        user_columns(each, order, options.significance)
        for each, order in zip(found, orders, strict=True)
    ]
    columns, owners = stacked(parts)
    lengths = [len(order) for order in orders]
    calibrated = [options.hits_length(length) for length in lengths]
    hits = model.calibration_for(options).list_hits(queries, found, calibrated)
    for n_hits, of_lists in enumerate(hits.probability, start=1):
        columns[f"{Columns.AtLeast}{n_hits}"] = np.repeat(of_lists, lengths)
    expected = [float(part[Columns.Probability].sum()) for part in parts]
    columns[Columns.ExpectedHits] = np.repeat(expected, lengths)
    return columns, owners
