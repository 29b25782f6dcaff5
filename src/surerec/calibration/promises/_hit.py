"""The hit: at least one of what people take next is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.calibration.promises._promise import Promise
from surerec.conformal import RiskCurve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Hit(Promise):
    """With probability at least 1 − ε one of the next items is in the set.

    Examples
    --------
    >>> Hit().sentence(0.1, "the next 5 items", "people")
    'At least one of the next 5 items is in this set with probability at least 0.9, over people'
    """

    name = "hit"
    prefix = "hit"
    horizon = 5
    kind = "hit"

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Lose all as long as no future item is let in."""
        return RiskCurve.of_first(entries, owners, n_users)

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say it; see :class:`Promise`."""
        return (
            f"At least one of {future} is in this set with probability at least "
            f"{1 - significance:.4g}, over {people}"
        )

    def unknown(self, loss: float, lacking: str) -> str:
        """Describe what no set holds; see :class:`Promise`.

        Examples
        --------
        >>> Hit().unknown(0.12, "unknown to the model")
        'for 12.0% of calibration users all that they consumed next was unknown to the model'
        """
        return f"for {loss:.1%} of calibration users all that they consumed next was {lacking}"

    def headline(self, confidence: float) -> str:
        """Give a few words for people."""
        return f"has at least one hit among items new to the user, for {confidence:.0%} of users"

    def title(self, future: str) -> str:
        """Give a few words for reports."""
        return f"hit in the {future}"
