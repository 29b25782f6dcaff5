"""Steered by its own errors: a share of misses that goes to ε over any stream of events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from surerec._arguments import check_number
from surerec._shown import shown
from surerec.conformal._sets import TOLERANCE
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

DEFAULT_STEP: Final = 0.01
"""How far one error moves a cut, γ."""


@dataclass(frozen=True)
class Steering:
    """Cuts of sets, each moved after every event so that the share of misses goes to its ε.

    An item of level ℓ (the ε below which calibration lets it in) is in a set cut at α if ℓ > α. At
    α ≤ 0 everything is in it, at α ≥ 1 nothing. After each event ``α ← α + γ (ε − error)``:
    adaptive conformal inference (Gibbs and Candès, 2021), on the levels of a risk curve.

    Attributes
    ----------
    epsilons : tuple of float
        The shares of misses that are promised, ascending.
    cuts : tuple of float
        The α of each.
    errors : tuple of int
        How many events were outside the sets of each.
    n : int
        How many events there were.
    step : float
        γ.

    Notes
    -----
    Whatever happens, the share of misses over T events is within ``bound`` of ε, at most
    ``(1 + K γ) / (γ T)`` for K of them. Sets are nested: one cut is never above that of a larger ε
    (``cuts_nested``). While a cut is held down so, it errs as the larger ε does, and so falls
    behind it by γ (ε' − ε) with each event: it is above the next by γ at the most, which the bound
    has in it.

    Examples
    --------
    >>> steering = Steering.start([0.1, 0.2])
    >>> steering.cuts_nested, steering.holds(0.15)
    ((0.1, 0.2), (True, False))
    >>> after = steering.after(0.15)
    >>> [round(cut, 4) for cut in after.cuts], after.errors, after.n
    ([0.101, 0.192], (0, 1), 1)
    """

    epsilons: tuple[float, ...]
    cuts: tuple[float, ...]
    errors: tuple[int, ...]
    n: int = 0
    step: float = DEFAULT_STEP

    @classmethod
    def start(cls, epsilons: Sequence[float], *, step: float = DEFAULT_STEP) -> Self:
        """Begin with each cut at its ε, as calibration has it."""
        levels = sorted(
            check_number("significance", each, 0, 1, "between 0 and 1") for each in epsilons
        )
        if not levels or len(set(levels)) < len(levels):
            raise InputError(
                f"A live promise needs confidences, each once; {shown(list(epsilons))} are not."
            )
        check_number("step", step, 0, 1, "above 0, and 1 at the most", ends=(False, True))
        return cls(tuple(levels), tuple(levels), (0,) * len(levels), 0, float(step))

    @property
    def cuts_nested(self) -> tuple[float, ...]:
        """The cuts of the sets: none above that of a larger ε, so that sets are nested."""
        found = list(self.cuts)
        for place in range(len(found) - 2, -1, -1):
            found[place] = min(found[place], found[place + 1])
        return tuple(found)

    def holds(self, level: float) -> tuple[bool, ...]:
        """Tell for each ε whether an item of a level is in the set."""
        return tuple(is_inside(level, cut) for cut in self.cuts_nested)

    def nominal(self, levels: ArrayLike) -> NDArray[np.float64]:
        """Give levels as they would be if cuts were at their ε: an item is in a set if above it.

        Between the cuts it is a line, so that one answer serves every confidence.

        Examples
        --------
        >>> Steering((0.1, 0.2), (0.05, 0.3), (0, 0)).nominal([0.05, 0.1, 0.3, 1.0]).round(6)
        array([0.1 , 0.12, 0.2 , 1.  ])
        """
        cuts = np.array(self.cuts_nested)
        # Cuts that are held down to others are told apart by what no level is.
        cuts = cuts + TOLERANCE * np.arange(1, len(cuts) + 1)
        ends = min(0.0, cuts[0] - self.step), max(1.0, cuts[-1] + self.step)
        known, said = [ends[0], *cuts, ends[1]], [0.0, *self.epsilons, 1.0]
        given = np.asarray(levels, dtype=np.float64)
        return np.asarray(np.interp(given, known, said), dtype=np.float64)

    def after(self, level: float) -> Self:
        """Give what it is after an event whose item had this level."""
        held = self.holds(level)
        cuts = tuple(
            cut + self.step * (epsilon - (not inside))
            for cut, epsilon, inside in zip(self.cuts, self.epsilons, held, strict=True)
        )
        errors = tuple(n + (not inside) for n, inside in zip(self.errors, held, strict=True))
        return replace(self, cuts=cuts, errors=errors, n=self.n + 1)

    def delivered(self) -> tuple[float, ...]:
        """Give the share of misses so far for each ε; NaN before the first event."""
        return tuple(n / self.n if self.n else float("nan") for n in self.errors)

    def bound(self, place: int) -> float:
        """Give how far the share of misses can be from the ε at a place, whatever happened."""
        if not self.n:
            return 1.0
        epsilon, held_down = self.epsilons[place], len(self.epsilons) - 1 - place
        furthest = max(epsilon + self.step, 1 - epsilon + (1 + held_down) * self.step)
        return min(1.0, furthest / (self.step * self.n))

    def place_of(self, significance: float) -> int | None:
        """Give the place of an ε; None if it is not one of these."""
        for place, epsilon in enumerate(self.epsilons):
            if abs(epsilon - significance) <= TOLERANCE:
                return place
        return None

    def to_state(self) -> dict[str, Any]:
        """Give all of it in a form that JSON holds."""
        return {
            "epsilons": list(self.epsilons),
            "cuts": list(self.cuts),
            "errors": list(self.errors),
            "n": self.n,
            "step": self.step,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back; KeyError, TypeError or ValueError if it is something else."""
        lists = {name: tuple(state[name]) for name in ("epsilons", "cuts", "errors")}
        if len({len(each) for each in lists.values()}) != 1:
            raise ValueError("its cuts are not those of its confidences")
        return cls(**lists, n=int(state["n"]), step=float(state["step"]))


def is_inside(level: float, cut: float) -> bool:
    """Tell whether an item of a level is in the set that is cut there.

    Examples
    --------
    >>> is_inside(0.0, -0.001), is_inside(0.2, 0.2), is_inside(1.0, 1.0)
    (True, False, False)
    """
    return cut <= 0 or level > cut + TOLERANCE
