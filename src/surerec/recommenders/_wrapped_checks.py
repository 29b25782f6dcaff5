"""Checks of wrapped models: covered users, ids, and identity with the calibrated model."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, get_args

import numpy as np

from surerec._words import DAY, day_of
from surerec.adapters import adapt
from surerec.calibration import UserCoverage, held_out_text
from surerec.errors import AssumedIdsWarning, InputError, LeftOutWarning
from surerec.measures import Query
from surerec.recommenders._user_level import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.adapters import Adapter, WrappedScorer
    from surerec.calibration import CalibrationUsers, Horizon
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

Covers = Literal["both", "fit", "new-users"]
_TRIED: Final = 100
"""Number of users whose items are looked up in the rankings of a model."""
_LEAST: Final = 0.6
"""The share of other items that a user's own items must exceed; random ranks reach half."""
_USERS: Final = 8
_ITEMS: Final = 1_000
_TOLERANCE: Final = 1e-4
"""Relative to the range of a user's scores; machines differ in the order of sums."""


@dataclass(frozen=True)
class About:
    """What a folder stores of the calibration of a wrapped model besides arrays."""

    covers: Covers
    future: str = ""
    """Description of the held-out interactions."""
    assumes: str = ""
    set_aside: bool = False
    knows_all: bool = False
    """Whether every item of the catalogue is ranked, not only consumed ones."""

    def says(self, scorer: WrappedScorer) -> Statement:
        """Return the statement of guarantees: covered users and held-out interactions."""
        adapter, of_the_fit = scorer.adapter, self.covers == "fit"
        new = "users" if self.covers == "both" else "users whom the model was not fitted on"
        coverage = UserCoverage(
            users=adapter.covered_users if of_the_fit else new,
            assumes=self.assumes,
            in_fit=scorer.rows >= 0,
            of_the_fit=None if self.covers == "both" else of_the_fit,
            set_aside=self.set_aside,
        )
        return Statement(coverage, self.future, adapter.lacking)

    def to_text(self) -> str:
        """Return JSON for a model folder."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> About:
        """Parse the JSON of a model folder; raise ValueError if it is invalid."""
        given = json.loads(text)
        fields = {name: type(field.default) for name, field in cls.__dataclass_fields__.items()}
        types = {**fields, "covers": str}
        if not isinstance(given, dict) or {k: type(v) for k, v in given.items()} != types:
            raise ValueError("it does not state what is covered")
        found = cls(**given)
        if found.covers not in get_args(Covers):
            raise ValueError(found.covers)
        return found


def days_from(begin: int, days: float, horizon: Horizon) -> str:
    """Return the description of a window of days that begins at an instant."""
    return held_out_text(horizon, span=f"in the {days:.4g} days from {day_of(begin)}")


def what_follows(past: Interactions, future: Interactions, horizon: Horizon) -> str:
    """Return the description of the future: days, if it begins after the whole past."""
    begin, end = int(future.times.min()), int(future.times.max()) + 1
    if begin >= int(past.times.max()) and end - begin >= DAY:
        return days_from(begin, round((end - begin) / DAY), horizon)
    return held_out_text(horizon, span="next") if isinstance(horizon, float) else ""


def who(
    adapter: Adapter, past: Interactions, covers: Covers | None
) -> tuple[Covers, NDArray[np.bool_]]:
    """Return whom a fitted model covers, and which users of the past were in its fit.

    A model that stores no users is assumed to be fitted on the past, unless `covers` is given.
    """
    if adapter.users is None:
        if covers == "both":
            raise InputError("covers='both' needs users=, the ids of the users of the fit.")
        chosen: Covers = covers or "fit"
        return chosen, np.full(past.n_users, chosen == "fit")
    in_fit = adapter.users.codes(past.users.ids) >= 0
    there = np.diff(past.offsets) > 0  # a past taken from larger data may have users without rows
    n_in, n_users = int((in_fit & there).sum()), int(there.sum())
    mixed = 0 < n_in < n_users
    if mixed and not adapter.folds_in and covers is None:
        outside = past.users.ids.gather(np.flatnonzero(there & ~in_fit)[:3]).to_list()
        warnings.warn(
            f"{n_users - n_in:,} of the {n_users:,} users of the past have no scores, such as "
            f"{', '.join(map(repr, outside))}. They do not calibrate and cannot be served.",
            LeftOutWarning,
            stacklevel=3,
        )
    found: Covers = covers or ("fit" if n_in else "new-users")
    if mixed and adapter.folds_in:
        found = covers or "both"
    if found != "fit" and not adapter.folds_in:
        refuse_new_users(adapter)
    return found, in_fit


def refuse_new_users(adapter: Adapter) -> NoReturn:
    """Raise InputError for a model that scores only the users of its fit."""
    raise InputError(
        f"{adapter.name} cannot score new users, only users of its fit. Calibrate it on those, and "
        "pass users=, the id of each row."
    )


def check_catalogue(adapter: Adapter, past: Interactions, covers: Covers) -> None:
    """Raise InputError if items of the past are not in the columns of a model."""
    consumed = np.unique(past.item_codes)
    missing = consumed[adapter.catalogue.codes(past.items.ids.gather(consumed)) < 0]
    if adapter.assumes_ids:
        _check_column_numbers(adapter, past, missing)
    # A fitted model has a column for each item of its fit; a function may know fewer items.
    may_miss = adapter.knows_all or covers == "new-users"
    if not len(missing) or (len(missing) < len(consumed) and may_miss):
        return
    such = past.items.ids.gather(missing[:3]).to_list()
    raise InputError(
        f"{len(missing):,} of the {len(consumed):,} items of the past are not in the "
        f"catalogue of {adapter.name}, such as {', '.join(map(repr, such))}. Pass items=, the id "
        "of each column in order."
    )


def _check_column_numbers(
    adapter: Adapter, past: Interactions, missing: NDArray[np.integer]
) -> None:
    """Raise InputError for item ids that cannot be column numbers; warn about doubtful ones."""
    fix = "pass items=, the id of each column in order"
    last = len(adapter.catalogue) - 1
    if len(missing):
        such = ", ".join(map(repr, past.items.ids.gather(missing[:3]).to_list()))
        raise InputError(
            f"{adapter.name} was wrapped without items=, so item ids must be its column numbers, 0 "
            f"to {last:,}; {len(missing):,} ids of the past are not, such as {such}. "
            f"{fix.capitalize()}."
        )
    above = _own_items_above(adapter, past)
    if above < _LEAST:
        warnings.warn(
            f"{adapter.name} was wrapped without items=, so item ids are assumed to be its column "
            f"numbers, 0 to {last:,}. It ranks users' own items above {above:.0%} of the others, "
            f"about as a random ranking: the ids may be wrong. If so, {fix}.",
            AssumedIdsWarning,
            stacklevel=4,
        )


def _own_items_above(adapter: Adapter, past: Interactions) -> float:
    """Return the mean share of other items that a model ranks below users' own items.

    Users of its fit are scored by their row, others by all but their last item.
    """
    columns = adapter.catalogue.codes(past.items.ids)
    rows = np.full(past.n_users, -1)
    if adapter.knows_users and adapter.users is not None:
        rows = adapter.users.codes(past.users.ids)
    usable = (np.diff(past.offsets) > 1) & ((rows >= 0) | adapter.folds_in)
    shares = []
    for user in np.random.default_rng(0).permutation(np.flatnonzero(usable))[:_TRIED]:
        own = columns[past.consumed(user)]
        by_row = rows[user] >= 0
        found = adapter.score_users(rows[[user]]) if by_row else adapter.score_histories([own[:-1]])
        scores = np.nan_to_num(found[0], nan=-np.inf)
        others = np.delete(scores, own)
        tried = scores[own if by_row else own[-1:], None]
        shares.append(np.mean((others < tried) + (others == tried) / 2))
    return float(np.mean(shares)) if shares else 0.0


def probe(
    scorer: Scorer, statistics: PrecedenceStatistics, users: CalibrationUsers
) -> NDArray[np.float64]:
    """Return the scores of some items for some calibration users."""
    profiles = statistics.interactions
    lengths = np.diff(profiles.offsets)
    some = [int(user) for user in users.users if user >= 0 and lengths[user]][:_USERS]
    queries = [Query.of_user(profiles, user) for user in some]
    if not queries:
        return np.empty((0, min(_ITEMS, statistics.n_items)))
    return np.ascontiguousarray(scorer.score_many(queries)[:, :_ITEMS])


def refuse_constant(
    scorer: Scorer, statistics: PrecedenceStatistics, users: CalibrationUsers
) -> None:
    """Raise InputError for a model that gives all items the same score."""
    scores = probe(scorer, statistics, users)
    scored = np.isfinite(scores)
    lowest = np.where(scored, scores, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(scored, scores, -np.inf).max(axis=1, initial=-np.inf)
    if len(scores) and scores.shape[1] > 1 and (lowest >= highest).all():
        raise InputError(
            f"{scorer.name} gives all items the same score for all tried users, so it has no "
            "ranking. Check the model and its ids."
        )


def same_kind(model: Any, items: Iterable[Any]) -> Adapter:
    """Return the adapter of a model that replaces the calibrated one."""
    try:
        adapter = adapt(model, items)
    except InputError as error:
        raise InputError(f"This is not the calibrated model: {error}") from None
    adapter.check_fitted()
    return adapter


def check_same(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    users: CalibrationUsers,
    before: NDArray[Any],
) -> None:
    """Raise InputError if scores differ from those of the calibrated model."""
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
        f"This {scorer.name} is not the calibrated model: its scores differ. Pass the calibrated "
        "model, or calibrate this one."
    )
