"""Every measure's view of the same users' futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.calibration import observe, profile_cases
from surerec.evaluation import observe_as_of
from surerec.measures import OwnRecipe, Query, Scorer, as_recipe
from surerec.precedence import count_precedence
from surerec.recommenders import InductiveConformal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.calibration import Cases, Horizon, Outcomes
    from surerec.evaluation import AsOf
    from surerec.interactions import Interactions
    from surerec.measures import Recipe, RecipeLike
    from surerec.precedence import PrecedenceStatistics


class Popularity(Scorer):
    """Scores every item by the number of other users who took it: the plainest of rankings."""

    leaves_users_out = True
    checked = True

    def __init__(self, statistics: PrecedenceStatistics) -> None:
        self._statistics = statistics

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item, the same for everyone; see :class:`surerec.measures.Scorer`."""
        support = self._statistics.support.astype(np.float64)
        for user in query.users:
            support[self._statistics.taken_by(user)[0]] -= 1
        return support


def recipe_by(given: RecipeLike) -> Recipe:
    """Give a recipe: one of the 17 measures, "learned" (it is trained), "popularity", any other."""
    return OwnRecipe(Popularity) if given == "popularity" else as_recipe(given)


@dataclass(frozen=True)
class Observed:
    """One data set's users with a future, and what a scorer made of them."""

    name: str
    scorer: str
    outcomes: Outcomes
    as_of: AsOf | None = None
    """How it was counted as of the moments of the questions, if it was."""


def chosen_cases(
    interactions: Interactions, horizon: Horizon, n_users: int, seed: int = 0
) -> Cases:
    """Give whose futures are ranked: so many users at the most, drawn at random."""
    return profile_cases(interactions, horizon).sample(n_users, seed)


def observe_all(
    interactions: Interactions,
    scorers: Iterable[RecipeLike],
    *,
    horizon: Horizon = 0.4,
    n_users: int = 2000,
    seed: int = 0,
    as_of: bool = False,
) -> Iterator[Observed]:
    """Let each scorer rank the futures of the same users; one at a time, as they are large.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    scorers : iterable of str or object
        What :func:`recipe_by` takes.
    horizon : float or int, default=0.4
        The future.
    n_users : int, default=2000
        At most so many users, chosen at random.
    seed : int, default=0
        Of that choice.
    as_of : bool, default=False
        Count only what had happened by the start of each case's block of the calendar, see
        :func:`surerec.evaluation.observe_as_of`; by default counts know what others did later.
    """
    cases = chosen_cases(interactions, horizon, n_users, seed)
    statistics = None if as_of else count_precedence(interactions)
    for given in scorers:
        recipe = recipe_by(given)
        name = given if isinstance(given, str) else recipe.name
        if statistics is None:
            found = observe_as_of(recipe, cases, keep_candidates=True)
            yield Observed(interactions.name or "data", name, found.outcomes, found)
            continue
        scorer = recipe.fit(statistics)
        outcomes = observe(
            scorer, statistics, cases, keep_candidates=True, doing=f"Observing {name}"
        )
        yield Observed(interactions.name or "data", name, outcomes)


def per_user_p_values(
    statistics: PrecedenceStatistics, measure: str, cases: Cases
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Give for each case the paper's p-values of the future items, and of all candidates."""
    model = InductiveConformal(measure).fit(statistics)

    def one(case: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        known, future = cases.known(case), cases.future(case)
        candidates = statistics.items_outside(known)
        query = Query(known, (int(cases.users[case]),))
        p_values = model.model_.assess(query, candidates).p_values  # without frames
        assert p_values is not None  # noqa: S101  # this kind has them
        unknown = statistics.unknown_without(query.users)
        p_values = np.where(np.isin(candidates, unknown), 0.0, p_values)
        return p_values[np.searchsorted(candidates, future)], p_values

    with progress(f"p-values by {measure}, person by person", total=len(cases)) as advance:
        for found in run_blocks(one, range(len(cases))):
            yield found
            advance(1)
