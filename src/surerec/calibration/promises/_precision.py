"""The precision: how much of what is shown is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.calibration.promises._promise import Promise
from surerec.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec.conformal import RiskCurve


class Precision(Promise):
    """Of what is shown to a person who is shown anything, on average a stated share is taken.

    A loss that may grow with the list, so that it is tested, not controlled: see
    :class:`surerec.conformal.ServedPrecision`.

    Examples
    --------
    >>> Precision().sentence(0.6, "the next 5 items", "people")
    'Of what is shown, at least 40% is among the next 5 items on average over people who
    are shown anything'
    """

    name = "precision"
    prefix = "precision"
    horizon = 0.4
    kind = "precision"
    monotone = False
    tested = True

    def curve(
        self,
        entries: NDArray[np.float64],  # noqa: ARG002
        owners: NDArray[np.int64],  # noqa: ARG002
        n_users: int,  # noqa: ARG002
    ) -> RiskCurve:
        """Refuse: what is not taken of a list may grow with it."""
        raise InputError(
            "The promise 'precision' has no risk curve: a person's loss may grow with the list."
        )

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say it; see :class:`Promise`."""
        return (
            f"Of what is shown, at least {100 * (1 - significance):.4g}% is among {future} on "
            f"average over {people} who are shown anything"
        )

    def headline(self, confidence: float) -> str:  # noqa: ARG002  # its level is a precision
        """Give a few words for people."""
        return "shows few items new to the user, of which a stated share is consumed"

    def title(self, future: str) -> str:  # noqa: ARG002  # the same for every future
        """Give a few words for reports."""
        return "precision"
