"""What is audited, with the settings of its guarantees; and on whom."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from surerec._words import counted, shown
from surerec.audit._verdicts import FEWEST_USERS
from surerec.calibration import false_declaration
from surerec.errors import InputError
from surerec.evaluation import Shares, choose_users
from surerec.interactions import Interactions
from surerec.measures import OwnMeasure, Query, Scorer, as_measure
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders import Recommender, measure_of, refitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.calibration import GuaranteeKind, Horizon
    from surerec.interactions import Segmentation
    from surerec.measures import Measure, MeasureLike
    from surerec.recommenders import FittedModel

_KNOWN = 0.6
"""The share of a profile that is known under the paper's protocol."""


@dataclass(frozen=True)
class AuditSubject:
    """What is audited.

    Attributes
    ----------
    name : str
        What the report calls it.
    recipe : Recipe
        What makes a scorer from statistics; over the calendar it is fitted anew at each date.
    scorer : Scorer or None
        What it became on the audited data, if it was fitted on them before.
    item_level : bool
        Whether p-values of items are part of it.
    judge : FittedModel or None
        A model whose own p-values are audited, where they are not those of the scorer.
    train_share : float
        The share of the known profile that is training, for p-values of items.
    smoothed : bool
        Whether ties in those are broken at random.
    comparable : bool
        Whether scores mean the same for everyone, so that a cut by score makes sense.
    horizons : mapping of str to float or int
        The future that each promise is about, by its name; a promise's own if it is not there.
    window : float or None
        Length of the calendar's windows, in days.
    groups : int
        How many groups by profile length.
    min_history : int
        People of whom less is known are promised nothing.
    of_the_fit : bool
        Whether people are promised something whom it was fitted on: then it is audited on them,
        fitted on what was known of them.
    kind : str
        The kind of coverage that is its own guarantee; empty if it has none of its own.
    segments : Segmentation or None
        The segments in which it is calibrated, if it was fitted with a column of them.
    """

    name: str
    recipe: Measure
    scorer: Scorer | None = None
    item_level: bool = True
    judge: FittedModel | None = None
    train_share: float = 0.5
    smoothed: bool = False
    comparable: bool = True
    horizons: Mapping[str, Horizon] = field(default_factory=dict)
    window: float | None = None
    groups: int = 3
    min_history: int = 5
    of_the_fit: bool = False
    kind: str = ""
    segments: Segmentation | None = None

    def horizon(self, guarantee: GuaranteeKind) -> Horizon:
        """Return the horizon of a guarantee."""
        return self.horizons.get(guarantee.name, guarantee.horizon)

    def title(self, guarantee: GuaranteeKind) -> str:
        """Return a guarantee in a few words, with its horizon."""
        horizon = self.horizon(guarantee)
        whole = isinstance(horizon, int)
        return guarantee.title(f"next {horizon}" if whole else f"last {horizon:.0%}")

    @property
    def shares(self) -> Shares:
        """The shares of a profile that train and calibrate, where the rest is tested."""
        return Shares(_KNOWN * self.train_share, _KNOWN * (1 - self.train_share))

    @property
    def min_length(self) -> int:
        """The shortest profile with an item to train and one to calibrate, at least 10."""
        smallest = min(self.shares.training, self.shares.calibration)
        return max(10, math.ceil(0.5 / smallest))


def of_recommender(name: str, model: Recommender) -> AuditSubject:
    """Return the subject of a recommender, with its own settings.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal("CM3", train_share=0.25).fit(films)
    >>> of_recommender("mine", model).shares.sizes(100)
    (15, 45)
    """
    fitted, recipe = model.model_, measure_of(model)
    if "period" in fitted.features:
        mine, scorer = fitted.user_level, fitted.scorer
        return AuditSubject(
            name,
            recipe,
            scorer,
            item_level=scorer.accepts_user_histories,
            comparable=scorer.accepts_user_histories or mine.threshold == "score",
            horizons={mine.guarantee_kind.name: mine.horizon},
            window=mine.window,
            groups=max(mine.n_groups, AuditSubject.groups),
            min_history=mine.min_history,
            of_the_fit=mine.coverage.of_the_fit,
            kind=f"{mine.guarantee_kind.kind}-{mine.threshold}",
            segments=mine.people,
        )
    calibration, has_levels = fitted.calibration, "confidence" in fitted.features
    settings = AuditSubject(
        name,
        recipe,
        fitted.scorer,
        item_level=has_levels,
        train_share=calibration.train_share,
        smoothed=calibration.smoothed,
        kind="item-time" if has_levels else "",
    )
    if calibration.compares_scores:
        return settings
    return replace(
        settings,
        recipe=OwnMeasure(lambda statistics: _RanksOf(model, statistics)),
        scorer=None,
        judge=fitted if has_levels else None,
        comparable=False,
    )


def subject_of(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: MeasureLike,
    name: str | None,
) -> tuple[PrecedenceStatistics, AuditSubject]:
    """Return what is audited, and the counts of its data; see :func:`surerec.audit.audit`."""
    if isinstance(data, Recommender):
        return data.statistics_, of_recommender(name or data.name_, data)
    if isinstance(data, Interactions):
        data = count_precedence(data)
    if not isinstance(data, PrecedenceStatistics):
        raise InputError(
            f"audit takes Interactions (see read_interactions), counts or a fitted recommender, "
            f"not {shown(data)}."
        )
    recipe = as_measure(measure)
    return data, AuditSubject(name or recipe.title, recipe)


class _RanksOf(Scorer):
    """A recommender's ranking as a scorer: its scores may be infinite, their order is not."""

    leaves_users_out = True
    checked = True

    def __init__(self, model: Recommender, statistics: PrecedenceStatistics) -> None:
        self._statistics = statistics
        self._model = refitted(model, statistics)

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Return the place of each item from the end of the ranking; equal for a tie."""
        assessed = self._model.model_.assess(query)
        scores = np.zeros(self._statistics.n_items)
        scores[assessed.candidates] = np.unique(assessed.score, return_inverse=True)[1]
        return scores


@dataclass(frozen=True)
class AuditedUsers:
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
    subject: AuditSubject, statistics: PrecedenceStatistics, n_users: int, random_state: int
) -> AuditedUsers:
    """Choose users, and fit what is audited on them.

    If nobody can be left out of it, it is fitted only on people who are not audited.
    """
    interactions = statistics.interactions
    shortest = subject.min_length
    enough = int((np.diff(interactions.offsets) >= shortest).sum())
    if enough < FEWEST_USERS:
        raise InputError(
            f"Whether guarantees hold cannot be tested here yet: {counted(enough, 'users')} took "
            f"{shortest} items or more, an audit needs {FEWEST_USERS}, and "
            f"{FEWEST_USERS - enough} are lacking."
        )
    users = choose_users(interactions, n_users, min_length=shortest, random_state=random_state)
    found = _fitted(subject, statistics, interactions, users, random_state)
    first = interactions.times[interactions.offsets[found.users]]
    last = interactions.times[interactions.offsets[found.users + 1] - 1]
    if (last > first).any():
        return found
    nothing = (
        "No user's items have different times, so that their order is that of the file: "
        "nothing is said about time order, drift, or the calendar, and what follows in the "
        "file stands in for the future."
    )
    return replace(found, has_times=False, skipped=(*found.skipped, nothing))


def _fitted(
    subject: AuditSubject,
    statistics: PrecedenceStatistics,
    interactions: Interactions,
    users: NDArray[np.int64],
    random_state: int,
) -> AuditedUsers:
    recipe = subject.recipe
    scorer = recipe.fit(statistics) if subject.scorer is None else subject.scorer
    false = false_declaration(recipe, scorer, statistics, random_state)
    found = AuditedUsers(users, scorer, statistics, users[:0], has_times=True, false=false)
    if scorer.leaves_users_out and not (false and recipe.refits):
        return found
    says = "declares falsely that it leaves users out" if false else "does not leave users out"
    if not recipe.refits:
        unsure = f"the scorer comes fitted and {says}, so it may know these futures"
        return replace(found, unsure=unsure, skipped=(f"Nothing can be told here: {unsure}.",))
    if subject.of_the_fit:
        why = (
            f"Users whom {subject.name} was not fitted on: for each guarantee a copy of it was "
            "fitted on what was known of everybody, and audited on what followed."
        )
        return replace(found, skipped=(why,))
    fitted = np.random.default_rng((random_state, 2)).random(interactions.n_users) < 0.5  # noqa: PLR2004
    learned_from, audited = users[fitted[users]], users[~fitted[users]]
    if min(len(audited), len(learned_from)) < FEWEST_USERS:
        raise InputError(
            f"{subject.name} {says}, so it is audited on half of the {len(users)} users who took "
            f"{subject.min_length} items or more, and these are fewer than {FEWEST_USERS}."
        )
    others = interactions.without_users(np.flatnonzero(~fitted))
    fitted_on = recipe.count(others, statistics.ties)
    why = (
        f"Users whom {subject.name} learned from, as it {says}: it was fitted on half of the users "
        "and audited on the others. What it delivers if it is calibrated on users whom it learned "
        "from stands beside."
    )
    scorer = recipe.fit(fitted_on)
    if false:
        scorer.leaves_users_out = False
    return AuditedUsers(audited, scorer, fitted_on, learned_from, True, skipped=(why,), false=false)
