"""A list of fixed length, and how likely it is to please."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Slate"]


@dataclass(frozen=True)
class Slate:
    """The k best items for one person, with the probability of at least one hit.

    Attributes
    ----------
    items : list
        The ids, best first.
    probability : float
        Calibrated: of people with this probability, about that share finds a hit.
    low, high : float
        The two Venn–Abers probabilities, of which one is calibrated whatever the data.
    guarantee : str
        What that means, in words, with its assumption.
    """

    items: list[Any]
    probability: float
    low: float
    high: float
    guarantee: str

    def worth_serving(self, at_least: float) -> bool:
        """Tell whether a hit is likely enough.

        Examples
        --------
        >>> Slate([50, 181], 0.62, 0.6, 0.63, "").worth_serving(0.5)
        True
        """
        return self.probability >= at_least
