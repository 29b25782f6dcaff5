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
    assert profiles is not None  # noqa: S101  # a wrapped model is asked about people
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
    if len(scores) and scores.shape[1] > 1 and (scores == scores[:, :1]).all():
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
        finite = np.where(np.isfinite(before), before, 0.0)
        spread = np.ptp(finite, axis=1, keepdims=True) if before.size else finite
        with np.errstate(invalid="ignore"):  # −∞ of what has no score: equal, or not near
            near = np.isclose(now, before, rtol=_TOLERANCE, atol=0) | (
                np.abs(now - before) <= _TOLERANCE * spread
            )
        if near.all():
            return
    raise InputError(
        f"This {scorer.name} is not the model that was calibrated: its scores are others. Give the "
        "one that was, or calibrate this one."
    )
