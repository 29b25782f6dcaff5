"""A wrapped model as a measure and a scorer, from queries by code to scores by code."""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec._state import ArraySchema, State, check_arrays
from surerec.errors import InputError
from surerec.interactions import IdMap
from surerec.measures import Measure, Scorer
from surerec.precedence import without_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Adapter
    from surerec.interactions import Interactions
    from surerec.measures import Contribution, Query
    from surerec.precedence import PrecedenceStatistics, Ties

_SCHEMAS: Final = {
    "columns": ArraySchema("int64", ("n_items",), low=0, below="n_items"),
    "rows": ArraySchema("int64", ("n_users",), low=-1),
}
_MODEL: Final = "model_"
_MOST_AT_ONCE: Final = 256
_MOST_BYTES: Final = 1 << 25  # of one block of scores; a few are in memory at a time


class WrappedScorer(Scorer):
    """Scores by a wrapped model, in blocks of queries that fit in memory.

    Parameters
    ----------
    adapter : Adapter
        The model.
    columns : array of int
        Column of each item in the model, by code.
    rows : array of int
        Row of each user in the model, by code; −1 for users who were not in its fit.
    by_user : bool
        Whether users of the fit are scored by what the model keeps of them, not by their history.
    knows_all : bool
        Whether the model can rank every item, not only those consumed in its fit.
    """

    leaves_users_out = False
    accepts_user_histories = False
    checked = True  # checked in `_by_code`; −∞ means no score

    def __init__(
        self,
        adapter: Adapter,
        columns: NDArray[np.int64],
        rows: NDArray[np.int64],
        *,
        by_user: bool,
        knows_all: bool,
    ) -> None:
        self.adapter = adapter
        self.columns = columns
        self.rows = rows
        self.by_user = by_user
        self._knows_all = knows_all
        self.is_partial = adapter.is_partial
        self.accepts_histories = adapter.folds_in
        self.at_once = int(np.clip(_MOST_BYTES // (8 * max(len(columns), 1)), 1, _MOST_AT_ONCE))
        self._in_order = np.array_equal(columns, np.arange(len(adapter.catalogue)))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.adapter.name

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item."""
        scores: NDArray[np.float64] = self.score_many([query])[0]
        return scores

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries, by row for users of the fit."""
        rows = np.array([self._row(query) for query in queries])
        known = rows >= 0
        if not known.all() and not self.adapter.folds_in:
            raise InputError(
                f"{self.name} cannot score a new user or a history, only users of its fit. Pass "
                "user=, one of these users."
            )
        found = np.empty((len(queries), len(self.columns)))
        if known.any():
            found[known] = self._by_code(self._of_users(rows, queries))
        if not known.all():
            places = np.flatnonzero(~known).tolist()
            histories = [self.columns[queries[place].history] for place in places]
            found[~known] = self._by_code(self.adapter.score_histories(histories))
        return found

    def _of_users(self, rows: NDArray[np.int64], queries: Sequence[Query]) -> NDArray[np.floating]:
        """Score the queries of users of the fit."""
        in_fit = np.flatnonzero(rows >= 0)
        if not self.adapter.uses_both:
            return self.adapter.score_users(rows[in_fit])
        histories = [self.columns[queries[place].history] for place in in_fit.tolist()]
        return self.adapter.score_both(rows[in_fit], histories)

    def _row(self, query: Query) -> int:
        return int(self.rows[query.user]) if self.by_user and query.user is not None else -1

    def _by_code(self, given: NDArray[np.floating]) -> NDArray[np.float64]:
        """Check the scores of a model, and return them in the order of the codes."""
        scores = np.asarray(given)
        if scores.ndim != 2 or scores.shape[1] != len(self.adapter.catalogue):  # noqa: PLR2004
            raise InputError(
                f"{self.name} returned scores of shape {scores.shape}. Return one row per user "
                f"with one score for each of the {len(self.adapter.catalogue):,} items."
            )
        scores = scores if self._in_order else scores[:, self.columns]
        scores = scores.astype(np.float64, copy=False)
        missing = np.isnan(scores)
        if missing.any():
            if not self.is_partial:
                raise InputError(
                    f"{self.name} returned {int(missing.sum()):,} scores that are not numbers. "
                    "Return a finite score for every item."
                )
            scores = np.where(missing, -np.inf, scores)
        return scores

    def reaches(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which users can be scored: all, or those of the fit."""
        if self.accepts_histories:
            return super().reaches(users)
        return (users >= 0) & (self.rows[users] >= 0)

    def candidates(
        self,
        statistics: PrecedenceStatistics,
        known: NDArray[np.integer],
        users: Sequence[int] = (),  # noqa: ARG002  # the model was fitted without them
    ) -> NDArray[np.int64]:
        """Return the items that the model can rank: all, or those consumed in its fit."""
        if self._knows_all:
            return np.setdiff1d(np.arange(len(self.columns)), known)
        return statistics.items_outside(known)

    def unknown(
        self,
        statistics: PrecedenceStatistics,
        users: Sequence[int] = (),  # noqa: ARG002  # as in `candidates`
    ) -> NDArray[np.int64]:
        """Return the items that the model cannot rank."""
        return statistics.unknown_without(()) if not self._knows_all else np.empty(0, np.int64)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return scores in the model's own unit, if it has one."""
        return self.adapter.value(scores, history_length) if self.adapter.has_value else scores

    def state(self) -> State:
        """Return the columns of items, the rows of users, and the state of the model."""
        lines = State({"columns": self.columns, "rows": self.rows})
        return lines | self.adapter.state().under(_MODEL)

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Return the model's contributions, if it has any."""
        row = self._row(query)
        return self.adapter.contributions(
            None if row < 0 else row, self.columns[query.history], int(self.columns[item])
        )


def read_lines(
    state: State, statistics: PrecedenceStatistics
) -> tuple[NDArray[np.int64], NDArray[np.int64], State]:
    """Load the columns, rows and model state of a :class:`WrappedScorer`.

    KeyError or ValueError if the state does not belong to these users and items.
    """
    model, lines = state.split(_MODEL)
    sizes = {"n_items": statistics.n_items, "n_users": int(statistics.n_users)}
    check_arrays("a wrapped model", _SCHEMAS, lines.arrays, **sizes)
    columns = lines.arrays["columns"]
    if lines.texts or len(np.unique(columns)) < len(columns):
        raise ValueError("two items have the same column")
    return columns, lines.arrays["rows"], model


class WrappedMeasure(Measure):
    """Fits a copy of a model on interactions; the model itself stays unchanged.

    Parameters
    ----------
    adapter : Adapter
        The model.
    by_user : bool, default=False
        Whether users of the fit are scored by what the model keeps of them, if anything.
    """

    leaves_users_out = False

    def __init__(self, adapter: Adapter, *, by_user: bool = False) -> None:
        self.adapter = adapter
        self.by_user = by_user and adapter.knows_users
        self.refits = self.learns = adapter.can_fit

    @property
    def name(self) -> str:
        """Name of the model in characters for file names."""
        named = re.sub(r"\s+", "-", self.adapter.short_name)
        return re.sub(r"[^A-Za-z0-9._-]", "", named) or "model"

    def count(self, interactions: Interactions, ties: Ties = "order") -> PrecedenceStatistics:
        """Return statistics without precedence counts."""
        del ties
        return without_counts(interactions)

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Fit a copy on these profiles, or use a fitted model unchanged."""
        profiles = statistics.require_profiles(f"{self.name} is fitted on profiles")
        return self.scorer(profiles, profiles)

    def scorer(self, fitted: Interactions, served: Interactions) -> WrappedScorer:
        """Fit a copy on some profiles, and return its scorer for others.

        Parameters
        ----------
        fitted : Interactions
            Profiles to fit on.
        served : Interactions
            Profiles to score: the same items and users, with more interactions.
        """
        adapter = self.adapter.fitted_on(fitted) if self.adapter.can_fit else self.adapter
        in_fit = np.diff(fitted.offsets) > 0
        return of_fitted(adapter, served, in_fit, by_user=self.by_user, knows_all=adapter.knows_all)


def of_fitted(
    adapter: Adapter,
    served: Interactions,
    in_fit: NDArray[np.bool_],
    *,
    by_user: bool,
    knows_all: bool,
) -> WrappedScorer:
    """Return the scorer of a fitted model for profiles on its catalogue.

    Parameters
    ----------
    adapter : Adapter
        The model.
    served : Interactions
        Profiles to score.
    in_fit : array of bool
        Whether the model was fitted on each of these users.
    by_user, knows_all : bool
        As in :class:`WrappedScorer`.
    """
    columns = adapter.catalogue.codes(served.items.ids)
    if (columns < 0).any():
        unknown = served.items.ids.gather(np.flatnonzero(columns < 0)[:3]).to_list()
        raise InputError(
            f"{adapter.name} has no column for {int((columns < 0).sum()):,} of the "
            f"{len(columns):,} items, such as {', '.join(map(repr, unknown))}. Leave these items "
            "out, or fit the model on them."
        )
    if adapter.users is None:
        rows = np.where(in_fit, np.arange(len(in_fit)), -1)
    else:
        rows = np.where(in_fit, adapter.users.codes(served.users.ids), -1)
    by_user = by_user and adapter.knows_users
    return WrappedScorer(adapter, columns, rows, by_user=by_user, knows_all=knows_all)


def on_catalogue(
    data: Interactions, fitted: Interactions, items: IdMap | None = None
) -> PrecedenceStatistics:
    """Return profiles on the catalogue of a model, with the support of its fit.

    Codes follow the popularity in the fit only. They break ties between scores, so that held-out
    interactions of calibration users must have no part in them.

    Parameters
    ----------
    data : Interactions
        Known profiles of all users; items outside the catalogue are left out.
    fitted : Interactions
        Interactions that the model was fitted on, under the same codes.
    items : IdMap, optional
        The catalogue; by default the items consumed in the fit.

    Examples
    --------
    >>> from surerec import Interactions
    >>> data = Interactions.from_profiles([0, 2, 3], [1, 0, 1], item_ids=["a", "b"])
    >>> found = on_catalogue(data, data.without_users(np.array([0])))
    >>> found.interactions.items.ids.to_list(), found.support.tolist(), found.interactions
    (['b'], [1], Interactions(2 users, 1 items, 2 rows))
    """
    support = np.bincount(fitted.item_codes, minlength=data.n_items)
    if items is None:
        items = IdMap(data.items.ids.gather(np.flatnonzero(support)), noun="item")
    places = items.codes(data.items.ids)
    of_item = np.zeros(len(items), dtype=np.int64)
    of_item[places[places >= 0]] = support[places >= 0]
    order = np.argsort(-of_item, kind="stable")
    new = np.append(np.argsort(order), -1)  # the last for items outside the catalogue
    return without_counts(_recoded(data, items.ids.gather(order), new[places]), of_item[order])


def _recoded(data: Interactions, ids: pl.Series, codes: NDArray[np.int64]) -> Interactions:
    rows = codes[data.item_codes]
    kept = rows >= 0
    found = copy(data)  # with its users and its name
    found.items = IdMap(ids, noun="item")
    found.offsets = np.concatenate(([0], np.cumsum(kept)))[data.offsets]
    found.item_codes = rows[kept].astype(np.uint32)
    found.times = data.times[kept]
    places = np.full(len(ids), data.n_items)  # beyond the last: no text
    places[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
    found.titles = _moved(data.titles, places)
    found.genres = _moved(data.genres, places)
    return found


def _moved(texts: pl.Series | None, places: NDArray[np.int64]) -> pl.Series | None:
    if texts is None:
        return None
    return pl.concat([texts, pl.Series([None], dtype=pl.String)]).gather(places)
