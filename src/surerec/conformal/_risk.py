"""Risk control over users: how large a set must be, for any ε, from one curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from surerec._arguments import (
    check_code,
    check_codes,
    check_mask,
    check_number,
    check_numbers,
    check_whole,
)
from surerec.conformal._p_values import TOLERANCE
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_MOST_USERS = 2**32


def users_needed(significance: float) -> int:
    """Return the number of calibration users that ε needs, n ≥ 1/ε − 1.

    Examples
    --------
    >>> users_needed(0.1), users_needed(0.3)
    (9, 3)
    """
    epsilon = check_number("significance", significance, 0, 1, "between 0 and 1")
    return max(0, int(np.ceil(min(1 / epsilon, _MOST_USERS) - 1 - TOLERANCE)))


@dataclass(frozen=True)
class RiskCurve:
    """The loss of calibration users as a function of the threshold (conformal risk control).

    A set contains every item whose *entry* is at most the threshold; the entry is a rank or a
    negative score. Each calibration user loses 1 with the empty set, and less with each held-out
    item that enters.

    Parameters
    ----------
    entries : array of float
        The threshold at which each loss ends; infinite for items that no set contains.
    losses : array of float
        The part of its owner's loss that ends there. Those of one owner sum to 1.
    owners : array of int
        The calibration user of each entry, ``0 … n_users − 1``.
    n_users : int
        Number of calibration users.

    Notes
    -----
    The threshold at ε is the smallest with ``(Σ losses + 1) / (n + 1) ≤ ε``. If a user is
    exchangeable with the calibration users, their expected loss is then at most ε (Angelopoulos,
    Bates, Fisch, Lei and Schuster, *Conformal Risk Control*, 2024).

    Examples
    --------
    Four users, each with one held-out item, at ranks 1, 2, 3 and 9:

    >>> curve = RiskCurve(np.array([1.0, 2, 3, 9]), np.ones(4), np.arange(4), 4)
    >>> curve.threshold(0.4), curve.threshold(0.2), curve.threshold(0.1)
    (3.0, 9.0, inf)
    >>> curve.levels([1, 4]).tolist()
    [1.0, 0.4]
    """

    entries: NDArray[np.float64]
    losses: NDArray[np.float64]
    owners: NDArray[np.int64]
    n_users: int

    def __post_init__(self) -> None:
        check_whole("n_users", self.n_users, lowest=0)
        entries = check_numbers("entries", self.entries)
        losses = check_numbers("losses", self.losses)
        owners = check_codes("owners", self.owners, self.n_users)
        if not len(entries) == len(losses) == len(owners):
            raise InputError(
                f"entries, losses and owners have {len(entries):,}, {len(losses):,} and "
                f"{len(owners):,} values. Pass arrays of equal length."
            )
        if np.isnan(entries).any():
            raise InputError("Some entries are NaN. Pass scores without NaN.")

    @classmethod
    def of_shares(cls, entries: ArrayLike, owners: ArrayLike, n_users: int) -> RiskCurve:
        """Return the curve of 1 − recall: each held-out item is an equal share of the loss."""
        who = check_codes("owners", owners, check_whole("n_users", n_users, 0, _MOST_USERS))
        sizes = np.bincount(who, minlength=n_users)
        return cls(check_numbers("entries", entries), 1 / sizes[who], who, n_users)

    @classmethod
    def of_first(cls, entries: ArrayLike, owners: ArrayLike, n_users: int) -> RiskCurve:
        """Return the curve of the hit loss: 1 until the first held-out item enters."""
        first = np.full(check_whole("n_users", n_users, 0, _MOST_USERS), np.inf)
        who, when = check_codes("owners", owners, n_users), check_numbers("entries", entries)
        if len(who) != len(when):
            raise InputError(f"{len(when):,} entries need as many owners, not {len(who):,}.")
        np.minimum.at(first, who, when)
        return cls(first, np.ones(n_users), np.arange(n_users), n_users)

    def of_owners(self, chosen: NDArray[np.bool_]) -> RiskCurve:
        """Return the curve of some of the calibration users, such as a segment."""
        chosen = check_mask("chosen", chosen, self.n_users)
        kept = chosen[self.owners]
        owners = (np.cumsum(chosen) - 1)[self.owners[kept]]
        return RiskCurve(self.entries[kept], self.losses[kept], owners, int(chosen.sum()))

    @cached_property
    def _steps(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the entries in order, and the loss at a threshold below each."""
        order = np.argsort(self.entries, kind="stable")
        ended = np.concatenate(([0.0], np.cumsum(self.losses[order])))
        return self.entries[order], np.maximum(ended[-1] - ended, 0.0)

    @cached_property
    def _own_steps(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return each user's entries in order, their losses, and the offset of each user."""
        order = np.lexsort((self.entries, self.owners))
        sizes = np.bincount(self.owners, minlength=self.n_users)
        return self.entries[order], self.losses[order], np.concatenate(([0], np.cumsum(sizes)))

    def levels(
        self, entries: ArrayLike, *, without: int | NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return, for each entry, the ε below which an item of that entry is in the set.

        Parameters
        ----------
        entries : array-like of float
            The thresholds at which the items enter.
        without : int or array of int, optional
            A calibration user to leave out, so that their own outcomes have no effect; or one for
            each entry, −1 for none.

        Examples
        --------
        >>> curve = RiskCurve(np.array([1.0, 2, 3, 9]), np.ones(4), np.arange(4), 4)
        >>> curve.levels([4, 4], without=np.array([-1, 2])).tolist()
        [0.4, 0.5]
        """
        requested = check_numbers("entries", entries)
        ordered, left = self._steps
        loss: NDArray[np.float64] = left[np.searchsorted(ordered, requested)]
        if without is None:
            return np.asarray((loss + 1) / (self.n_users + 1))
        if not isinstance(without, np.ndarray):
            without = np.full(len(requested), check_code("without", without, self.n_users))
        # Entries of one user are adjacent.
        starts = np.flatnonzero(np.diff(without, prepend=-2))
        for start, stop in zip(starts, np.append(starts, len(requested))[1:], strict=True):
            if without[start] >= 0:
                own = self._own_loss(without[start], requested[start:stop])
                loss[start:stop] = np.maximum(loss[start:stop] - own, 0.0)
        return np.asarray((loss + 1) / (self.n_users + (without < 0)))

    def _own_loss(self, user: int, requested: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the loss of one user at a threshold below each entry."""
        entries, losses, offsets = self._own_steps
        own = slice(offsets[user], offsets[user + 1])
        left = np.append(np.cumsum(losses[own][::-1])[::-1], 0.0)
        found: NDArray[np.float64] = left[np.searchsorted(entries[own], requested)]
        return found

    @property
    def unknown_loss(self) -> float:
        """Mean loss over users that remains with every known item in the set."""
        ordered, left = self._steps
        return float(left[np.searchsorted(ordered, np.inf)]) / max(self.n_users, 1)

    def lowest_level(self, *, without: int | None = None) -> float:
        """Return the smallest ε that some set can guarantee.

        It is the mean `unknown_loss` over users, plus the finite-sample term of risk control:
        ``(Σ unknown losses + 1) / (n + 1)``.

        Examples
        --------
        One of two users consumed only an item that the model does not know:

        >>> curve = RiskCurve.of_shares([1.0, 7.0, np.inf], [0, 0, 1], n_users=2)
        >>> curve.unknown_loss, round(curve.lowest_level(), 3)
        (0.5, 0.667)
        """
        return float(self.levels([np.inf], without=without)[0])

    def threshold(self, significance: float) -> float:
        """Return the smallest threshold with risk at most ε; infinite if none has."""
        check_number("significance", significance, 0, 1, "between 0 and 1", ends=(True, True))
        ordered, left = self._steps
        spare = (significance + TOLERANCE) * (self.n_users + 1) - 1
        place = int(np.searchsorted(-left, -spare, side="left"))  # the first with at most this loss
        if place == len(left):
            return np.inf
        return float(ordered[place - 1]) if place else -np.inf
