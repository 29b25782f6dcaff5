"""Batch recommendations: for users of the data or for histories, in one frame."""

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
    """User ids; the user, item and time of each row; the unknown items."""

_NAMED: Final = 3  # users named in a warning
_USERS_AT_ONCE: Final = 512
_WORTH_A_THREAD: Final = 128
_ROWS_AT_ONCE = 1 << 22  # full sets may hold nearly the whole catalogue
_RECENT: Final = (
    "The histories have no times. Guarantees assume that they end near the end of the data."
)


@dataclass(frozen=True, eq=False, repr=False)
class Histories:
    """Histories of many users, resolved for a model; returned by ``histories``.

    Attributes
    ----------
    users : polars.Series
        Ids of the users with at least one known item, in the given order.
    ignored : polars.DataFrame
        ``user_id`` and ``item_id`` of items that are not in the data.
    left_out : polars.Series
        Ids of the users without a known item, for whom nothing can be recommended.
    without_segment : polars.Series
        Ids of the users whose segment has no calibration users. They have no guarantee.
    assumes : str
        An assumption that guarantees make about these histories; "" for none.
    """

    users: pl.Series
    queries: Queries
    ignored: pl.DataFrame
    left_out: pl.Series
    without_segment: pl.Series
    assumes: str = ""

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"Histories({len(self):,} users, {len(self.left_out):,} left out)"

    def warnings(self) -> list[str]:
        """Return the warnings about users who are left out or have no guarantee."""
        reasons = (
            (self.left_out, "left out: no item of their histories is in the data"),
            (self.without_segment, "without a guarantee: their segment has no calibration users"),
        )
        found = [
            f"{'1 user is' if len(ids) == 1 else f'{len(ids):,} users are'} {why} ({_named(ids)})."
            for ids, why in reasons
            if len(ids)
        ]
        return [*found, self.assumes] if self.assumes else found


def read_histories(
    model: ModelParts, source: Any, /, *, leave_out: bool = False, at: Any = None, **reading: Any
) -> Histories:
    """Read the histories of many users, who need not be in the data.

    Parameters
    ----------
    source : frame, path, Interactions or mapping
        Interactions as :func:`surerec.read_interactions` reads them; without a time column the
        rows are in time order. Or a mapping of user ids to lists of items, or of (item, time)
        pairs. Models with segments need the segment column too.
    leave_out : bool, default=False
        By default all users are new users, even if the data have the same ids. With True, equal
        ids are the same users, whose interactions are left out of the statistics, as in
        ``recommend(user=…, history=…)``. Use it for newer histories of known users.
    at : datetime, date, text or number, optional
        The time of the request, for histories without times; otherwise not before the last
        time. See :meth:`recommend`.
    **reading
        As in :func:`surerec.read_interactions`: ``user``, ``item``, ``time``, ``rating_above``, …

    Returns
    -------
    Histories
        For :meth:`recommend_many`; ``ignored`` and ``left_out`` list what is not used.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal().fit(films)
    >>> new = model.histories({"ann": films.items.ids[:4], "bob": ["no such film"]})
    >>> new, new.left_out.to_list(), len(new.ignored)
    (Histories(1 users, 1 left out), ['bob'], 1)
    """
    users = model.statistics.interactions.users if check_flag("leave_out", leave_out) else None
    moment, given = None if at is None else read_time("at", at), source
    if not isinstance(source, (Mapping, Interactions)):
        given = read_interactions(source, **{"time": "", **reading})
    read = _rows_of_mapping if isinstance(given, Mapping) else _rows_of_interactions
    ids, owners, codes, times, unseen = read(given, model.items)
    ignored = pl.DataFrame({Columns.User: ids.gather(owners[codes < 0]), Columns.Item: unseen})
    kept = np.arange(len(codes))
    if isinstance(given, Mapping):  # repeats are dropped, as in the data
        kept = np.sort(np.unique(owners * (len(model.items) + 1) + codes, return_index=True)[1])
    kept = kept[codes[kept] >= 0]
    if times is not None:
        times = times[kept]
        if moment is not None:
            check_moment(int(times.max(initial=moment)), moment, "the histories")
    elif moment is not None:  # the time of every item
        times = np.full(len(kept), moment)
    lengths = np.bincount(owners[kept], minlength=len(ids))
    ends, served = np.cumsum(lengths), lengths > 0
    found_users, left_out = ids.filter(pl.Series(served)), ids.filter(pl.Series(~served))
    if not len(found_users):
        raise InputError(
            f"No item in the histories of these {len(left_out):,} users is in the data. Check that "
            "item ids have the same form."
        )
    known = np.full(len(found_users), -1) if users is None else users.codes(found_users)
    starts, stops = (ends - lengths)[served], ends[served]
    queries = Queries(codes[kept].astype(np.uint32), starts, stops, known, times=times)
    assumes = _RECENT if model.scorer.uses_times and times is None else ""
    found = Histories(found_users, queries, ignored, left_out, found_users.head(0), assumes)
    segments, is_read = model.segments, given is not source
    if segments is None or (users is not None and not is_read):
        return found  # users of the data have their segments
    if not is_read:
        raise InputError(
            f"This model has segments by {segments.column}. Pass the histories as a frame or a "
            f"file with a column {segments.column!r}."
        )
    given_users = IdMap(given.users.ids, noun="user")
    how = {name: reading[name] for name in ("user", "columns") if name in reading}
    stated = read_user_segments(source, segments.column, given_users, **how)
    labels = tuple(
        segments.label(int(user)) if label is None and user >= 0 else label
        for label, user in zip(
            map(stated.label, given_users.codes(found_users).tolist()), known, strict=True
        )
    )
    unknown = pl.Series([segments.code(label) is None for label in labels], dtype=pl.Boolean)
    return replace(
        found,
        queries=replace(queries, segments=labels),
        without_segment=found_users.filter(unknown),
    )


def _rows_of_interactions(given: Interactions, items: IdMap) -> _Rows:
    codes = items.codes(given.items.ids)[given.item_codes]
    owners = np.repeat(np.arange(given.n_users), np.diff(given.offsets))
    # Times within the first day of 1970 are positions in a profile: the data had no times.
    times = given.times if given.times.max(initial=0) >= DAY else None
    unseen = given.items.ids.gather(given.item_codes[codes < 0])
    return given.users.ids, owners, codes, times, unseen


def _rows_of_mapping(source: Mapping[Any, Any], items: IdMap) -> _Rows:
    for user, history in source.items():
        if isinstance(history, (str, bytes)):
            raise InputError(f"The history of {user!r} is {history!r}. Pass a list of item ids.")
    try:
        ids = whole_floats(pl.Series(list(source), strict=True))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            "The user ids in histories= have several types. Use numbers only, or text only."
        ) from error
    consumed = [_history(user, history) for user, history in source.items()]
    flat = list(chain.from_iterable(history.items for history in consumed))
    owners = np.repeat(np.arange(len(consumed)), [len(history.items) for history in consumed])
    codes = items.codes(flat)
    unseen = pl.Series([str(flat[row]) for row in np.flatnonzero(codes < 0)], dtype=pl.String)
    return ids, owners, codes, _times_of(consumed, list(source)), unseen


def _history(user: Any, given: Any) -> History:
    try:
        return History.read(given)
    except InputError as error:
        raise InputError(f"The history of {user!r}: {error}") from error


def _times_of(histories: list[History], users: list[Any]) -> NDArray[np.int64] | None:
    """Return the concatenated times of all items; None if no history has times."""
    known = [history.times is not None for history in histories if history.items]
    if not any(known):
        return None
    if not all(known):
        without = users[[h.times is None and bool(h.items) for h in histories].index(True)]
        raise InputError(
            f"The history of {without!r} has no times, but others have. Pass times for all "
            "histories, or for none."
        )
    return np.concatenate([history.times for history in histories if history.times is not None])


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
    """Recommend items to many users, on all cores.

    Parameters
    ----------
    users : sequence of ids, optional
        By default all users of the data.
    histories : frame, Interactions, mapping or Histories, optional
        Histories instead of `users`, as :meth:`histories` reads or returns them. A
        ``HistoriesWarning`` names the users who are left out.
    leave_out : bool, default=False
        Whether users of `histories` with ids of the data are the same users; see
        :meth:`histories`.
    at : datetime, date, text or number, optional
        The time of the request, for histories without times; see :meth:`histories`.
    confidence, significance, k, exclude, min_probability, precision, items, item_list, unknown
        As in :meth:`recommend`; `unknown` applies to `users` too.
    hits : bool, default=False
        With `k`: add each list's probabilities of at least one, two and three hits, and the
        expected number of hits. For user-level calibrations; several times slower.

    Returns
    -------
    polars.DataFrame
        ``user_id``, the columns of :meth:`RecommendationSet.to_frame`, and ``covered``: whether
        the guarantee (``model_.guarantee_to_all``) covers the user. With `hits` also
        ``at_least_1``, ``at_least_2``, ``at_least_3`` and ``expected_hits``.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal().fit(films)
    >>> new = {"ann": films.items.ids[:4], "bob": films.items.ids[6:9]}
    >>> model.recommend_many(histories=new, confidence=0.5, k=2)["user_id"].to_list()
    ['ann', 'ann', 'bob', 'bob']
    """
    batches = iter_recommendations(
        model, users, histories=histories, leave_out=leave_out, at=at, **options
    )
    return pl.concat(batches)


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
    """Yield the rows of :meth:`recommend_many` in batches, to write them as they are computed.

    The parameters are those of :meth:`recommend_many`.
    """
    checked = model.options(**options)
    queried: NDArray[np.int64] | Histories
    if histories is None:
        if check_flag("leave_out", leave_out):
            raise InputError("leave_out= needs histories=; users of the data are always left out.")
        refuse_times(None, at, "users of the data have times of their own")
        known = model.profiles()
        queried = np.arange(known.n_users)
        if users is not None:
            queried = select_known(known.users, users, options.get("unknown", "check"))
        if not len(queried):
            raise InputError("users is empty. Pass at least one id, or None for all users.")
    elif users is not None:
        raise InputError("Both users and histories= were given. Pass one of them.")
    elif isinstance(histories, Histories):
        refuse_times(None, at, "these histories were read before; pass at= to histories(…)")
        queried = histories
    else:
        queried = read_histories(model, histories, leave_out=leave_out, at=at)
        for message in queried.warnings():
            warnings.warn(message, HistoriesWarning, stacklevel=4)
    yield from _batches(model, queried, checked)


def _batches(
    model: ModelParts, queried: NDArray[np.int64] | Histories, options: RecommendOptions
) -> Iterator[pl.DataFrame]:
    """Yield the rows of users in batches, in order."""
    longest = model.statistics.n_items if options.k is None else options.k
    most = int(np.clip(_ROWS_AT_ONCE // max(longest, 1), 1, _USERS_AT_ONCE))
    n_batches, n_threads = -(-len(queried) // most), available_threads()
    if n_batches > 1 or len(queried) >= n_threads * _WORTH_A_THREAD:
        # Equal batches for all threads, so that none waits for the last.
        n_batches = n_threads * -(-n_batches // n_threads)
    at_once = -(-len(queried) // max(n_batches, 1))

    def batch(start: int) -> pl.DataFrame:
        if not isinstance(queried, Histories):
            return rows_of(model, queried[start : start + at_once], options)
        some = queried.queries.part(start, start + at_once)
        return rows_for(model, some, queried.users.slice(start, len(some)), options)

    with progress("Recommending", total=len(queried), unit="users") as advance:
        for rows in run_blocks(batch, range(0, len(queried), max(at_once, 1))):
            yield rows
            advance(at_once)


def rows_of(model: ModelParts, users: NDArray[np.int64], options: RecommendOptions) -> pl.DataFrame:
    """Return the rows of some users of the data, by code."""
    known = model.profiles()
    queries = Queries.of_users(known, users)
    return rows_for(model, queries, known.users.ids.gather(users), options)


def rows_for(
    model: ModelParts, queries: Queries, users: pl.Series, options: RecommendOptions
) -> pl.DataFrame:
    """Return the rows of some queries; `users` are their ids."""
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
        limited = [options.limited(queries[place]) for place in range(len(queries))]
        found = [model.assess(query, options=options) for query in limited]
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
            known = [query.known_to(model.statistics) for query in limited]
            lengths = [options.hits_length(len(places)) for places in shown]
            hits = model.calibration_for(options).list_hits(known, found, lengths)
            for n_hits, of_lists in enumerate(hits.probability, start=1):
                columns[f"{Columns.AtLeast}{n_hits}"] = of_lists[owners]
            expected = np.array([part[Columns.Probability].sum() for part in parts])
            columns[Columns.ExpectedHits] = expected[owners]
    rows = result_frame(columns, model.items.ids, model.titles)
    return rows.select(users.gather(owners).alias(Columns.User), pl.all())
