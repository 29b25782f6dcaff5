"""What user-level guarantees say: of which future, to whom, and by which calibration users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from surerec._calendar import day_of
from surerec.calibration._guarantee import NEW_ITEMS, Guarantee

if TYPE_CHECKING:
    from surerec.calibration._coverage import Coverage
    from surerec.calibration._listed import NamedItems
    from surerec.futures import Horizon

_EXCHANGEABLE: Final = (
    "Assumes users exchangeable with the {n} calibration users ({period}) and no drift since."
)


def next_items(n: int) -> str:
    """Return a horizon of n items in words.

    Examples
    --------
    >>> next_items(1), next_items(5)
    ('the next item new to the user', 'the next 5 items new to the user')
    """
    return "the next item new to the user" if n == 1 else f"the next {n} items new to the user"


@dataclass(frozen=True)
class Terms:
    """What all guarantees of a user-level calibration say; the fields are the calibration's."""

    horizon: Horizon
    window: float | None
    period: tuple[int, int]
    coverage: Coverage
    about: str
    listed: NamedItems | None

    @property
    def future(self) -> str:
        """The future that a guarantee covers."""
        future = self.about or self._by_horizon()
        if self.listed is None:
            return future
        return f"the items of the list {self.listed.name!r} in {future}"

    def _by_horizon(self) -> str:
        if isinstance(self.horizon, float):
            if self.window is None:
                return f"the last {self.horizon:.0%} of {NEW_ITEMS}"
            return f"{NEW_ITEMS} in the next {self.window:g} days"
        within = "" if self.window is None else f" within {self.window:g} days"
        return f"{next_items(self.horizon)}{within}"

    def users(self, segment: str = "") -> str:
        """Return who is covered."""
        users = self.coverage.people + (f" with {segment}" if segment else "")
        if self.listed is None:
            return users
        n = len(self.listed.codes)
        return f"{users} who consume at least one of the {n:,} items of the list"

    def guarantee(self, n_users: int, *, alike: str = _EXCHANGEABLE, **fields: Any) -> Guarantee:
        """Return a guarantee by so many calibration users, with its assumptions.

        `alike` says what it assumes of users; the other fields are given.
        """
        begin, end = map(day_of, self.period)
        also, by_profile = self.coverage.assumes, self.window is None and not self.about
        return Guarantee(
            horizon=self.future, n_calibration=n_users, period=(begin, end), **fields
        ).assuming(
            alike.format(n=f"{n_users:,}", period=f"{begin} to {end}"),
            f"Assumes that {also}." if also else "",
            # Each user is split at a moment of their own: counts know what follows it.
            "The scores also used later interactions of other users." if by_profile else "",
        )

    def about_probabilities(self, n_users: int) -> str:
        """Return what the probability of an item means."""
        begin, end = map(day_of, self.period)
        also = f", and if {self.coverage.assumes}" if self.coverage.assumes else ""
        return (
            f"The chance that the item is among {self.future}, over {self.users()}: measured, not "
            f"proven, on {n_users:,} calibration users ({begin} to {end}){also}. Of items of such "
            "a rank, score and length of history about that share was taken; the interval is a "
            "95% confidence interval of that share, over the draw of calibration users."
        )
