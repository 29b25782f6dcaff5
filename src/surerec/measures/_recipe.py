"""A recipe is fitted on statistics, and gives a scorer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from surerec._shown import declared_name, public_name
from surerec.measures._scorer import UNNAMED, Scorer, as_scorer, declared
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics, Ties


class Recipe(ABC):
    """How a scorer is made, again and again: on all data, or on the past of some moment.

    Attributes
    ----------
    learns : bool
        Whether fitting it learns anything, and so takes time; a formula learns nothing.
    refits : bool
        Whether it can be fitted on other statistics; what comes fitted cannot.
    leaves_users_out : bool or None
        What its scorers say of themselves (see :class:`Scorer`), if that is known before one is
        made.
    stored : str or None
        How a model folder names it; None if it must be given again at loading.
    grows : bool
        Whether its scorers answer from counts that grow with events, without being fitted again.
    stays : str
        What they know beside counts, which stays as it was fitted, in words; empty for nothing.
    """

    learns: bool = True
    refits: bool = True
    leaves_users_out: bool | None = None
    stored: str | None = None
    grows: bool = False
    stays: str = ""

    @property
    @abstractmethod
    def name(self) -> str:
        """What reports and names of recommenders call it, such as "CM12"."""

    @property
    def title(self) -> str:
        """What sentences call it; by default its name."""
        return self.name

    @property
    def short_name(self) -> str:
        """What follows "icrs" in a recommender's name."""
        return f"-{self.name}"

    def count(self, interactions: Interactions, ties: Ties = "order") -> PrecedenceStatistics:
        """Give the statistics that it is fitted on: by default all precedence is counted."""
        return count_precedence(interactions, ties=ties)

    @abstractmethod
    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Make a scorer from what these statistics know, and nothing else."""

    def update(
        self,
        scorer: Scorer,  # noqa: ARG002
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,  # noqa: ARG002
    ) -> Scorer:
        """Give a fitted scorer on newer statistics; by default by fitting again.

        Parameters
        ----------
        scorer : Scorer
            What this recipe made of earlier statistics.
        statistics : PrecedenceStatistics
            The newer ones.
        earlier_users : array of int, optional
            For each of their users the code in the earlier ones, −1 for somebody new; by default
            codes are the same.
        """
        return self.fit(statistics)

    def grown(self, scorer: Scorer, statistics: PrecedenceStatistics) -> Scorer:  # noqa: ARG002
        """Give a fitted scorer on newer counts under the same codes; what it learned stays.

        Parameters
        ----------
        scorer : Scorer
            What this recipe made of earlier statistics.
        statistics : PrecedenceStatistics
            The newer ones.
        """
        return self.fit(statistics)

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Return the scorer that was saved; KeyError or ValueError if this is not its state.

        By default nothing is saved, and it is fitted again. A state comes from a file: kernels
        must not trust its shapes and indices.
        """
        state.require_empty(self.title)
        return self.fit(statistics)


class OwnRecipe(Recipe):
    """Something of somebody's own: a fitted scorer, or what makes one from statistics.

    Parameters
    ----------
    given : object
        What has ``score``, what has ``fit(statistics)``, or a function of statistics that gives
        what has ``score``.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self._fit: Callable[[PrecedenceStatistics], Any] | None = None
        if isinstance(given, type) or not hasattr(given, "score"):
            self._fit = given if isinstance(given, type) else getattr(given, "fit", given)
        self.refits = self._fit is not None
        self.leaves_users_out = declared(given, "leaves_users_out")
        self.learns = self.refits

    @property
    def name(self) -> str:
        """The title as a folder can hold it; "own" without one."""
        named = "" if self.title == UNNAMED else self.title
        return re.sub(r"[^A-Za-z0-9._-]", "", named.replace(" ", "-")) or "own"

    @property
    def title(self) -> str:
        """What it declares, or the name of its public class or function, else "your scorer"."""
        return declared_name(self.given) or public_name(self.given) or UNNAMED

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Ask it for a scorer of these statistics, or take it as it comes."""
        made = self.given if self._fit is None else self._fit(statistics)
        return as_scorer(made, statistics.n_items, name=declared_name(self.given))

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Return what its ``from_state(statistics, state)`` makes, or take it as it comes."""
        restore = getattr(self.given, "from_state", None)
        if restore is None or state.is_empty:
            return self.fit(statistics)
        return as_scorer(restore(statistics, state), statistics.n_items)
