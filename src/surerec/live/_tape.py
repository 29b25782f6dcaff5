"""What is written down as history is played, and what calibrates from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec.conformal import RiskCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST: Final = 100
"""Events that calibrate."""


@dataclass
class Tape:
    """What is written down of judged events."""

    times: list[int] = field(default_factory=list)
    outside: list[Any] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)
    n_candidates: list[int] = field(default_factory=list)
    watched: list[bool] = field(default_factory=list)
    usual: list[Any] = field(default_factory=list)
    user_days: list[int] = field(default_factory=list)
    """Which user and day each event is of."""
    entries: list[float] = field(default_factory=list)
    """Of the renewed counts, those from before the beginning included."""
    entered: list[int] = field(default_factory=list)
    """When."""
    entered_by: list[int] = field(default_factory=list)
    """Which user and day each of those is of."""
    first_of_day: list[bool] = field(default_factory=list)
    """Which of those would have been watched."""

    def calibrated(self, since: int, epsilons: Sequence[float]) -> Calibrated | None:
        """Calibrate on the events since a time, with each user and day counted once."""
        first = int(np.searchsorted(self.entered, since))
        entries, n = np.array(self.entries[first:]), len(self.entries) - first
        if n < FEWEST:
            return None
        _, owners, sizes = np.unique(
            self.entered_by[first:], return_inverse=True, return_counts=True
        )
        curve = RiskCurve(entries, 1 / sizes[owners], owners, len(sizes))
        cuts = tuple(cut_of(curve, epsilon) for epsilon in epsilons)
        watched = entries[np.array(self.first_of_day[first:], dtype=bool)]
        usual = tuple((int((watched > cut).sum()), len(watched)) for cut in cuts)
        return Calibrated(curve, cuts, usual)


class Calibrated(NamedTuple):
    """What the events of a window say."""

    curve: RiskCurve
    cuts: tuple[float, ...]
    """For each ε."""
    usual: tuple[tuple[int, int], ...]
    """For each ε, the errors among a person's first events of a day, and how many there are."""


def cut_of(curve: RiskCurve, cut: float) -> float:
    """Give the largest entry that is in a set cut at α."""
    if cut <= 0 or cut >= 1:
        return np.inf if cut <= 0 else -np.inf
    return curve.cut(cut)
