"""The inductive conformal recommender system, ICRS1 … ICRS17."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from surerec._arguments import check_flag, check_seed
from surerec._checks import check_whole
from surerec.calibration import ItemCalibration, check_share
from surerec.conformal import DEFAULT_CONFIDENCE, MERGERS
from surerec.measures import as_recipe
from surerec.recommenders._base import Recommender
from surerec.recommenders._measured import stored_measure
from surerec.together import MergedPValues, check_leaves_out, find_merger

if TYPE_CHECKING:
    from surerec.calibration import Calibration
    from surerec.measures import Recipe, RecipeLike
    from surerec.precedence import PrecedenceStatistics


class InductiveConformal(Recommender):
    """Recommendation sets by inductive conformal prediction (paper, section 5).

    The known profile is split in time order into proper training items T and calibration items C.
    A measure says how well each calibration item and each candidate fits T; the p-value of a
    candidate is the share of calibration items, itself included, that fit no better. The set at
    confidence 1 − ε holds the candidates with p > ε.

    Parameters
    ----------
    measure : str or object, default="CM12"
        One of the 17 measures, such as "CM3", "ICRS3" or "median-count"; ``surerec measures`` lists
        them. Or "learned": trees trained when it is fitted (docs/learned.md), which needs the extra
        ``surerec[learn]``; or "als": matrix factorisation (docs/als.md), which needs
        ``surerec[als]``. Or anything that :func:`surerec.measures.as_recipe` takes: a scorer of
        your own, or a function that makes one from statistics.
    top : int, default=1
        For CM1: how many of the largest factors are multiplied.
    literal : bool, default=False
        For CM6–9: read the paper's formula, not its text.
    train_share : float, default=0.5
        The share of the known profile that is training; the rest calibrates.
    smoothed : bool, default=False
        Break ties in p-values at random. Sets are smaller, and p-values exactly uniform where items
        are exchangeable.
    seed : int, default=0
        Of the random numbers for that: the same for the same user and item, always. And of the
        training of a measure that is trained.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Attributes
    ----------
    scorer_ : Scorer
        What the measure became on these data; ``scorer_.learned`` of a learned one,
        ``scorer_.factors`` of "als".

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> model = sr.InductiveConformal(measure="CM12").fit(films)
    >>> picks = model.recommend(user=7, confidence=0.8)
    >>> picks.to_frame().columns
    ['item_id', 'rank', 'score', 'p_value', 'entry_confidence', 'title']
    >>> len(picks) <= len(model.recommend(user=7, confidence=0.9))
    True
    """

    def __init__(
        self,
        measure: RecipeLike = "CM12",
        *,
        top: int = 1,
        literal: bool = False,
        train_share: float = 0.5,
        smoothed: bool = False,
        seed: int = 0,
        verbose: int = 0,
    ) -> None:
        self.measure = measure
        self.top = top
        self.literal = literal
        self.train_share = train_share
        self.smoothed = smoothed
        self.seed = seed
        self.verbose = verbose

    def headline(self, confidence: float = DEFAULT_CONFIDENCE) -> str:
        """Give what it promises in a few words, without the assumption."""
        return (
            f"keeps {confidence:.0%} of items new to the user that they will consume, if their "
            "taste stands still"
        )

    def default_name(self) -> str:
        """Give the paper's name for it."""
        return f"icrs{self.recipe().short_name}".lower()

    def recipe(self) -> Recipe:
        """Give what makes its scorer."""
        return as_recipe(self.measure, top=self.top, literal=self.literal, seed=self.seed)

    def _recipe_key(self) -> tuple[object, ...]:
        return self.measure, self.top, self.literal

    def _calibration(self) -> Calibration:
        return ItemCalibration(self.train_share, self.smoothed, self.seed)

    def offers_together(self) -> tuple[str, ...]:
        """Give how members' p-values can be merged, by name."""
        return tuple(MERGERS) if self.scorer_.leaves_users_out is True else ()

    def _for_groups(self, n_members: int, together: str | None) -> MergedPValues:  # noqa: ARG002
        check_leaves_out(self.scorer_)
        calibration = ItemCalibration(self.train_share, self.smoothed, self.seed)
        return MergedPValues(find_merger(together), calibration)

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:
        return {**self.settings(), "measure": stored_measure(self.measure, recipe)}

    def fitted_on(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Give another of its kind on statistics, with some settings changed.

        What was learned from these statistics is not learned anew.
        """
        if getattr(self, "statistics_", None) is not statistics:
            return super().fitted_on(statistics, **params)
        other = copy(self)  # and so with the scorer that was made of what was learned
        return other.set_params(**params)

    def _validate(self) -> None:
        check_whole("top", self.top)
        check_flag("literal", self.literal)
        check_flag("smoothed", self.smoothed)
        check_seed(self.seed)
        check_share(self.train_share)
        self.recipe()
