"""The future that trees are trained for: that of the promise they are to serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._calendar import DAY
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions


@dataclass(frozen=True)
class TrainedFuture:
    """A share of the profile, a number of next items, or the days of a window.

    Examples
    --------
    >>> times = np.array([0, 1, 2, 3, 10, 11]) * DAY
    >>> TrainedFuture(0.4).longest_past(times), TrainedFuture(2).longest_past(times)
    (4, 4)
    >>> [TrainedFuture(0.4).stop(times, length) for length in (1, 3, 4)]
    [2, 5, 6]
    >>> window = TrainedFuture(0.4, window=3)
    >>> window.longest_past(times), window.stop(times, 1)
    (4, 4)
    """

    horizon: float | int = 0.4
    window: float | None = None

    def __post_init__(self) -> None:
        share = isinstance(self.horizon, (float, np.floating)) and 0 < self.horizon < 1
        whole = isinstance(self.horizon, (int, np.integer)) and self.horizon > 0
        if isinstance(self.horizon, bool) or not (share or whole):
            raise InputError(
                f"horizon is {self.horizon!r}; it must be between 0 and 1, or a whole number of "
                "next items."
            )

    @property
    def is_share(self) -> bool:
        """Whether the future is the rest of the profile."""
        return self.window is None and isinstance(self.horizon, (float, np.floating))

    def longest_past(self, times: NDArray[np.int64]) -> int:
        """Give how much of a profile is known if the future goes to its end; one item at least."""
        n_items = len(times)
        if self.window is not None:
            past = int(np.searchsorted(times, times[-1] - int(self.window * DAY), side="right"))
        elif self.is_share:
            past = round((1 - self.horizon) * n_items)
        else:
            past = n_items - int(self.horizon)
        return min(max(past, 1), n_items - 1)

    def stop(self, times: NDArray[np.int64], length: int) -> int:
        """Give where the future ends that begins after so many items.

        A window begins with the next item: whoever took nothing in it has no future there. The
        future of a share is ``horizon / (1 − horizon)`` of what is known, as it is where the
        promise is made: all that follows a short past would teach what comes in the end.
        """
        stop = len(times)
        if self.is_share and length < self.longest_past(times):
            stop = min(stop, length + round(length * self.horizon / (1 - self.horizon)))
        if self.window is not None:
            end = int(times[length]) + int(self.window * DAY)
            stop = int(np.searchsorted(times, end, side="left"))
        if isinstance(self.horizon, (int, np.integer)):
            stop = min(stop, length + int(self.horizon))
        return max(stop, length + 1)

    def mean_length(self, interactions: Interactions, users: NDArray[np.int64]) -> float:
        """Give how many items a future has on average, over those of the users who have one."""
        if self.window is None and not self.is_share:
            return float(self.horizon)
        lengths = []
        for user in users[np.diff(interactions.offsets)[users] > 1]:
            times = interactions.times_of(int(user))
            past = self.longest_past(times)
            lengths.append(self.stop(times, past) - past)
        return float(np.mean(lengths)) if lengths else 1.0
