"""How a matrix factorisation is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from surerec._checks import check_whole
from surerec.errors import InputError


@dataclass(frozen=True)
class AlsSettings:
    """How many factors, how they are held back, and how they are trained.

    The defaults were chosen on half of MovieLens 100K's users (docs/als.md).

    Examples
    --------
    >>> AlsSettings(factors=32).alpha
    5.0
    """

    factors: int = 64
    """Numbers that describe an item, or a person."""
    regularization: float = 30.0
    """What holds them back: λ of a ridge regression, the same for each person and item."""
    alpha: float = 5.0
    """What was taken counts 1 + α times as much as what was not."""
    iterations: int = 15
    """How often the factors of people and items are solved for, in turn."""
    folds: int = 5
    """Into how many folds users are dealt; each costs a training."""
    seed: int = 0
    """The same seed on the same profiles gives the same factors."""

    def __post_init__(self) -> None:
        for name, lowest in (("factors", 1), ("iterations", 1), ("folds", 2), ("seed", 0)):
            check_whole(name, getattr(self, name), lowest=lowest)
        _check_number("regularization", self.regularization, above=True)
        _check_number("alpha", self.alpha, above=False)


def _check_number(name: str, value: object, *, above: bool) -> None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else -1.0
    if not math.isfinite(number) or number < 0 or (above and number == 0):
        least = "above 0" if above else "of at least 0"
        raise InputError(f"{name} is {value!r}; it must be a number {least}.")
