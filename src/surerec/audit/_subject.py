"""The subject of an audit with its settings, and the users it is audited on."""

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
"""The share of a history that is known under the paper's protocol."""


@dataclass(frozen=True)
class AuditSubject:
    """A measure or recommender to audit, with the settings of its guarantees.

    Attributes
    ----------
    name : str
        Name in the report.
    measure : Measure
        Fits a scorer on statistics; the temporal split refits it for each window.
    scorer : Scorer or None
        The scorer, if it was fitted on the audited data before.
    item_level : bool
        Whether it has item-level p-values.
    model : FittedModel or None
        The model whose p-values are audited, if they do not come from the scorer.
    train_share : float
        The share of the known history that is training, for item-level p-values.
    smoothed : bool
        Whether ties in item-level p-values are broken at random.
    comparable : bool
        Whether scores are comparable between users, as a score threshold requires.
    horizons : mapping of str to float or int
        Horizons by guarantee; other guarantees keep their default.
    window : float or None
        Length of the windows of the temporal split, in days.
    n_segments : int
        Number of segments by history length.
    min_history : int
        The smallest number of known items that a guarantee covers.
    fitted_users : bool
        Whether the guarantee covers the users of the fit. The audit then refits the measure on
        their known items.
    kind : str
        The kind of its own guarantee in the coverage table; empty without one.
    segments : Segmentation or None
        The segments that it is calibrated in, if any.
    """

    name: str
    measure: Measure
    scorer: Scorer | None = None
    item_level: bool = True
    model: FittedModel | None = None
    train_share: float = 0.5
    smoothed: bool = False
    comparable: bool = True
    horizons: Mapping[str, Horizon] = field(default_factory=dict)
    window: float | None = None
    n_segments: int = 3
    min_history: int = 5
    fitted_users: bool = False
    kind: str = ""
    segments: Segmentation | None = None

    def horizon(self, guarantee: GuaranteeKind) -> Horizon:
        """Return the horizon of a guarantee."""
        return self.horizons.get(guarantee.name, guarantee.horizon)

    def title(self, guarantee: GuaranteeKind) -> str:
        """Return a short name of a guarantee with its horizon."""
        horizon = self.horizon(guarantee)
        whole = isinstance(horizon, int)
        return guarantee.title(f"next {horizon}" if whole else f"last {horizon:.0%}")

    @property
    def shares(self) -> Shares:
        """The training and calibration shares of a history; the rest is tested."""
        return Shares(_KNOWN * self.train_share, _KNOWN * (1 - self.train_share))

    @property
    def min_length(self) -> int:
        """The shortest history with a training and a calibration item, at least 10."""
        smallest = min(self.shares.training, self.shares.calibration)
        return max(10, math.ceil(0.5 / smallest))


def of_recommender(name: str, model: Recommender) -> AuditSubject:
    """Return a fitted recommender as the subject of an audit.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal("CM3", train_share=0.25).fit(films)
    >>> of_recommender("mine", model).shares.sizes(100)
    (15, 45)
    """
    fitted, measure = model.model_, measure_of(model)
    if "period" in fitted.features:
        mine, scorer = fitted.user_level, fitted.scorer
        # The audit calibrates ranks and scores itself, and learns no thresholds.
        unit = "rank" if mine.threshold == "learned" else mine.threshold
        return AuditSubject(
            name,
            measure,
            scorer,
            item_level=scorer.accepts_user_histories,
            comparable=scorer.accepts_user_histories or mine.threshold == "score",
            horizons={mine.guarantee_kind.name: mine.horizon},
            window=mine.window,
            n_segments=max(mine.n_groups, AuditSubject.n_segments),
            min_history=mine.min_history,
            fitted_users=mine.coverage.of_the_fit is True,
            kind=f"{mine.guarantee_kind.name}-{unit}",
            segments=mine.segmentation,
        )
    calibration, has_levels = fitted.calibration, "confidence" in fitted.features
    settings = AuditSubject(
        name,
        measure,
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
        measure=OwnMeasure(lambda statistics: _RanksOf(model, statistics)),
        scorer=None,
        model=fitted if has_levels else None,
        comparable=False,
    )


def subject_of(
    data: Interactions | PrecedenceStatistics | Recommender, measure: MeasureLike, name: str | None
) -> tuple[PrecedenceStatistics, AuditSubject]:
    """Return the counts and the subject of an audit; see :func:`surerec.audit.audit`."""
    if isinstance(data, Recommender):
        return data.statistics_, of_recommender(name or data.name_, data)
    if isinstance(data, Interactions):
        data = count_precedence(data)
    if not isinstance(data, PrecedenceStatistics):
        raise InputError(
            f"Cannot audit {shown(data)}. Pass Interactions (see read_interactions), precedence "
            "counts or a fitted recommender."
        )
    chosen = as_measure(measure)
    return data, AuditSubject(name or chosen.title, chosen)


class _RanksOf(Scorer):
    """A recommender's ranks as a scorer, as its scores may be infinite."""

    leaves_users_out = True
    checked = True

    def __init__(self, model: Recommender, statistics: PrecedenceStatistics) -> None:
        self._statistics = statistics
        self._model = refitted(model, statistics)

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Return the rank of each item from the end of the ranking; ties share a rank."""
        assessed = self._model.model_.assess(query)
        scores = np.zeros(self._statistics.n_items)
        scores[assessed.candidates] = np.unique(assessed.score, return_inverse=True)[1]
        return scores


@dataclass(frozen=True)
class AuditedUsers:
    """The audited users, and the scorer."""

    users: NDArray[np.int64]
    scorer: Scorer
    fitted_on: PrecedenceStatistics
    learned_from: NDArray[np.int64]
    """Users of the fit, if the audited users are others: they show the coverage as used."""
    has_times: bool
    """Whether the items of any audited user have different times."""
    unsure: str = ""
    """Why no verdict is possible; empty if one is."""
    skipped: tuple[str, ...] = ()
    """Sentences on what is left out."""
    false: str = ""
    """Why the declaration that the scorer leaves users out is false; empty if it is not."""


def choose_audited(
    subject: AuditSubject, statistics: PrecedenceStatistics, n_users: int, random_state: int
) -> AuditedUsers:
    """Choose the audited users, and fit the scorer.

    A scorer that cannot leave users out is fitted only on users who are not audited.
    """
    interactions = statistics.interactions
    shortest = subject.min_length
    enough = int((np.diff(interactions.offsets) >= shortest).sum())
    if enough < FEWEST_USERS:
        raise InputError(
            f"An audit needs {FEWEST_USERS} users with {shortest} items or more; these data have "
            f"{counted(enough, 'users')}. Add interactions of more users."
        )
    users = choose_users(interactions, n_users, min_length=shortest, random_state=random_state)
    found = _fitted(subject, statistics, interactions, users, random_state)
    first = interactions.times[interactions.offsets[found.users]]
    last = interactions.times[interactions.offsets[found.users + 1] - 1]
    if (last > first).any():
        return found
    no_times = (
        "Time order, drift and the temporal split: all items of a user have the same time. File "
        "order decides which items are held out."
    )
    return replace(found, has_times=False, skipped=(*found.skipped, no_times))


def _fitted(
    subject: AuditSubject,
    statistics: PrecedenceStatistics,
    interactions: Interactions,
    users: NDArray[np.int64],
    random_state: int,
) -> AuditedUsers:
    measure = subject.measure
    scorer = measure.fit(statistics) if subject.scorer is None else subject.scorer
    false = false_declaration(measure, scorer, statistics, random_state)
    found = AuditedUsers(users, scorer, statistics, users[:0], has_times=True, false=false)
    if scorer.leaves_users_out and not (false and measure.refits):
        return found
    how = "wrongly declares that it leaves users out" if false else "does not leave users out"
    if not measure.refits:
        unsure = f"the scorer comes fitted and {how}, so it may know the held-out items"
        return replace(found, unsure=unsure, skipped=(f"No verdict is possible: {unsure}.",))
    if subject.fitted_users:
        why = (
            f"Users that {subject.name} was not fitted on. For each guarantee, a copy of it was "
            "fitted on the known items of all users and audited on the held-out items."
        )
        return replace(found, skipped=(why,))
    fitted = np.random.default_rng((random_state, 2)).random(interactions.n_users) < 0.5  # noqa: PLR2004
    learned_from, audited = users[fitted[users]], users[~fitted[users]]
    if min(len(audited), len(learned_from)) < FEWEST_USERS:
        raise InputError(
            f"{subject.name} {how}, so it is audited on half of the {len(users)} users with "
            f"{subject.min_length} items or more; that is fewer than {FEWEST_USERS}. Add "
            "interactions of more users."
        )
    others = interactions.without_users(np.flatnonzero(~fitted))
    fitted_on = measure.count(others, statistics.ties)
    why = (
        f"Users that {subject.name} was fitted on, because it {how}: it was fitted on half of the "
        "users and audited on the others. Rows marked 'calibrated on users of its fit' show the "
        "coverage without that precaution."
    )
    scorer = measure.fit(fitted_on)
    if false:
        scorer.leaves_users_out = False
    return AuditedUsers(audited, scorer, fitted_on, learned_from, True, skipped=(why,), false=false)
