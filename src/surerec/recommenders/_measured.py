"""The parameter `measure` of recommenders: any recipe, by name or as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.measures import Recipe

OWN = "own"
"""The key under which a model folder has the name of a scorer that it does not hold."""


def stored_measure(measure: object, recipe: Recipe) -> object:
    """Give what a model folder says of a measure: its name, or whose scorer must be given again."""
    if isinstance(measure, (str, int)):
        return measure  # as it was given, and as it will come back
    return {OWN: recipe.name} if recipe.stored is None else recipe.stored


def given_measure(params: Mapping[str, Any], scorer: object, where: str) -> dict[str, Any]:
    """Give the parameters of a stored recommender, with its scorer if it was saved without one."""
    own = [key for key, value in params.items() if isinstance(value, dict) and OWN in value]
    if not own:
        if scorer is not None:
            raise InputError(f"{where} has its scorer: load it without scorer=.")
        return dict(params)
    if scorer is None:
        raise InputError(
            f"{where} was saved without its scorer ({params[own[0]][OWN]}), which only Python code "
            "has: give it to surerec.load(folder, scorer=…); it can be neither served nor run on "
            "Spark."
        )
    return {**params, own[0]: scorer}
