"""Lists of scored items that any system wrote, complete or only the best of each user."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import polars as pl

from surerec._checks import check_offsets
from surerec._state import ArraySchema, State, check_arrays
from surerec.adapters._adapter import Adapter
from surerec.errors import InputError
from surerec.interactions import IdMap, ScoredLists, read_lists
from surerec.measures import Query, as_recipe, recipe_names
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics

POPULARITY: Final = "popularity"
_SCHEMAS: Final = {
    "offsets": ArraySchema("int64", ("n_users+1",)),
    "listed": ArraySchema("uint32", ("n_listed",), below="n_items"),
    "scores": ArraySchema("float64", ("n_listed",), holds="finite"),
}


class ListsAdapter(Adapter):
    """Scores that were written down: whoever has a list is scored by it, and nobody else.

    Parameters
    ----------
    lists : ScoredLists
        The lists.
    """

    knows_users = True
    folds_in = False
    knows_all = True
    is_partial = True
    stored = short_name = "lists"
    people = "users who have a list"

    def __init__(self, lists: ScoredLists) -> None:
        self.model = lists
        self.items = lists.items
        self.users = lists.users
        self.lacking = f"in no list of theirs ({lists.lengths()})"
        self.complete: Callable[[int], NDArray[np.float64]] | None = None

    @property
    def own_name(self) -> str:
        """What sentences call it."""
        return "the model of these lists"

    def check_fitted(self) -> None:
        """Do nothing: lists that were read are there."""

    def knowing(self, past: Interactions) -> Self:
        """Give the same lists on a catalogue with all items of the past, for users of the past."""
        assert self.users is not None  # noqa: S101  # they are the lists' own
        kept = np.flatnonzero(past.users.codes(self.users.ids) >= 0)
        if not len(kept):
            raise InputError(
                f"{self.model.name}: not one of the {len(self.users):,} users with a list is in "
                "the past; their ids may be others, or of another kind."
            )
        ids = [self.catalogue.ids, past.items.ids]
        if ids[0].dtype != ids[1].dtype:
            ids = [each.cast(pl.String) for each in ids]
        new = self.catalogue.codes(past.items.ids) < 0
        found = copy(self)
        found.items = IdMap(pl.concat([ids[0], ids[1].filter(pl.Series(new))]), noun="item")
        found.users = IdMap(self.users.ids.gather(kept), noun="user")
        found.model = _of_users(self.model, kept)
        return found

    def completed(
        self,
        fallback: str,
        statistics: PrecedenceStatistics,
        columns: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> Self:
        """Give the same lists with all other items of the past behind them.

        Parameters
        ----------
        fallback : str
            "popularity", or one of the 17 measures.
        statistics : PrecedenceStatistics
            The past, on the catalogue.
        columns, rows : array of int
            Of each item and user of theirs, by code, the line here.
        """
        profiles = statistics.interactions
        if fallback == POPULARITY:
            taken = statistics.support.astype(np.float64)

            def scores(row: int) -> NDArray[np.float64]:  # noqa: ARG001
                return taken
        else:
            scorer = as_recipe(fallback).fit(count_precedence(profiles, strategy="on-demand"))
            codes = np.full(len(self.model.users), -1)
            codes[rows[rows >= 0]] = np.flatnonzero(rows >= 0)

            def scores(row: int) -> NDArray[np.float64]:
                return scorer.score_query(Query.of_user(profiles, int(codes[row])))

        held = statistics.support > 0

        def complete(row: int) -> NDArray[np.float64]:
            found = np.full(len(columns), np.nan)
            found[columns[held]] = scores(row)[held]
            return found

        found = copy(self)
        found.complete = complete
        found.lacking = "unknown to the past that completes the lists"
        return found

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Give what their lists say; NaN for what is not in them."""
        found = np.full((len(rows), len(self.catalogue)), np.nan)
        for place, row in enumerate(rows):
            here = slice(self.model.offsets[row], self.model.offsets[row + 1])
            listed, scores = self.model.listed[here], self.model.scores[here]
            if self.complete is not None:
                found[place] = _behind(listed, scores, self.complete(int(row)))
            else:
                found[place, listed] = scores
        return found

    def state(self) -> State:
        """Return the arrays that the lists are made of."""
        return State({name: getattr(self.model, name) for name in _SCHEMAS})

    @classmethod
    def from_state(cls, state: State, items: IdMap, users: IdMap) -> ListsAdapter:
        """Read it back; KeyError or ValueError if these are not its arrays."""
        sizes = {"n_users": len(users), "n_items": len(items)}
        check_arrays("lists", _SCHEMAS, state.arrays, **sizes)
        check_offsets(state.arrays["offsets"], len(state.arrays["listed"]))
        return cls(ScoredLists(users, items, **state.arrays, name="these lists", has_scores=True))


def check_fallback(fallback: object) -> None:
    """Refuse what cannot complete a list."""
    allowed = [POPULARITY, *(name for name in recipe_names() if not as_recipe(name).learns)]
    if not isinstance(fallback, str) or fallback not in allowed:
        raise InputError(
            f"fallback is {fallback!r}; choose popularity or one of the measures, such as CM12."
        )


def adapter(model: Any) -> ListsAdapter:
    """Give the adapter of a frame or a file of lists, or of lists that were read."""
    return ListsAdapter(model if isinstance(model, ScoredLists) else read_lists(model))


def _of_users(lists: ScoredLists, kept: NDArray[np.intp]) -> ScoredLists:
    """Keep the lists of some users."""
    if len(kept) == len(lists.users):
        return lists
    lengths = np.diff(lists.offsets)
    wanted = np.zeros(len(lengths), dtype=bool)
    wanted[kept] = True
    rows = np.repeat(wanted, lengths)
    return ScoredLists(
        IdMap(lists.users.ids.gather(kept), noun="user"),
        lists.items,
        np.concatenate(([0], np.cumsum(lengths[kept]))),
        lists.listed[rows],
        lists.scores[rows],
        lists.name,
        lists.has_scores,
    )


def _behind(
    listed: NDArray[np.uint32], scores: NDArray[np.float64], others: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Give minus the place of each item, ties sharing one: the list first, then the others.

    Places, as scores of a list and of its completion are in different units.

    Examples
    --------
    >>> _behind(np.array([2], dtype=np.uint32), np.array([0.1]), np.array([7.0, 9, 8, np.nan]))
    array([-3., -2., -1., nan])
    """
    distinct, places = np.unique(-scores, return_inverse=True)
    found = np.full(len(others), np.nan)
    rest = ~np.isnan(others)
    rest[listed] = False
    found[rest] = -(np.unique(-others[rest], return_inverse=True)[1] + len(distinct) + 1.0)
    found[listed] = -(places + 1.0)
    return found
