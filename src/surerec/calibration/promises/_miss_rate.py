"""The miss rate: how much of what people take next is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.calibration.promises._promise import Promise
from surerec.conformal import RiskCurve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MissRate(Promise):
    """Of what people take next, on average at most a share ε is left out.

    Examples
    --------
    >>> MissRate().sentence(0.1, "the next 5 items", "people")
    'Of the next 5 items, at most 10% is left out on average over people'
    """

    name = "miss-rate"
    prefix = "population"
    horizon = 0.4
    kind = "miss"
    guarantees = "recall"
    by_group = True
    audited = ("rank", "score")

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Lose an equal share with each future item that is left out."""
        return RiskCurve.of_shares(entries, owners, n_users)

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say it; see :class:`Promise`."""
        return (
            f"Of {future}, at most {100 * significance:.4g}% is left out on average over {people}"
        )

    def unknown(self, loss: float, lacking: str) -> str:
        """Describe what no set holds; see :class:`Promise`.

        Examples
        --------
        >>> MissRate().unknown(0.12, "unknown to the model")
        'on average over calibration users, 12.0% of what a user consumed next was unknown to the
        model'
        """
        return (
            f"on average over calibration users, {loss:.1%} of what a user consumed next was "
            f"{lacking}"
        )

    def headline(self, confidence: float) -> str:
        """Give a few words for people."""
        return f"keeps {confidence:.0%} of items new to the user that they will consume"

    def title(self, future: str) -> str:  # noqa: ARG002  # the same for every future
        """Give a few words for reports."""
        return "miss rate"
