"""Matrix factorisation as a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.measures._recipe import Recipe
from surerec.measures.als._factors import Factorisation
from surerec.measures.als._scorer import AlsScorer
from surerec.measures.als._settings import AlsSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.measures._scorer import Scorer
    from surerec.precedence import PrecedenceStatistics


class AlsRecipe(Recipe):
    """Matrix factorisation of who took what, by alternating least squares.

    It is trained again on newer data, unlike the learned measure's trees: factors belong to items,
    and an item that is new has none until then.

    Parameters
    ----------
    settings : AlsSettings, optional
        How to train.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> small = AlsRecipe(AlsSettings(factors=8))
    >>> sr.PopulationConformal(small).fit(films).default_name()
    'population-als'
    """

    name = "als"
    stored = "als"
    leaves_users_out = True

    def __init__(self, settings: AlsSettings | None = None) -> None:
        self.settings = settings or AlsSettings()

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Train on these statistics."""
        return AlsScorer(statistics, Factorisation.train(statistics, self.settings))

    def update(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,  # noqa: ARG002  # dealt anew
    ) -> Scorer:
        """Train again on newer statistics, as the factors of the scorer were trained."""
        assert isinstance(scorer, AlsScorer)  # noqa: S101  # as `fit` made it
        return AlsScorer(statistics, Factorisation.train(statistics, scorer.factors.settings))

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Read the factors back, so that opening a model trains nothing."""
        return AlsScorer(statistics, Factorisation.from_state(state, statistics))
