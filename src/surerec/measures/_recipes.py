"""Recipes by name, and whatever people give instead of a name."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from surerec._arguments import check_seed
from surerec.errors import InputError
from surerec.measures._formula import FormulaRecipe
from surerec.measures._recipe import OwnRecipe, Recipe
from surerec.measures._scorer import is_scorer
from surerec.measures._table import MEASURES, Measure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RecipeLike: TypeAlias = Any
"""A name, a :class:`Recipe`, a scorer, or what makes a scorer from statistics."""


# What is trained brings kernels of its own: they are imported by who asks for it.
def _learned(**given: Any) -> Recipe:
    from surerec.measures.learned import LearnedRecipe  # noqa: PLC0415

    return LearnedRecipe(**given)


def _als(*, seed: int, **_: Any) -> Recipe:
    from surerec.measures.als import AlsRecipe, AlsSettings  # noqa: PLC0415

    return AlsRecipe(AlsSettings(seed=seed))


_NAMED: dict[str, Callable[..., Recipe]] = {"learned": _learned, "als": _als}
"""Recipes that are no formulas, by name; each is made with a seed, a horizon and a window."""


TRAINED: Mapping[str, str] = MappingProxyType(
    {
        "learned": "boosted trees over what precedence says, trained on other users' futures",
        "als": "matrix factorisation, trained on other users' profiles; people are folded in",
    }
)
"""The measures that are trained, in words."""


def recipe_names() -> list[str]:
    """Give the names of all recipes that need nothing but a name."""
    return [*MEASURES, *_NAMED]


def as_recipe(
    given: RecipeLike,
    *,
    top: int = 1,
    literal: bool = False,
    seed: int = 0,
    horizon: float = 0.4,
    window: float | None = None,
) -> Recipe:
    """Give the recipe that somebody means.

    Parameters
    ----------
    given : str, int, Measure, Recipe or object
        One of the 17 measures by name or number, or "learned" or "als"; a recipe; something that
        scores (it has ``score(history, *, without_user)``); or something that makes a scorer: an
        object with ``fit(statistics)``, or a function of statistics.
    top, literal
        Of the formulas; see :class:`MeasureScorer`.
    seed : int, default=0
        Of what is trained.
    horizon, window
        The future that it is trained for: that of the promise.

    Examples
    --------
    >>> as_recipe("icrs3").name, as_recipe("learned").learns, as_recipe("CM3").learns
    ('CM3', True, False)
    """
    if isinstance(given, Recipe):
        return given
    trained = sys.modules.get("surerec.measures.learned")  # else nobody can have one
    if trained is not None and isinstance(given, trained.LearnedMeasure):
        return _learned(learned=given)
    check_seed(seed)
    name = given.strip().lower().removeprefix("icrs-") if isinstance(given, str) else ""
    if name in _NAMED:
        return _NAMED[name](seed=seed, horizon=horizon, window=window)
    if isinstance(given, (str, int, Measure)):
        return FormulaRecipe(given, top=top, literal=literal)
    if is_scorer(given) or callable(getattr(given, "fit", given)):
        return OwnRecipe(given)
    raise InputError(
        f"{type(given).__name__} is no measure: give a name of `surerec measures`, something with "
        "score(history, *, without_user), or a function that makes such a thing from statistics."
    )
