"""The components of a fitted model, and the entry confidences that they compute."""

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
CHOICE: Final = "choice_"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ModelParts:
    """A scorer, its calibration, and the statistics of the data.

    Attributes
    ----------
    kind : str
        Name of the estimator class, for messages.
    name : str
        Name of the recommender, such as "icrs12".
    statistics : PrecedenceStatistics
        Support, precedence counts, and the profiles behind them.
    scorer : Scorer
        Scores every item for a query.
    calibration : Calibration
        Turns scores into sets; its ``features`` determine which options a request may have.
    item_lists : mapping of str to UserCalibration
        Calibrations on named item lists.
    groups : CalibratedGroups or None
        Calibrations on groups of users who choose together; None for item-level calibrations.
    """

    kind: str
    name: str
    statistics: PrecedenceStatistics
    scorer: Scorer
    calibration: Calibration
    item_lists: Mapping[str, UserCalibration] = field(default_factory=dict)
    groups: CalibratedGroups | None = None

    def state(self) -> State:
        """Return the state of all components except the statistics."""
        found = (self.scorer.state() or State()).under(SCORER)
        found |= self.calibration.state().under(CALIBRATION)
        found |= State.numbered(LIST, (each.state() for each in self.item_lists.values()))
        return found if self.groups is None else found | self.groups.state().under(GROUPS)

    @property
    def items(self) -> IdMap:
        """The item ids, by code."""
        return self.statistics.interactions.items

    @property
    def titles(self) -> pl.Series | None:
        """The title of each item by code, null if missing; None without titles."""
        return self.statistics.interactions.titles

    @property
    def features(self) -> frozenset[str]:
        """The supported request options; see :class:`surerec.calibration.Calibration`."""
        return self.calibration.features

    @property
    def user_level(self) -> UserCalibration:
        """The user-level calibration; NotSupportedError for other models."""
        require(self.calibration, "period", self.kind)
        return cast("UserCalibration", self.calibration.fitted)

    @property
    def segments(self) -> Segmentation | None:
        """The segment of each user, for models with segments; otherwise None."""
        return self.calibration.segmentation

    def options(self, **given: Unpack[RequestOptions]) -> RecommendOptions:
        """Return validated request options; see :meth:`recommend` for their meaning."""
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
        """Return the options of a request for a whole item list."""
        require(self.calibration, "item_lists", self.kind)
        check_item_list(self.item_lists, item_list)
        return RecommendOptions(item_list=item_list)

    def codes_of(self, items: Iterable[Any], unknown: str) -> NDArray[np.int64]:
        """Return the distinct codes of the known items; raise InputError for an empty list."""
        codes = np.unique(select_known(self.items, items, unknown))
        if not len(codes):
            raise InputError("items is empty. Pass at least one item.")
        return codes

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The item ids of each calibrated item list."""
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
        """Resolve ids to a query, which several requests may share.

        Parameters
        ----------
        user, history, times, at, segment
            As in :meth:`recommend`.
        """
        if user is not None and history is not None and not self.scorer.accepts_user_histories:
            raise InputError(
                "Both user= and history= were given, but this model scores its users by their own "
                "data. Pass one of the two."
            )
        found = resolve(self.statistics, user, history, times, at)
        if segment is None:
            return found
        require(self.calibration, "segments", self.kind)
        return replace(found, segment=str(segment))

    def assumption(self, calibration: object, *queries: Query) -> str:
        """Return further assumptions of guarantees; "" for none.

        They concern scorers that use times, for queries without times; and live models, for
        calibrations that are not adapted.
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
        """Return the confidence at which each candidate enters the set.

        Parameters
        ----------
        query : Query
            The user.
        candidates : array of int, optional
            Item codes outside the history; by default all items that may be recommended.
        options : RecommendOptions, optional
            They select the calibration of an item list or of a precision.
        """
        calibration = self.calibration_for(options)
        if candidates is None:
            candidates = calibration.within_list(self.candidates(query))
        else:
            self.check_query(query)
            candidates = check_codes("candidates", candidates, self.statistics.n_items)
        return calibration.assess(self.scorer, self.statistics, query, candidates)

    def calibration_for(self, options: RecommendOptions) -> Calibration:
        """Return the calibration for a request."""
        found = self.calibration
        if options.item_list is not None:
            found = self.item_lists[options.item_list]
        elif options.items is not None or options.min_probability is not None:
            found = found.fitted
        return found if options.precision is None else found.at(options.precision)

    def level(self, query: Query, item: int) -> float:
        """Return the significance level at which one item, by code, leaves a user's set.

        The same as :meth:`assess`, at little more than the cost of scoring.
        """
        self.check_query(query)
        require(self.calibration, "levels", self.kind)
        code = check_code("item", item, self.statistics.n_items)
        return self.calibration.level(self.scorer, self.statistics, query, code)

    def calibrates(self, user: int) -> bool:
        """Return whether a user, by code, is in the calibration of items, item lists or groups."""
        return any(
            each.has_user(user) for each in (self.calibration, *self.item_lists.values())
        ) or (self.groups is not None and self.groups.has_user(user))

    def without_user(self, user: int) -> Self:
        """Return the model calibrated without a user, by code.

        Probabilities, item lists and groups that the user calibrated are dropped until a refit.
        """
        if not self.calibrates(user):
            return self
        groups = None if self.groups is None else replace(self.groups, by_size={})
        calibration = self.calibration.without(user)
        return replace(self, calibration=calibration, item_lists={}, groups=groups)

    def profiles(self) -> Interactions:
        """Return the users' profiles, or raise NoUsersError."""
        return self.statistics.require_profiles("there are no users to recommend to")

    def check_query(self, query: Query) -> Query:
        """Return a query, or raise InputError if its codes are not of this model."""
        check_kind("query", query, Query, "a Query, as FittedModel.query returns it")
        return query.within(self.statistics.n_items, self.statistics.interactions.n_users)
