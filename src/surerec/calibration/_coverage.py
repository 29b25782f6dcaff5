"""Who is covered by a user-level guarantee: users who are treated as the calibration users were."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surerec.calibration._calibration import seen_before

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec.measures import Query, Scorer


class Coverage(ABC):
    """Says of whom the calibration users speak, and why it says nothing about somebody else.

    Attributes
    ----------
    people : str
        Whom the promise is about, in the words of its sentence.
    assumes : str
        What it assumes beside exchangeable people, in words; empty if nothing.
    of_the_fit : bool
        Whether the calibration users are among those the model was fitted on.
    """

    people: str = "users"
    assumes: str = ""
    of_the_fit: bool = False

    @abstractmethod
    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Say why somebody is not covered; empty if they are.

        Parameters
        ----------
        scorer : Scorer
            What scores them.
        query : Query
            Who asks.
        place : int or None
            Which of the calibration users it is, if any.
        """


@dataclass(frozen=True)
class LeftOut(Coverage):
    """Everybody who can be left out of what scores them; else those who were held out of the fit.

    Parameters
    ----------
    held_out : bool
        Whether the calibration users had no part in what the scorer learned when it was calibrated,
        if it cannot leave users out: else it knew their futures, and nobody is promised anything.
    apart : bool
        Whether they still have none in the scorer that serves, which may have been fitted since.
    """

    held_out: bool
    apart: bool = True

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Ask what the scorer declares."""
        if scorer.leaves_users_out is False and not self.held_out:
            return (
                f"{scorer.called} comes fitted and users cannot be left out of it, so it "
                "may have learned from the futures that calibrate it"
            )
        seen = seen_before(scorer, query)
        is_apart = self.apart and place is not None and scorer.leaves_users_out is False
        return "" if is_apart else seen


@dataclass(frozen=True)
class OfTheFit(Coverage):
    """People whom the model was fitted on, as the calibration users were.

    Parameters
    ----------
    in_fit : array of bool
        Of each user, by code, whether they were in the fit.
    set_aside : bool
        Whether calibration users' last items are known now, and were kept out of the fit.
    assumes : str
        What else is assumed.
    """

    in_fit: NDArray[np.bool_]
    set_aside: bool = False
    assumes: str = ""
    people: str = "users of the fit"
    of_the_fit: bool = True

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Look for them in the fit."""
        if query.user is None or not self.in_fit[query.user]:
            return (
                f"{scorer.name} was not fitted on this user, as it was on those who calibrated it"
            )
        if place is not None and self.set_aside:
            return "the last items of this user were set aside to calibrate, and are not in the fit"
        return ""


@dataclass(frozen=True)
class Newcomers(Coverage):
    """People whom the model was not fitted on, as the calibration users were not.

    Parameters
    ----------
    in_fit : array of bool
        Of each user, by code, whether they were in the fit.
    assumes : str
        What else is assumed.
    """

    in_fit: NDArray[np.bool_]
    assumes: str = ""
    people: str = "users whom the model was not fitted on"

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:  # noqa: ARG002
        """Look for them in the fit."""
        if query.user is not None and self.in_fit[query.user]:
            return (
                f"{scorer.name} was fitted on this user, as it was not on those who calibrated it"
            )
        return ""


@dataclass(frozen=True)
class Nobody(Coverage):
    """Nobody, for one reason.

    Parameters
    ----------
    reason : str
        Why, in words.
    of_the_fit : bool
        Whether the calibration users are among those the model was fitted on.
    """

    reason: str
    of_the_fit: bool = False

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:  # noqa: ARG002
        """Give the reason."""
        return self.reason
