"""Answers of what is calibrated over users: whose calibration, which lists, up to which day."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_code, check_kind, check_text
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec.calibration import NO_CHANCES, PrecisionCalibration, find_promise
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.errors import InputError, NotOffered, StaleModelWarning
from surerec.futures import SLATE_MOST
from surerec.recommenders._base import Recommender
from surerec.recommenders._budget import budget_rows
from surerec.recommenders._wanted import Wanted, check_fraction

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from surerec.calibration import (
        Assessment,
        CalibrationUsers,
        ItemChances,
        Promise,
        Slate,
        UserCalibration,
    )
    from surerec.interactions import UserGroups
    from surerec.measures import Queries, Query


class OverUsers(Recommender):
    """Gives a recommender the answers that a calibration over users has, and lists of items."""

    gives_probabilities = True
    promise: str | Promise
    window: float | None
    user_groups_: UserGroups | None
    _calibrated: UserCalibration
    _lists: dict[str, UserCalibration]
    _warned = False

    def headline(self, confidence: float = DEFAULT_CONFIDENCE) -> str:
        """Give what it promises in a few words, without the assumption."""
        return find_promise(self.promise).headline(confidence)

    def _calibration(self) -> UserCalibration:
        return self._calibrated

    @property
    def calibration_(self) -> CalibrationUsers:
        """What is kept of the calibration users."""
        self.require_fit()
        return self._calibrated.users

    @property
    def item_probabilities_(self) -> ItemChances | None:
        """What probabilities of items are calibrated on; None with too few calibration users."""
        self.require_fit()
        return self._calibrated.chances

    def _user_groups(self) -> UserGroups | None:
        return self.user_groups_

    def assess(
        self,
        query: Query,
        candidates: NDArray[np.int64] | None = None,
        *,
        wanted: Wanted | None = None,
    ) -> Assessment:
        """Evaluate candidates; see :meth:`Recommender.assess`. Served, it warns past its window."""
        self.require_fit()
        self._warn_if_stale()
        return super().assess(query, candidates, wanted=wanted)

    def level(self, query: Query, item: int) -> float:
        """Give the ε below which one item, by code, is in a person's set.

        What :meth:`assess` says of it, for little more than the cost of scoring.

        Parameters
        ----------
        query : Query
            Whom it is about.
        item : int
            An item outside the history.
        """
        self._within(query)
        if self.promises_precision:
            raise NotOffered("A promise of precision has no level for an item: ask recommend.")
        self._warn_if_stale()
        check_code("item", item, self.statistics_.n_items)
        return self._calibrated.level(self.scorer_, self.statistics_, query, int(item))

    def _calibration_for(self, wanted: Wanted) -> UserCalibration:
        found = self._calibrated if wanted.among is None else self._lists[wanted.among]
        if wanted.precision is None or not isinstance(found, PrecisionCalibration):
            return found
        return found.at(wanted.precision)

    def _listed_of(self, candidates: NDArray[np.int64], wanted: Wanted | None) -> NDArray[np.int64]:
        if wanted is None or wanted.among is None:
            return candidates
        listed = self._lists[wanted.among].listed
        assert listed is not None  # noqa: S101  # it is a list's
        return np.intersect1d(candidates, listed.codes)

    @property
    def promises_precision(self) -> bool:
        """Whether a precision must be asked for."""
        return find_promise(self.promise).tested

    def _check_precision(self, precision: float) -> float:
        if not self.promises_precision:
            raise NotOffered(
                f"This recommender promises {find_promise(self.promise).name}, not precision: fit "
                'PopulationConformal(promise="precision"), on the command line precision-cm12.'
            )
        return check_fraction("precision", precision)

    def require_probabilities(self, among: str | None = None) -> None:
        """Refuse a model without probabilities of items, or with one for all of them."""
        chances = self._calibration_for(Wanted(among=among)).chances
        if chances is None:
            raise NotOffered(f"There are no probabilities: {NO_CHANCES}.")
        if not chances.tells_items_apart:
            raise NotOffered(
                "Every item has the same probability: the scorer does not tell what people take "
                "from what they do not, so min_probability cannot choose."
            )

    def _check_chances(self, k: object, items: object) -> None:
        if k is None or check_whole("k", k) > SLATE_MOST:
            raise InputError(f"Chances are of lists of up to {SLATE_MOST} items: give such a k.")
        if items is not None:
            raise InputError(
                "Chances are of a person's best items: leave items out, or name a list of them by "
                "model.allow(…) and say among=."
            )

    def rows_for(self, queries: Queries, people: pl.Series, wanted: Wanted) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many`; see :meth:`Recommender.rows_for`."""
        self._warn_if_stale()
        if not wanted.chances:
            return super().rows_for(queries, people, wanted)
        return budget_rows(self, self._calibration_for(wanted), queries, people, wanted)

    def _check_list(self, name: str) -> None:
        self.require_fit()
        check_text("among", name)
        if name not in self._lists:
            known = ", ".join(map(repr, self._lists)) or "none yet; name one by model.allow(…)"
            raise NotOffered(f"There is no list {name!r}; there is {known}.")

    @property
    def lists_(self) -> dict[str, list[Any]]:
        """The named lists, each with its items."""
        self.require_fit()
        return {
            name: self.items_.ids.gather(each.listed.codes).to_list()
            for name, each in self._lists.items()
            if each.listed is not None
        }

    def hit_probability(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        k: int = 10,
    ) -> Slate:
        """Give the k best items, and this person's probability that at least one is a hit.

        Calibrated on the calibration users by Venn–Abers: among people with such a probability,
        that share takes one of their k best items within the horizon.

        Parameters
        ----------
        user, history, times, at
            As in :meth:`recommend`.
        k : int, default=10
            Length of the slate, up to 100.
        """
        n, query = check_whole("k", k), self.query(user, history=history, times=times, at=at)
        assumes = self.assumption(query)
        found = self._calibrated.slate(
            self.scorer_, self.statistics_, query, self.items_, n, assumes
        )
        taken = self.statistics_.interactions
        titles: list[str] = []
        if taken is not None:
            titles = [taken.title(self.items_.code(item)) for item in found.items]
        return replace(found, recommender=self.name_, titles=titles)

    @property
    def valid_until_(self) -> datetime | None:
        """The end of the window that a calibration by the calendar was made for."""
        if self.window is None:
            return None
        return _instant(int(self.calibration_.period[1]) + int(self.window * DAY))

    def age(self, at: datetime | None = None) -> timedelta:
        """Give how long ago the futures that calibrated it ended.

        Parameters
        ----------
        at : datetime, optional
            By default now.
        """
        moment = _now() if at is None else check_kind("at", at, datetime, "a datetime")
        if moment.tzinfo is None:
            raise InputError(f"at is {moment}; it must have a time zone, such as UTC.")
        return moment - _instant(int(self.calibration_.period[1]))

    def _warn_if_stale(self) -> None:
        until = self.valid_until_
        if not self.warns_when_stale or until is None or self._warned or _now() <= until:
            return
        self._warned = True
        warnings.warn(
            f"This model was calibrated for the {self.window:g} days after "
            f"{day_of(int(self.calibration_.period[1]))}, and {self.age().days:,} have passed: "
            "its promise may not hold any more; call recalibrate with newer data.",
            StaleModelWarning,
            stacklevel=4,
        )


def _instant(time: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    except OverflowError:  # beyond the years that datetimes know
        return datetime.max.replace(tzinfo=UTC) if time > 0 else datetime.min.replace(tzinfo=UTC)


def _now() -> datetime:
    return datetime.now(UTC)
