"""Who is audited, and what is fitted without them where it cannot leave them out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.calibration import false_declaration
from surerec.errors import InputError
from surerec.evaluation import choose_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.audit._subject import Subject
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

FEWEST_USERS: Final = 20
"""With fewer nothing can be said."""


class TooFewUsersError(InputError):
    """Too few users have profiles that are long enough for anything to be tested."""

    def __init__(self, why: str, found: int, needed: int) -> None:
        super().__init__(f"{why}.")
        self.why = why
        self.found = found
        self.lacking = needed - found


@dataclass(frozen=True)
class Audited:
    """The users that are audited, and what scores them."""

    users: NDArray[np.int64]
    scorer: Scorer
    fitted_on: PrecedenceStatistics
    learned_from: NDArray[np.int64]
    """Some whom it learned from, for what it delivers as it may be used, if others are audited."""
    has_times: bool
    """Whether any of them took things at different times."""
    unsure: str = ""
    """Why nothing can be told; empty if something can."""
    skipped: tuple[str, ...] = ()
    """What is left out by this, in sentences."""
    false: str = ""
    """Why the scorer's declaration that it leaves users out is false; empty if nothing is known."""


def choose_audited(
    subject: Subject, statistics: PrecedenceStatistics, n_users: int, seed: int
) -> Audited:
    """Choose users, and fit what is audited on them.

    If nobody can be left out of it, it is fitted only on people who are not audited.
    """
    interactions = statistics.interactions
    shortest = subject.min_length
    enough = int((np.diff(interactions.offsets) >= shortest).sum())
    if enough < FEWEST_USERS:
        lacking = FEWEST_USERS - enough
        why = (
            f"{enough} {'user' if enough == 1 else 'users'} took {shortest} items or more, an "
            f"audit needs {FEWEST_USERS}, and {lacking} {'is' if lacking == 1 else 'are'} lacking"
        )
        raise TooFewUsersError(why, enough, FEWEST_USERS)
    users = choose_users(interactions, n_users, min_length=shortest, seed=seed)
    found = _fitted(subject, statistics, interactions, users, seed)
    if _have_times(interactions, found.users):
        return found
    nothing = (
        "No user's items have different times, so that their order is that of the file: "
        "nothing is said about time order, drift, or the calendar, and what follows in the "
        "file stands in for the future."
    )
    return replace(found, has_times=False, skipped=(*found.skipped, nothing))


def _fitted(
    subject: Subject,
    statistics: PrecedenceStatistics,
    interactions: Interactions,
    users: NDArray[np.int64],
    seed: int,
) -> Audited:
    recipe, scorer = subject.recipe, subject.scorer_on(statistics)
    false = false_declaration(recipe, scorer, statistics, seed)
    found = Audited(users, scorer, statistics, users[:0], has_times=True, false=false)
    if scorer.leaves_users_out and not (false and recipe.refits):
        return found
    says = "cannot leave users out"
    if false:
        says = "declares falsely that it leaves users out"
    elif scorer.leaves_users_out is None:
        says = "does not say whether it leaves users out"
    if not recipe.refits:
        unsure = f"the scorer comes fitted and {says}, so it may know these futures"
        return replace(found, unsure=unsure, skipped=(f"Nothing can be told here: {unsure}.",))
    if subject.of_the_fit:
        why = (
            f"People whom {subject.name} was not fitted on: for each promise a copy of it "
            "was fitted on what was known of everybody, and audited on what followed."
        )
        return replace(found, skipped=(why,))
    fitted = np.random.default_rng((seed, 2)).random(interactions.n_users) < 0.5  # noqa: PLR2004
    learned_from, audited = users[fitted[users]], users[~fitted[users]]
    if min(len(audited), len(learned_from)) < FEWEST_USERS:
        why = (
            f"{subject.name} {says}, so it is audited on half of the {len(users)} users who took "
            f"{subject.min_length} items or more, and these are fewer than {FEWEST_USERS}"
        )
        raise TooFewUsersError(why, len(users), 2 * FEWEST_USERS)
    others = interactions.without_users(np.flatnonzero(~fitted))
    fitted_on = recipe.count(others, statistics.ties)
    why = (
        f"People whom {subject.name} learned from, as it {says}: it was fitted on half of "
        "the users and audited on the others. What it delivers if it is calibrated on people "
        "whom it learned from stands beside."
    )
    scorer = recipe.fit(fitted_on)
    if false:
        scorer.leaves_users_out = False
    return Audited(audited, scorer, fitted_on, learned_from, True, skipped=(why,), false=false)


def _have_times(interactions: Interactions, users: NDArray[np.int64]) -> bool:
    """Tell whether any of these users took things at different times."""
    first = interactions.times[interactions.offsets[users]]
    last = interactions.times[interactions.offsets[users + 1] - 1]
    return bool((last > first).any())
