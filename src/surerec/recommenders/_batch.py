"""Recommendations to many users: of the data or by histories, all rows in one frame."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_flag
from surerec._columns import Columns
from surerec._progress import progress
from surerec._threads import available_threads, run_blocks
from surerec._words import DAY
from surerec.errors import HistoriesWarning, InputError
from surerec.interactions import (
    History,
    IdMap,
    Interactions,
    check_moment,
    read_interactions,
    read_time,
    read_user_groups,
    whole_floats,
)
from surerec.measures import Queries
from surerec.recommenders._query import refuse_times, select_known
from surerec.recommenders._sets import batch_columns, result_frame, stacked, user_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.recommenders._options import RecommendOptions
    from surerec.recommenders._parts import ModelParts

_NAMED: Final = 3  # of the users who are left out
_USERS_AT_ONCE: Final = 512
_WORTH_A_THREAD: Final = 128
_ROWS_AT_ONCE = 1 << 22  # at the most, as whole sets may hold nearly the whole catalogue
_RECENT: Final = (
    "No times were given: guarantees assume that the histories ended near the end of the data."
)


@dataclass(frozen=True, eq=False, repr=False)
class Histories:
    """People's histories as a recommender takes them; made by ``Recommender.histories``.

    Attributes
    ----------
    people : polars.Series
        The ids of those who are served, in the order given.
    ignored : polars.DataFrame
        ``user_id`` and ``item_id`` of what nobody in the data has taken.
    left_out : polars.Series
        The ids of those of whom no item is known: there is nothing to recommend to them by.
    without_group : polars.Series
        The ids of those whose group did not calibrate, where there are groups of people's own: they
        are served, and promised nothing.
    assumes : str
        What guarantees assume of these histories beside what the model's own do; a sentence, or "".
    """

    people: pl.Series
    queries: Queries
    ignored: pl.DataFrame
    left_out: pl.Series
    without_group: pl.Series
    assumes: str = ""

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        return f"Histories({len(self):,} people, {len(self.left_out):,} left out)"

    def warnings(self) -> list[str]:
        """Return who is left out, and who has no guarantee, in a sentence each."""
        said = []
        if n := len(self.left_out):
            said.append(
                f"{_people(n)} left out, as nobody in the data took any of their items: "
                f"{_named(self.left_out)}."
            )
        if n := len(self.without_group):
            said.append(
                f"{_people(n)} promised nothing, as nobody of their group calibrated: "
                f"{_named(self.without_group)}."
            )
        if self.assumes:
            said.append(self.assumes)
        return said


def histories(
    model: ModelParts, source: Any, *, leave_out: bool, at: Any, reading: Mapping[str, Any]
) -> Histories:
    """Return histories of users who need not be in the data, as codes.

    Parameters
    ----------
    model : ModelParts
        The model to ask.
    source : mapping, frame, path or Interactions
        As in :meth:`FittedModel.histories`.
    leave_out : bool
        Whether users of the same ids as the data's are these; otherwise all are new.
    at : datetime, date, text or number, optional
        When all of them are asked for.
    reading : mapping
        How to read a file or frame: arguments of :func:`surerec.read_interactions`.
    """
    users = model.statistics.interactions.users if check_flag("leave_out", leave_out) else None
    moment = None if at is None else read_time("at", at)
    given = source
    if isinstance(source, Mapping):
        found = _of_mapping(source, model.items, users)
    else:
        if not isinstance(source, Interactions):
            given = read_interactions(source, **{"time": "", **reading})
        found = _of_interactions(given, model.items, users)
    queries = found.queries
    if moment is not None and queries.times is not None:
        check_moment(int(queries.times.max(initial=moment)), moment, "the histories")
    elif moment is not None:  # it is the time of every item
        queries = replace(queries, times=np.full(len(queries.items), moment))
    untimed = model.scorer.uses_times and queries.times is None
    found = replace(found, queries=queries, assumes=_RECENT if untimed else "")
    if not len(found):
        raise InputError(
            f"Nobody in the data took any item of the histories of these {len(found.left_out):,} "
            "people: are the ids of items the same?"
        )
    segments, is_read = model.segments, given is not source
    if segments is None or (users is not None and not is_read):
        return found  # users of the data have their segments
    if not is_read:
        raise InputError(
            f"This model has groups by {segments.column}: give the histories as a frame or a file "
            f"with a column {segments.column!r}."
        )
    people = IdMap(given.users.ids, noun="user")
    how = {name: reading[name] for name in ("user", "columns") if name in reading}
    stated = read_user_groups(source, segments.column, people, **how)
    labels = tuple(
        segments.label(int(user)) if label is None and user >= 0 else label
        for label, user in zip(
            map(stated.label, people.codes(found.people).tolist()), queries.users, strict=True
        )
    )
    unknown = pl.Series([segments.code(label) is None for label in labels], dtype=pl.Boolean)
    return replace(
        found,
        queries=replace(queries, segments=labels),
        without_group=found.people.filter(unknown),
    )


def _of_interactions(given: Interactions, items: IdMap, users: IdMap | None) -> Histories:
    codes = items.codes(given.items.ids)[given.items_taken]
    owners = np.repeat(np.arange(given.n_users), np.diff(given.offsets))
    seen = codes >= 0
    unseen = {
        Columns.User: given.users.ids.gather(owners[~seen]),
        Columns.Item: given.items.ids.gather(given.items_taken[~seen]),
    }
    # Times of the first day of 1970 are places in profiles, or nothing, where none were known.
    times = given.times[seen] if given.times.max(initial=0) >= DAY else None
    return _of_rows(given.users.ids, owners[seen], codes[seen], users, pl.DataFrame(unseen), times)


def _of_mapping(source: Mapping[Any, Any], items: IdMap, users: IdMap | None) -> Histories:
    for person, history in source.items():
        if isinstance(history, (str, bytes)):
            raise InputError(
                f"The history of {person!r} is a list of item ids, not the text {history!r}."
            )
    try:
        ids = whole_floats(pl.Series(list(source), strict=True))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            "The ids of people are of several types; make them all numbers, or all text."
        ) from error
    taken = [_history(person, history) for person, history in source.items()]
    times = _times_of(taken, list(source))
    flat = list(chain.from_iterable(history.items for history in taken))
    owners = np.repeat(np.arange(len(taken)), [len(history.items) for history in taken])
    codes = items.codes(flat)
    # The first occurrence of each counts, as in the data.
    _, first = np.unique(owners * (len(items) + 1) + codes, return_index=True)
    kept = np.sort(first)
    kept = kept[codes[kept] >= 0]
    missing = np.flatnonzero(codes < 0)
    unseen = pl.DataFrame(
        {
            Columns.User: ids.gather(owners[missing]),
            Columns.Item: pl.Series([str(flat[row]) for row in missing], dtype=pl.String),
        }
    )
    then = None if times is None else times[kept]
    return _of_rows(ids, owners[kept], codes[kept], users, unseen, then)


def _history(person: Any, given: Any) -> History:
    try:
        return History.read(given)
    except InputError as error:
        raise InputError(f"The history of {person!r}: {error}") from error


def _times_of(histories: list[History], people: list[Any]) -> NDArray[np.int64] | None:
    """Return the times of all items, end to end; None where no history has any."""
    known = [history.times is not None for history in histories if history.items]
    if not any(known):
        return None
    if not all(known):
        without = people[[h.times is None and bool(h.items) for h in histories].index(True)]
        raise InputError(
            f"The history of {without!r} has no times, and others have: pass times for all "
            "histories, or for none."
        )
    return np.concatenate([history.times for history in histories if history.times is not None])


def _of_rows(
    ids: pl.Series,
    owners: NDArray[np.int64],
    codes: NDArray[np.int64],
    users: IdMap | None,
    ignored: pl.DataFrame,
    times: NDArray[np.int64] | None,
) -> Histories:
    """Lay histories end to end; rows come person by person."""
    lengths = np.bincount(owners, minlength=len(ids))
    ends, served = np.cumsum(lengths), lengths > 0
    people = ids.filter(pl.Series(served))
    known = np.full(len(people), -1) if users is None else users.codes(people)
    starts, stops = (ends - lengths)[served], ends[served]
    return Histories(
        people=people,
        queries=Queries(codes.astype(np.uint32), starts, stops, known, times=times),
        ignored=ignored,
        left_out=ids.filter(pl.Series(~served)),
        without_group=people.head(0),
    )


def _people(n: int) -> str:
    return "1 person is" if n == 1 else f"{n:,} people are"


def _named(ids: pl.Series) -> str:
    named = ", ".join(repr(value) for value in ids.head(_NAMED))
    return named if len(ids) <= _NAMED else f"{named} and others"


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
    best = model.best_of(queries, options)
    if best is not None:
        columns, owners = batch_columns(best), best.owners
    else:
        asked = [options.limited(queries[place]) for place in range(len(queries))]
        found = [model.assess(query, options=options) for query in asked]
        shown = [options.shown(each)[0] for each in found]
        parts = [
            user_columns(each, places, options.significance)
            for each, places in zip(found, shown, strict=True)
        ]
        columns, owners = stacked(parts)
        if options.hits:
            known = [query.known_to(model.statistics) for query in asked]
            lengths = [options.hits_length(len(places)) for places in shown]
            hits = model.calibration_for(options).list_hits(known, found, lengths)
            for n_hits, of_lists in enumerate(hits.probability, start=1):
                columns[f"{Columns.AtLeast}{n_hits}"] = of_lists[owners]
            expected = np.array([part[Columns.Probability].sum() for part in parts])
            columns[Columns.ExpectedHits] = expected[owners]
    rows = result_frame(columns, model.items.ids, model.titles)
    return rows.select(people.gather(owners).alias(Columns.User), pl.all())
