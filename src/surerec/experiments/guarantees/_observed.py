"""Every measure's view of the same users' futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec.futures import observe, profile_cases
from surerec.measures import MeasureScorer, is_learned
from surerec.measures.learned import LearnedMeasure, LearnedScorer
from surerec.precedence import count_precedence
from surerec.recommenders import InductiveConformal
from surerec.recommenders._query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.futures import Cases, Horizon, Outcomes
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

__all__ = ["Observed", "Popularity", "make_scorer", "observe_all", "per_user_p_values"]


class Popularity:
    """Scores every item by the number of other users who took it: the plainest of rankings."""

    def __init__(self, statistics: PrecedenceStatistics) -> None:
        self._statistics = statistics

    def score(
        self,
        history: NDArray[np.integer],  # noqa: ARG002  # everyone gets the same
        *,
        without_user: int | None = None,
    ) -> NDArray[np.float64]:
        """Score every item; see :class:`surerec.measures.Scorer`."""
        support = self._statistics.support.astype(np.float64)
        support[self._statistics.taken_by(without_user)[0]] -= 1
        return support


def make_scorer(name: str, statistics: PrecedenceStatistics) -> Scorer:
    """Make a scorer by name: one of the 17 measures, "learned" (it is trained), "popularity"."""
    if name == "popularity":
        return Popularity(statistics)
    if is_learned(name):
        return LearnedScorer(statistics, LearnedMeasure.train(statistics))
    return MeasureScorer(statistics, name)


@dataclass(frozen=True)
class Observed:
    """One data set's users with a future, and what a scorer made of them."""

    name: str
    scorer: str
    outcomes: Outcomes


def observe_all(
    interactions: Interactions,
    scorers: Iterable[str],
    *,
    horizon: Horizon = 0.4,
    n_users: int = 2000,
    seed: int = 0,
) -> Iterator[Observed]:
    """Let each scorer rank the futures of the same users; one at a time, as they are large.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    scorers : iterable of str
        Names that :func:`make_scorer` knows.
    horizon : float or int, default=0.4
        The future.
    n_users : int, default=2000
        At most so many users, chosen at random.
    seed : int, default=0
        Of that choice.
    """
    statistics = count_precedence(interactions)
    cases = profile_cases(interactions, horizon).sample(n_users, seed)
    for name in scorers:
        scorer = make_scorer(name, statistics)
        outcomes = observe(
            scorer, statistics, cases, keep_candidates=True, doing=f"Observing {name}"
        )
        yield Observed(interactions.name or "data", name, outcomes)


def per_user_p_values(
    statistics: PrecedenceStatistics, measure: str, cases: Cases
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Give for each case the paper's p-values of the future items, and of all candidates."""
    model = InductiveConformal(measure).fit(statistics)
    for case in range(len(cases)):
        known, future = cases.known(case), cases.future(case)
        candidates = statistics.items_outside(known)
        query = Query(known, int(cases.users[case]))
        p_values = model._assess(query, candidates).p_values  # noqa: SLF001  # without frames
        yield p_values[np.searchsorted(candidates, future)], p_values
