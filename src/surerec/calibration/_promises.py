"""The kinds of user-level guarantees, as a table: what a user loses as the set grows, in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from surerec._arguments import check_choice
from surerec.conformal import RiskCurve
from surerec.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec.futures import Horizon

Cut: TypeAlias = Literal["rank", "score"]
"""Where sets are cut: at the same rank for everyone, or at the same share of a person's scores."""


class Promise(ABC):
    """What is promised to people of the calibration users' kind, at a confidence of 1 − ε.

    A new one is a class like this in this file, and a row in :data:`surerec.calibration.PROMISES`.

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

    def curve(
        self,
        entries: NDArray[np.float64],  # noqa: ARG002
        owners: NDArray[np.int64],  # noqa: ARG002
        n_users: int,  # noqa: ARG002
    ) -> RiskCurve:
        """Return what calibration users lose as sets grow; what is tested has no such curve.

        Parameters
        ----------
        entries : array of float
            For each future item the cut that lets it in; infinite where none does.
        owners : array of int
            Whose it is, ``0 … n_users − 1``; everybody has at least one.
        n_users : int
            How many users there are.
        """
        raise InputError(f"The promise {self.name!r} has no risk curve.")

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


PROMISES: dict[str, Promise] = {
    promise.name: promise for promise in (MissRate(), Hit(), Precision())
}
"""The promises by name; a row more is a promise more, everywhere."""


def find_promise(promise: str | Promise) -> Promise:
    """Look a promise up by name, or take it as it is.

    Examples
    --------
    >>> find_promise("hit").horizon
    5
    """
    if isinstance(promise, Promise):
        return promise
    return PROMISES[check_choice("promise", promise, PROMISES)]
