"""A fitted model over counts that grow: what it knows of everybody at this moment."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec.calibration import UserCalibration, find_promise
from surerec.errors import InputError
from surerec.live._ledger import (
    JUDGED,
    LATE,
    NEW_ITEM,
    REPEAT,
    TOO_LITTLE,
    is_first_of_day,
)
from surerec.measures import Query
from surerec.precedence import GrowingStatistics
from surerec.recommenders import PopulationConformal

if TYPE_CHECKING:
    from surerec.recommenders import Recommender

_KNOWN: Final = ((10, "people with fewer than 10 known items"), (30, "people with 10 to 29"))
_MANY: Final = "people with 30 or more"
_POPULAR: Final = 10  # one item in so many is popular


def check_can_live(model: Recommender) -> PopulationConformal:
    """Give the model, or say why it cannot take events in."""
    if not isinstance(model, PopulationConformal):
        raise InputError(
            f"A live model needs sets calibrated over users, and this is {type(model).__name__}: "
            "fit PopulationConformal, on the command line --recommender population-cm12."
        )
    if not find_promise(model.promise).monotone:
        raise InputError(
            f"The promise {find_promise(model.promise).name!r} cannot be kept live: fit "
            "miss-rate or hit."
        )
    recipe = model.recipe()
    if not (recipe.grows and recipe.refits):
        raise InputError(
            f"The measure {recipe.name} does not grow with events: fit one of the paper's, such as "
            "CM12, or the learned one, and renew this one by `surerec recalibrate`."
        )
    if not isinstance(model.groups, int):
        raise InputError(
            "Groups by a column of people's own are not kept live: fit with a number of groups."
        )
    return model


class Verdict(NamedTuple):
    """What an event says of the model before it is taken in."""

    reason: str
    """"judged", or why it is not."""
    level: float = float("nan")
    """The ε below which calibration lets in what was taken."""
    groups: tuple[str, ...] = ()
    """Of people and items that it counts for."""
    watched: bool = False
    """Whether it is the person's first event of a day."""


class Served:
    """A fitted model that takes events in.

    Parameters
    ----------
    model : PopulationConformal
        As it was loaded; it stays as it is.
    """

    def __init__(self, model: PopulationConformal) -> None:
        self.counts = GrowingStatistics(model.statistics_)
        made = PopulationConformal(**model.get_params())
        self.recommender = made.restore(self.counts, model.to_spec().state).named(model.name_)

    @property
    def profiles(self) -> Any:
        """Everybody's, as they are now."""
        return self.counts.interactions

    def check(self, user: Any, item: Any) -> tuple[str, str]:
        """Give the ids of an event as they are stored, or refuse them."""
        return str(self.profiles.users.check(user)), str(self.profiles.items.check(item))

    def is_new(self, item: str) -> bool:
        """Return whether the model has no such item yet."""
        return bool(self.profiles.items.find(item) < 0)

    def add(self, user: str, item: str, time: int) -> None:
        """Take an event in."""
        self.counts.add(user, item, time)

    def forget(self, user: str) -> tuple[int, bool]:
        """Know a user no more; tell how many items they had, and whether they calibrated."""
        code = self.profiles.users.code(user)
        n_items = len(self.profiles.taken(code))
        model = self.recommender.model_
        calibrated, calibration = model.calibrates(code), model.calibration
        self.counts.forget(user)
        if calibrated and isinstance(calibration, UserCalibration):
            # Of what else was made with them, nothing is kept either: no probabilities, no lists.
            others = calibration.users.without(calibration.users.place_of(code))
            kept = replace(calibration, users=others, chances=None)
            groups = self.recommender.group_model(self.recommender.model_.calibration)
            self.recommender = copy(self.recommender)
            self.recommender.model_ = replace(model, calibration=kept, item_lists={}, groups=groups)
        return n_items, calibrated

    def judge(self, user: str, item: str, time: int) -> Verdict:
        """Compare an event with what the person would have been given."""
        who, what = self.profiles.users.find(user), self.profiles.items.find(item)
        known = who >= 0
        taken = self.profiles.taken(who) if known else np.empty(0, dtype=np.uint32)
        if what >= 0 and (taken == what).any():
            return Verdict(REPEAT)
        if len(taken) and time < self.profiles.times_of(who)[-1]:
            return Verdict(LATE)
        if what < 0 or not self.counts.support[what]:
            return Verdict(NEW_ITEM)
        if len(taken) < self.recommender.min_known:
            return Verdict(TOO_LITTLE)
        level = self.recommender.model_.level(Query.of_user(self.profiles, who), what)
        popular = self.counts.popularity[what] * _POPULAR < self.counts.n_items
        people = next((words for below, words in _KNOWN if len(taken) < below), _MANY)
        groups = (people, "popular items" if popular else "other items")
        watched = is_first_of_day(int(self.profiles.times_of(who)[-1]), time)
        return Verdict(JUDGED, level, groups, watched)
