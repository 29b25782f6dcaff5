"""Training examples: parts of histories, with features computed from other users only.

An example then looks as it will for a new user. Leaving a user out of counts that include the user
is not enough for training: items that the user consumed would have one consumer less than other
items, and the trees would learn just that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._threads import one_thread, run_blocks
from surerec._words import DAY
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec._progress import Bar
    from surerec.interactions import Interactions
    from surerec.measures.learned._features import Features


_FEW: Final = 10


@dataclass(frozen=True)
class TrainingHorizon:
    """What the trees predict: a share of the profile, a number of next items, or a window in days.

    Examples
    --------
    >>> times = np.array([0, 1, 2, 3, 10, 11]) * DAY
    >>> TrainingHorizon(0.4).longest_past(times), TrainingHorizon(2).longest_past(times)
    (4, 4)
    >>> [TrainingHorizon(0.4).stop(times, length) for length in (1, 3, 4)]
    [2, 5, 6]
    >>> window = TrainingHorizon(0.4, window=3)
    >>> window.longest_past(times), window.stop(times, 1)
    (4, 4)
    """

    horizon: float | int = 0.4
    window: float | None = None

    def __post_init__(self) -> None:
        share = isinstance(self.horizon, (float, np.floating)) and 0 < self.horizon < 1
        whole = isinstance(self.horizon, (int, np.integer)) and self.horizon > 0
        if isinstance(self.horizon, bool) or not (share or whole):
            raise InputError(
                f"horizon is {self.horizon!r}. Pass a share between 0 and 1, or a whole number of "
                "next items."
            )

    @property
    def is_share(self) -> bool:
        """Whether the horizon is a share of the profile."""
        return self.window is None and isinstance(self.horizon, (float, np.floating))

    @property
    def is_short(self) -> bool:
        """Whether the horizon is a few next items."""
        return self.window is None and not self.is_share and self.horizon <= _FEW

    def longest_past(self, times: NDArray[np.int64]) -> int:
        """Return the length of the history if the horizon ends with the profile; at least 1."""
        n_items = len(times)
        if self.window is not None:
            past = int(np.searchsorted(times, times[-1] - int(self.window * DAY), side="right"))
        elif self.is_share:
            past = round((1 - self.horizon) * n_items)
        else:
            past = n_items - int(self.horizon)
        return min(max(past, 1), n_items - 1)

    def stop(self, times: NDArray[np.int64], length: int) -> int:
        """Return where the horizon ends that begins after `length` items.

        A window begins with the next item. With a share, the horizon is ``horizon / (1 − horizon)``
        times the history, as it is for the guarantee. All that follows a short history would teach
        the trees what users consume last.
        """
        stop = len(times)
        if self.is_share and length < self.longest_past(times):
            stop = min(stop, length + round(length * self.horizon / (1 - self.horizon)))
        if self.window is not None:
            end = int(times[length]) + int(self.window * DAY)
            stop = int(np.searchsorted(times, end, side="left"))
        if isinstance(self.horizon, (int, np.integer)):
            stop = min(stop, length + int(self.horizon))
        return max(stop, length + 1)

    def mean_length(self, interactions: Interactions, users: NDArray[np.int64]) -> float:
        """Return the mean number of items in the horizon, over users with two items or more."""
        if self.window is None and not self.is_share:
            return float(self.horizon)
        lengths = []
        for user in users[np.diff(interactions.offsets)[users] > 1]:
            times = interactions.times_of(int(user))
            past = self.longest_past(times)
            lengths.append(self.stop(times, past) - past)
        return float(np.mean(lengths)) if lengths else 1.0


_USERS_AT_ONCE: Final = 16
_EARLIER: Final = 0.25
"""Share of the profiles that are also split earlier, at random, if the horizon is short."""
_N_LIKELY: Final = 200
"""For a short horizon, half of the negatives are among so many likely items."""
_VALIDATION_SHARE = 0.2
MOST_VALIDATION_USERS = 400
"""Approximate number of validation users: more of them add cost and little information."""


@dataclass(frozen=True)
class Sampling:
    """How examples are drawn."""

    target: TrainingHorizon
    """What the trees learn to predict."""
    negatives: int
    """Sampled items per split that the user did not consume within the horizon."""
    random_state: int
    validation_share: float = _VALIDATION_SHARE
    """Share of the users who validate."""

    def for_users(self, n_users: int) -> Sampling:
        """Return the sampling of `n_users` users: of many users, a smaller share validates."""
        share = min(self.validation_share, MOST_VALIDATION_USERS / max(n_users, 1))
        return replace(self, validation_share=share)

    def is_validation_user(self, user: int) -> bool:
        """Return whether a user validates trees instead of training them."""
        draw = np.random.default_rng((self.random_state, user)).random()
        return bool(draw < self.validation_share)


class Examples(NamedTuple):
    """Features of items for a history, and whether each was consumed next."""

    features: NDArray[np.float32]
    """One row per item."""
    consumed: NDArray[np.float32]
    offset: NDArray[np.float64]
    """Log-odds among the examples of the same history if all items were alike.

    With this offset, the trees learn differences between items, and neither the number of items
    that a user consumes nor the number of sampled items. Likely items are sampled more often, and
    have a lower offset.
    """
    is_validation: NDArray[np.bool_]
    """Whether the example is of a validation user, who decides on early stopping."""
    owners: NDArray[np.int64]
    """User code of each example."""

    @classmethod
    def joined(cls, parts: list[Examples]) -> Examples:
        """Concatenate examples."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def log_odds(n_consumed: float, n_others: float) -> float:
    """Return the log-odds that an item is consumed, if all items are alike."""
    return float(np.log((n_consumed + 0.5) / (n_others + 0.5)))


@dataclass(frozen=True)
class TrainingUsers:
    """Users who are not behind the features, with their profiles in the features' codes."""

    features: Features
    interactions: Interactions
    codes: NDArray[np.int64]
    """The features' code of each item of the interactions; −1 for none."""

    @classmethod
    def of(cls, features: Features, interactions: Interactions) -> TrainingUsers:
        """Look up the items of interactions in the features' catalogue."""
        profiles = features.statistics.interactions
        return cls(features, interactions, profiles.items.codes(interactions.items.ids))

    def split(
        self, user: int, length: int, target: TrainingHorizon
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return a user's first items and those within the horizon, without unknown items.

        None if either part is empty.
        """
        stop = target.stop(self.interactions.times_of(user), length)
        profile = self.codes[self.interactions.consumed(user)]
        known, after = (part[part >= 0] for part in (profile[:length], profile[length:stop]))
        return (known, after) if len(known) and len(after) else None


def make_examples(
    training_users: TrainingUsers,
    users: NDArray[np.int64],
    sampling: Sampling,
    advance: Bar,
) -> list[Examples]:
    """Draw examples from users; the user codes seed the draws.

    Parameters
    ----------
    training_users : TrainingUsers
        The users, and features computed without them.
    users : array of int
        Codes of the users.
    sampling : Sampling
        How to draw.
    advance : Bar
        Advances by 1 in all.
    """

    def some(start: int) -> list[Examples]:
        block = users[start : start + _USERS_AT_ONCE].tolist()
        with one_thread():
            return [each for user in block for each in _of_user(training_users, user, sampling)]

    blocks = range(0, len(users), _USERS_AT_ONCE)
    results = advance.through(run_blocks(some, blocks), len(blocks))
    return [each for found in results for each in found]


def _of_user(training_users: TrainingUsers, user: int, sampling: Sampling) -> list[Examples]:
    features, times = training_users.features, training_users.interactions.times_of(user)
    rng = np.random.default_rng((sampling.random_state, user))
    is_validation = rng.random() < sampling.validation_share
    examples = []
    for length in _history_lengths(times, sampling, rng):
        parts = training_users.split(user, length, sampling.target)
        if parts is None:
            continue
        known, after = parts
        # Items consumed after the horizon are negatives too.
        others = features.statistics.items_outside(np.concatenate((known, after)))
        if not len(others):
            continue
        n_likely = min(_N_LIKELY, len(others) // 4) if sampling.target.is_short else 0
        likely = features.likely(known, n_likely)
        columns, offset = _draw_items(after, others, likely, sampling.negatives, rng)
        consumed = np.zeros(len(columns), np.float32)
        consumed[: len(after)] = 1.0
        examples.append(
            Examples(
                features.of(known, columns=columns).T,
                consumed,
                offset,
                np.full(len(columns), is_validation),
                np.full(len(columns), user),
            )
        )
    return examples


def _draw_items(
    after: NDArray[np.int64],
    others: NDArray[np.int64],
    likely: NDArray[np.int64],
    n_negatives: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the consumed items and sampled others, with their offsets.

    If there are likely items, half of the sample is drawn from them.
    """
    is_likely = np.zeros(max(after.max(), others.max()) + 1, np.int64)
    is_likely[likely[likely < len(is_likely)]] = 1
    most = n_negatives // 2 if len(likely) else n_negatives
    strata = [others[is_likely[others] == k] for k in (0, 1)]
    drawn = [rng.choice(some, min(most, len(some)), replace=False) for some in strata]
    rarer = [log_odds(len(some), len(few)) for some, few in zip(strata, drawn, strict=True)]
    columns = np.concatenate((after, *drawn))
    return columns, log_odds(len(after), len(others)) + np.array(rarer)[is_likely[columns]]


def _history_lengths(
    times: NDArray[np.int64], sampling: Sampling, rng: np.random.Generator
) -> list[int]:
    """Return the length of the longest history, and of a random shorter one.

    Of a few next items, other users teach more than other parts of a history.
    """
    longest = sampling.target.longest_past(times)
    if sampling.target.is_short and rng.random() > _EARLIER:
        return [longest]
    return [longest, max(int(longest * rng.random()), 1)]
