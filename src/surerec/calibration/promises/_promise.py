"""The third seam: what a promise is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec.conformal import RiskCurve
    from surerec.futures import Horizon

Cut: TypeAlias = Literal["rank", "score"]
"""Where sets are cut: at the same rank for everyone, or at the same share of a person's scores."""


class Promise(ABC):
    """What is promised to people of the calibration users' kind, at a confidence of 1 − ε.

    A new one is a class like this in a file of its own, and a row in
    :data:`surerec.calibration.PROMISES`.

    Attributes
    ----------
    name : str
        As the parameter ``promise`` of :class:`surerec.PopulationConformal`, and model folders,
        have it.
    prefix : str
        What the names of recommenders begin with.
    horizon : float or int
        The future that it is about where nothing else is said: a share of the profile, or a number
        of next items.
    monotone : bool
        Whether a person's loss never grows as the set does, which risk control needs.
    tested : bool
        Whether it is a precision, which is asked for by its level and tested over served people.
    kind : str
        What audits call it in their tables.
    audited : tuple of {"rank", "score"}
        The cuts with which an audit measures it.
    by_group : bool
        Whether an audit also looks at groups of people, and at a threshold for each.
    """

    name: str
    prefix: str
    horizon: ClassVar[Horizon]
    monotone: ClassVar[bool] = True
    tested: ClassVar[bool] = False
    kind: str
    audited: ClassVar[tuple[Cut, ...]] = ("rank",)
    by_group: ClassVar[bool] = False

    @abstractmethod
    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Give what calibration users lose as sets grow.

        Parameters
        ----------
        entries : array of float
            For each future item the cut that lets it in; infinite where none does.
        owners : array of int
            Whose it is, ``0 … n_users − 1``; everybody has at least one.
        n_users : int
            How many users there are.
        """

    @abstractmethod
    def sentence(self, significance: float, future: str, people: str) -> str:
        """Say what is promised, without the assumption and without a full stop.

        Parameters
        ----------
        significance : float
            ε.
        future : str
            The future in words, such as "the next 5 items new to the user".
        people : str
            Whom it is about.
        """

    @abstractmethod
    def title(self, future: str) -> str:
        """Give a few words for the reports of audits, such as "miss rate"."""

    def unknown(self, loss: float, lacking: str) -> str:
        """Describe the loss that remains with every known item in the set, as a clause.

        Parameters
        ----------
        loss : float
            Mean over calibration users.
        lacking : str
            Why no set holds some items, such as "unknown to the model".
        """
        return (
            f"calibration users lose {loss:.1%} on average whatever the set, as some of what they "
            f"consumed next was {lacking}"
        )

    @property
    def guarantees(self) -> str:
        """The kind of :class:`surerec.Guarantee`: by default the name."""
        return self.name

    def headline(self, confidence: float) -> str:
        """Give a few words for people who choose among promises, without the assumption."""
        return f"{self.name} at {confidence:.0%}, of items new to the user"
