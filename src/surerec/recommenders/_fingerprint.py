"""Whether a model is the one that was calibrated: its scores of a few people are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.adapters import adapt
from surerec.errors import InputError
from surerec.measures import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.calibration import CalibrationUsers
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

_PEOPLE: Final = 8
_ITEMS: Final = 1_000
_TOLERANCE: Final = 1e-4
"""Of the spread of a person's scores: another machine adds up in another order."""


def probe(
    scorer: Scorer, statistics: PrecedenceStatistics, users: CalibrationUsers
) -> NDArray[np.float64]:
    """Give the scores of some items for some calibration users."""
    profiles = statistics.interactions
    lengths = np.diff(profiles.offsets)
    asked = [int(user) for user in users.users if user >= 0 and lengths[user]][:_PEOPLE]
    queries = [Query.of_user(profiles, user) for user in asked]
    if not queries:
        return np.empty((0, min(_ITEMS, statistics.n_items)))
    return np.ascontiguousarray(scorer.score_many(queries)[:, :_ITEMS])


def refuse_constant(
    scorer: Scorer, statistics: PrecedenceStatistics, users: CalibrationUsers
) -> None:
    """Refuse a model that tells no items apart, whoever is asked about."""
    scores = probe(scorer, statistics, users)
    scored = np.isfinite(scores)
    lowest = np.where(scored, scores, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(scored, scores, -np.inf).max(axis=1, initial=-np.inf)
    if len(scores) and scores.shape[1] > 1 and (lowest >= highest).all():
        raise InputError(
            f"{scorer.name} gives all items the same score for everybody who was asked about, so "
            "there is nothing to rank by."
        )


def same_kind(model: Any, items: Iterable[Any]) -> Adapter:
    """Give the adapter of a model that is to take the place of the one that was calibrated."""
    try:
        adapter = adapt(model, items)
    except InputError as error:
        raise InputError(f"This is not the model that was calibrated: {error}") from None
    adapter.check_fitted()
    return adapter


def check_same(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    users: CalibrationUsers,
    before: NDArray[Any],
) -> None:
    """Refuse a model that scores otherwise than the one that was calibrated."""
    try:
        now = probe(scorer, statistics, users)
    except IndexError:  # it has fewer users or items
        now = np.empty((0, 0))
    if now.shape == before.shape:
        scored = np.isfinite(before)
        then, later = (np.where(scored, some, 0.0) for some in (before, now))
        spread = np.ptp(then, axis=1, keepdims=True) if before.size else then
        near = np.isclose(later, then, rtol=_TOLERANCE, atol=0) | (
            np.abs(later - then) <= _TOLERANCE * spread
        )
        if near.all() and np.array_equal(scored, np.isfinite(now)):
            return
    raise InputError(
        f"This {scorer.name} is not the model that was calibrated: its scores are others. Give the "
        "one that was, or calibrate this one."
    )
