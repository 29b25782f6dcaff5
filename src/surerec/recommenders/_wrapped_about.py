"""What a calibration of somebody's model says: about whom, and about which future."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, get_args

from surerec._calendar import DAY, day_of
from surerec.calibration import NEW_ITEMS, Cut, Newcomers, Nobody, OfTheFit, next_items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec.calibration import Horizon, UserCoverage
    from surerec.interactions import Interactions

Covers = Literal["fit", "newcomers"]


@dataclass(frozen=True)
class About:
    """What a folder keeps of a calibration of somebody's model beside arrays."""

    covers: Covers
    cut: Cut
    future: str = ""
    """About which future it speaks, in words."""
    assumes: str = ""
    set_aside: bool = False
    nobody: str = ""
    """Why nobody is promised anything; empty if somebody is."""
    knows_all: bool = False
    """Whether every item of the catalogue is ranked, not only what somebody consumed."""

    def coverage(self, in_fit: NDArray[np.bool_], people: str) -> UserCoverage:
        """Give whom the promise covers; `people` says who was in the fit."""
        if self.nobody:
            return Nobody(self.nobody, of_the_fit=self.covers == "fit")
        if self.covers == "fit":
            return OfTheFit(in_fit, self.set_aside, self.assumes, people)
        return Newcomers(in_fit, self.assumes)

    def to_text(self) -> str:
        """Give it as a model folder keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> About:
        """Read it back; ValueError if it is no such text."""
        given = json.loads(text)
        fields = {name: type(field.default) for name, field in cls.__dataclass_fields__.items()}
        types = {**fields, "covers": str, "cut": str}
        if not isinstance(given, dict) or {k: type(v) for k, v in given.items()} != types:
            raise ValueError("it does not say what is covered")
        found = cls(**given)
        if found.covers not in get_args(Covers) or found.cut not in get_args(Cut):
            raise ValueError(found.covers)
        return found


def days_from(begin: int, days: float, horizon: Horizon) -> str:
    """Say which days the future is, from an instant in microseconds since 1970 on."""
    span = f"the {days:.4g} days from {day_of(begin)} on"
    if isinstance(horizon, float):
        return f"{NEW_ITEMS} in {span}"
    return f"{next_items(horizon)} in {span}"


def what_follows(past: Interactions, future: Interactions, horizon: Horizon) -> str:
    """Say which future it is: of some days, if everybody's begins after everybody's past."""
    begin, end = int(future.times.min()), int(future.times.max()) + 1
    if begin >= int(past.times.max()) and end - begin >= DAY:
        return days_from(begin, round((end - begin) / DAY), horizon)
    return f"{NEW_ITEMS} next" if isinstance(horizon, float) else ""
