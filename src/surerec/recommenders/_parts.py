"""The parts of a fitted model, and how they find the confidence at which items enter sets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, cast

import numpy as np

from surerec._arguments import check_code, check_codes, check_kind, check_list
from surerec._state import State
from surerec.errors import InputError
from surerec.measures import Query
from surerec.recommenders._options import (
    RecommendOptions,
    RequestOptions,
    check_item_list,
    check_options,
    require,
    without_hits,
)
from surerec.recommenders._query import assumed_of, resolve, select_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    import polars as pl
    from numpy.typing import NDArray

    from surerec.calibration import Assessment, Calibration, UserCalibration
    from surerec.interactions import IdMap, Interactions, Segmentation
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._group_calibration import CalibratedGroups

_ANYTHING: Final = RecommendOptions()
SCORER: Final = "scorer_"
CALIBRATION: Final = "calibration_"
GROUPS: Final = "groups_"
LIST: Final = "list"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ModelParts:
    """Scores of items, a calibration that turns them into sets, and what they are computed from.

    Attributes
    ----------
    kind : str
        The name of the estimator class, for messages.
    name : str
        The recommender's name in answers, such as "icrs12".
    statistics : PrecedenceStatistics
        Support, precedence counts, and the profiles they were counted from.
    scorer : Scorer
        Scores every item for a query.
    calibration : Calibration
        Turns scores into sets; its ``features`` say which options a request may have.
    item_lists : mapping of str to UserCalibration
        Calibrations on named item lists.
    groups : CalibratedGroups or None
        The calibrations on groups of users who choose together; None of an item-level calibration.
    """

    kind: str
    name: str
    statistics: PrecedenceStatistics
    scorer: Scorer
    calibration: Calibration
    item_lists: Mapping[str, UserCalibration] = field(default_factory=dict)
    groups: CalibratedGroups | None = None

    def state(self) -> State:
        """Return what is saved of all components but the statistics."""
        found = (self.scorer.state() or State()).under(SCORER)
        found |= self.calibration.state().under(CALIBRATION)
        found |= State.numbered(LIST, (each.state() for each in self.item_lists.values()))
        return found if self.groups is None else found | self.groups.state().under(GROUPS)

    @property
    def items(self) -> IdMap:
        """The ids of the items, by code."""
        return self.statistics.interactions.items

    @property
    def titles(self) -> pl.Series | None:
        """The title of each item by code, null where there is none; None without titles."""
        return self.statistics.interactions.titles

    @property
    def features(self) -> frozenset[str]:
        """What a request may ask for; see :class:`surerec.calibration.Calibration`."""
        return self.calibration.features

    @property
    def user_level(self) -> UserCalibration:
        """The calibration of a model that is calibrated on users, or raise NotSupportedError."""
        require(self.calibration, "period", self.kind)
        return cast("UserCalibration", self.calibration.fitted)

    @property
    def segments(self) -> Segmentation | None:
        """The segment of each user, where thresholds are calibrated by segment."""
        return self.calibration.segmentation

    def options(self, **given: Unpack[RequestOptions]) -> RecommendOptions:
        """Return the options of a request, checked; see :meth:`recommend` for their meaning."""
        if unknown := given.keys() - RequestOptions.__annotations__:
            raise TypeError(f"There is no option {min(unknown)!r} (unexpected keyword argument).")
        checked = check_options(self.calibration, self.item_lists, self.kind, given)
        if (items := given.get("items")) is not None:
            codes = self.codes_of(items, given.get("unknown", "check"))
            checked = replace(checked, items=codes)
        if ids := check_list("exclude", given.get("exclude", ()), "item ids"):
            checked = replace(checked, exclude=self.items.codes(ids))
        if checked.hits and (reason := without_hits(checked, self.calibration, self.kind)):
            raise InputError(reason)
        return checked

    def listed(self, item_list: str) -> RecommendOptions:
        """Return the options of a request for a whole item list, at any level."""
        require(self.calibration, "item_lists", self.kind)
        check_item_list(self.item_lists, item_list)
        return RecommendOptions(item_list=item_list)

    def codes_of(self, items: Iterable[Any], unknown: str) -> NDArray[np.int64]:
        """Return the codes of the known items, each once; refuse an empty list."""
        codes = np.unique(select_known(self.items, items, unknown))
        if not len(codes):
            raise InputError("The list of items is empty: it needs at least one.")
        return codes

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The items of each calibrated item list."""
        return {
            name: self.items.ids.gather(each.listed.codes).to_list()
            for name, each in self.item_lists.items()
            if each.listed is not None
        }

    def query(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        segment: Any = None,
    ) -> Query:
        """Turn ids into a query, as all questions do; one query may be asked several of them.

        Parameters
        ----------
        user, history, times, at, segment
            As in :meth:`recommend`.
        """
        if user is not None and history is not None and not self.scorer.accepts_user_histories:
            raise InputError(
                "Give user= or history=, not both: a wrapped model scores a user by what is known "
                "of them here."
            )
        found = resolve(self.statistics, user, history, times, at)
        if segment is None:
            return found
        require(self.calibration, "segments", self.kind)
        return replace(found, segment=str(segment))

    def assumption(self, calibration: object, *queries: Query) -> str:
        """Return the sentences that guarantees of a calibration end with; "" for none.

        They say that a scorer that uses times was given none, and that thresholds are as fitted
        where the model adapts its own.
        """
        as_fitted = "" if calibration is self.calibration else self.calibration.unadapted
        return f"{assumed_of(self.scorer, *queries)} {as_fitted}".strip()

    def candidates(self, query: Query) -> NDArray[np.int64]:
        """Return the codes of the items that may be recommended."""
        self.check_query(query)
        outside = self.scorer.candidates(self.statistics, query.history, query.users)
        return outside if query.allowed is None else np.intersect1d(outside, query.allowed)

    def assess(
        self,
        query: Query,
        candidates: NDArray[np.int64] | None = None,
        *,
        options: RecommendOptions = _ANYTHING,
    ) -> Assessment:
        """Return the confidence at which each candidate enters the set, by code.

        Parameters
        ----------
        query : Query
            Whom it is about.
        candidates : array of int, optional
            Item codes outside the history; by default all that may be recommended.
        options : RecommendOptions, optional
            They choose the calibration: that of an item list, or of a precision.
        """
        calibration = self.calibration_for(options)
        if candidates is None:
            candidates = calibration.within_list(self.candidates(query))
        else:
            self.check_query(query)
            candidates = check_codes("candidates", candidates, self.statistics.n_items)
        return calibration.assess(self.scorer, self.statistics, query, candidates)

    def calibration_for(self, options: RecommendOptions) -> Calibration:
        """Return the calibration that serves a request."""
        found = self.calibration
        if options.item_list is not None:
            found = self.item_lists[options.item_list]
        elif options.items is not None or options.min_probability is not None:
            found = found.fitted
        return found if options.precision is None else found.at(options.precision)

    def level(self, query: Query, item: int) -> float:
        """Return the ε below which one item, by code, is in a user's set.

        As :meth:`assess` finds it, for little more than the cost of scoring.
        """
        self.check_query(query)
        require(self.calibration, "levels", self.kind)
        code = check_code("item", item, self.statistics.n_items)
        return self.calibration.level(self.scorer, self.statistics, query, code)

    def calibrates(self, user: int) -> bool:
        """Return whether a user, by code, calibrates: all items, an item list, or groups."""
        return any(
            each.has_user(user) for each in (self.calibration, *self.item_lists.values())
        ) or (self.groups is not None and self.groups.has_user(user))

    def without_user(self, user: int) -> Self:
        """Return the model calibrated without a user, by code.

        Probabilities, item lists and groups that the user calibrated go; a refit brings them back.
        """
        if not self.calibrates(user):
            return self
        groups = None if self.groups is None else replace(self.groups, by_size={})
        calibration = self.calibration.without(user)
        return replace(self, calibration=calibration, item_lists={}, groups=groups)

    def profiles(self) -> Interactions:
        """Return the users' profiles, or raise NoUsersError."""
        return self.statistics.require_profiles("there is nobody to recommend to")

    def check_query(self, query: Query) -> Query:
        """Return a query whose codes are all of this model, or refuse it."""
        check_kind("query", query, Query, "a Query, as FittedModel.query makes it")
        return query.within(self.statistics.n_items, self.statistics.interactions.n_users)
