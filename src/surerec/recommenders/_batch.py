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
    read_user_segments,
    whole_floats,
)
from surerec.measures import Queries
from surerec.recommenders._query import refuse_times, select_known
from surerec.recommenders._sets import batch_columns, result_columns, result_frame, stacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from surerec.recommenders._options import RecommendOptions, RequestOptions
    from surerec.recommenders._parts import ModelParts

    _Rows = tuple[
        pl.Series, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None, pl.Series
    ]
    """Ids of users; whose each row is, its item and time; the unknown items."""

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


def read_histories(
    model: ModelParts, source: Any, /, *, leave_out: bool = False, at: Any = None, **reading: Any
) -> Histories:
    """Read the histories of many users who need not be in the data; it names what is not used.

    Parameters
    ----------
    source : frame, path, Interactions or mapping
        Who took what when: whatever :func:`surerec.read_interactions` reads, with or without a
        column of times (without, the order of the rows counts); or a mapping of ids to lists of
        items, or of (item, time) pairs. With groups of people's own, it needs their column too.
    leave_out : bool, default=False
        These people are newcomers: nobody is left out of the counts, and an id that a user of
        the data has too means nothing. With True it is that user, known by what is given here,
        as in ``recommend(user=…, history=…)``: for newer histories of people of the data.
    at : datetime, date, text or number, optional
        The moment at which all of them are asked for, where there are no times; with times, it
        must not lie before the last of them. See :meth:`recommend`.
    **reading
        As in :func:`surerec.read_interactions`: ``user``, ``item``, ``time``, ``threshold``, …

    Returns
    -------
    Histories
        For :meth:`recommend_many`; its ``ignored`` and ``left_out`` say what is not used.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal().fit(films)
    >>> new = model.histories({"ann": films.items.ids[:4], "bob": ["no such film"]})
    >>> new, new.left_out.to_list(), len(new.ignored)
    (Histories(1 people, 1 left out), ['bob'], 1)
    """
    users = model.statistics.interactions.users if check_flag("leave_out", leave_out) else None
    moment, given = None if at is None else read_time("at", at), source
    if not isinstance(source, (Mapping, Interactions)):
        given = read_interactions(source, **{"time": "", **reading})
    read = _rows_of_mapping if isinstance(given, Mapping) else _rows_of_interactions
    ids, owners, codes, times, unseen = read(given, model.items)
    ignored = pl.DataFrame({Columns.User: ids.gather(owners[codes < 0]), Columns.Item: unseen})
    kept = np.arange(len(codes))
    if isinstance(given, Mapping):  # the first occurrence of each item counts, as in the data
        kept = np.sort(np.unique(owners * (len(model.items) + 1) + codes, return_index=True)[1])
    kept = kept[codes[kept] >= 0]
    if times is not None:
        times = times[kept]
        if moment is not None:
            check_moment(int(times.max(initial=moment)), moment, "the histories")
    elif moment is not None:  # it is the time of every item
        times = np.full(len(kept), moment)
    lengths = np.bincount(owners[kept], minlength=len(ids))
    ends, served = np.cumsum(lengths), lengths > 0
    people, left_out = ids.filter(pl.Series(served)), ids.filter(pl.Series(~served))
    if not len(people):
        raise InputError(
            f"Nobody in the data took any item of the histories of these {len(left_out):,} "
            "people: are the ids of items the same?"
        )
    known = np.full(len(people), -1) if users is None else users.codes(people)
    starts, stops = (ends - lengths)[served], ends[served]
    queries = Queries(codes[kept].astype(np.uint32), starts, stops, known, times=times)
    assumes = _RECENT if model.scorer.uses_times and times is None else ""
    found = Histories(people, queries, ignored, left_out, people.head(0), assumes)
    segments, is_read = model.segments, given is not source
    if segments is None or (users is not None and not is_read):
        return found  # users of the data have their segments
    if not is_read:
        raise InputError(
            f"This model has groups by {segments.column}: give the histories as a frame or a file "
            f"with a column {segments.column!r}."
        )
    given_users = IdMap(given.users.ids, noun="user")
    how = {name: reading[name] for name in ("user", "columns") if name in reading}
    stated = read_user_segments(source, segments.column, given_users, **how)
    labels = tuple(
        segments.label(int(user)) if label is None and user >= 0 else label
        for label, user in zip(
            map(stated.label, given_users.codes(people).tolist()), known, strict=True
        )
    )
    unknown = pl.Series([segments.code(label) is None for label in labels], dtype=pl.Boolean)
    return replace(
        found, queries=replace(queries, segments=labels), without_group=people.filter(unknown)
    )


def _rows_of_interactions(given: Interactions, items: IdMap) -> _Rows:
    codes = items.codes(given.items.ids)[given.item_codes]
    owners = np.repeat(np.arange(given.n_users), np.diff(given.offsets))
    # Times of the first day of 1970 are places in profiles, or nothing, where none were known.
    times = given.times if given.times.max(initial=0) >= DAY else None
    return (
        given.users.ids,
        owners,
        codes,
        times,
        given.items.ids.gather(given.item_codes[codes < 0]),
    )


def _rows_of_mapping(source: Mapping[Any, Any], items: IdMap) -> _Rows:
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
    consumed = [_history(person, history) for person, history in source.items()]
    flat = list(chain.from_iterable(history.items for history in consumed))
    owners = np.repeat(np.arange(len(consumed)), [len(history.items) for history in consumed])
    codes = items.codes(flat)
    unseen = pl.Series([str(flat[row]) for row in np.flatnonzero(codes < 0)], dtype=pl.String)
    return ids, owners, codes, _times_of(consumed, list(source)), unseen


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


def _people(n: int) -> str:
    return "1 person is" if n == 1 else f"{n:,} people are"


def _named(ids: pl.Series) -> str:
    named = ", ".join(repr(value) for value in ids.head(_NAMED))
    return named if len(ids) <= _NAMED else f"{named} and others"


def recommend_many(
    model: ModelParts,
    users: Sequence[Any] | None = None,
    *,
    histories: Any = None,
    leave_out: bool = False,
    at: Any = None,
    **options: Unpack[RequestOptions],
) -> pl.DataFrame:
    """Recommend to many people, on all cores.

    Parameters
    ----------
    users : sequence of ids, optional
        By default all users of the data.
    histories : frame, Interactions, mapping or Histories, optional
        Instead of these, people who need not be in the data: what :meth:`histories` takes or
        gives. Whoever is left out is told by a ``HistoriesWarning``.
    leave_out : bool, default=False
        Whether people of these histories whose ids are users' of the data are these users, and
        left out of all that scores them; see :meth:`histories`.
    at : datetime, date, text or number, optional
        When these histories are asked for, if they have no times; see :meth:`histories`.
    confidence, significance, k, exclude, min_probability, precision, items, item_list, unknown
        As in :meth:`recommend`; `unknown` is about ids of `users` too.
    hits : bool, default=False
        With `k`: add each list's probabilities of at least one, two and three hits, and the
        expected number of hits. For user-level calibrations; it takes several times as long.

    Returns
    -------
    polars.DataFrame
        ``user_id``, the columns of :meth:`RecommendationSet.to_frame` and
        ``covered``, whether the guarantee covers the user; :meth:`guarantee_to_all` says what
        is guaranteed. With `hits` also ``at_least_1``, ``at_least_2``, ``at_least_3`` and
        ``expected_hits``.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal().fit(films)
    >>> new = {"ann": films.items.ids[:4], "bob": films.items.ids[6:9]}
    >>> model.recommend_many(histories=new, confidence=0.5, k=2)["user_id"].to_list()
    ['ann', 'ann', 'bob', 'bob']
    """
    asked = {"histories": histories, "leave_out": leave_out, "at": at}
    return pl.concat(iter_recommendations(model, users, **asked, **options))


def iter_recommendations(
    model: ModelParts,
    /,
    users: Sequence[Any] | None = None,
    *,
    histories: Any = None,
    leave_out: bool = False,
    at: Any = None,
    **options: Unpack[RequestOptions],
) -> Iterator[pl.DataFrame]:
    """Recommend to many users, some at a time, so that results can be written as they come.

    Yields the rows of :meth:`recommend_many`, which has the same parameters.
    """
    checked = model.options(**options)
    whom: NDArray[np.int64] | Histories
    if histories is None:
        whom = _codes_of_users(model, users, leave_out, at, options.get("unknown", "check"))
    elif users is not None:
        raise InputError("Say for whom once: give users or histories=, not both.")
    elif isinstance(histories, Histories):
        refuse_times(None, at, "these were read before: pass at= to histories(…)")
        whom = histories
    else:
        whom = read_histories(model, histories, leave_out=leave_out, at=at)
        for sentence in whom.warnings():
            warnings.warn(sentence, HistoriesWarning, stacklevel=4)
    yield from _batches(model, whom, checked)


def _codes_of_users(
    model: ModelParts,
    users: Sequence[Any] | None,
    leave_out: bool,  # noqa: FBT001
    at: Any,
    unknown: str,
) -> NDArray[np.int64]:
    if check_flag("leave_out", leave_out):
        raise InputError("leave_out is about histories=: users of the data are always left out.")
    refuse_times(None, at, "users of the data have times of their own")
    known = model.profiles()
    codes = np.arange(known.n_users)
    if users is not None:
        codes = select_known(known.users, users, unknown)
    if not len(codes):
        raise InputError("There is nobody to recommend to: the list of users is empty.")
    return codes


def _batches(
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
    best = None
    if options.significance is not None and options.is_plain:
        best = model.calibration.best_of_many(
            model.scorer,
            model.statistics,
            queries,
            options.significance,
            options.k,
            not options.short,
        )
    if best is not None:
        columns, owners = batch_columns(best), best.owners
    else:
        asked = [options.limited(queries[place]) for place in range(len(queries))]
        found = [model.assess(query, options=options) for query in asked]
        shown = [options.shown(each)[0] for each in found]
        parts = [
            {
                **result_columns(each, places),
                Columns.Covered: np.full(len(places), each.covers(options.significance)),
            }
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
