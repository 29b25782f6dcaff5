"""Item-level p-values of later items, and a test of drift in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._arguments import check_numbers
from surerec._threads import for_each
from surerec.calibration import compare_with_items
from surerec.errors import InputError
from surerec.evaluation import (
    CHECKED_EPSILONS,
    MeasuredSets,
    assess_model,
    candidates_of,
    split_user,
    unknown_among,
)
from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from surerec.audit._subject import AuditSubject
    from surerec.calibration import Assessment
    from surerec.evaluation import Split, SplitOrder
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

ALPHA: Final = 0.01
"""The p-value below which drift is reported."""

_BETS: Final = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
_JUMPING: Final = 0.01


@njit(nogil=True, cache=True)
def online_p_values(
    scores: NDArray[np.float64], uniforms: NDArray[np.float64], p_values: NDArray[np.float64]
) -> None:
    """Compute the smoothed p-value of each score among itself and the scores before it."""
    ordered = np.empty(len(scores))
    for n in range(len(scores)):
        score = scores[n]
        below = np.searchsorted(ordered[:n], score)
        above = np.searchsorted(ordered[:n], score, side="right")
        p_values[n] = (below + uniforms[n] * (above - below + 1)) / (n + 1)
        for place in range(n, above, -1):
            ordered[place] = ordered[place - 1]
        ordered[above] = score


@njit(nogil=True, cache=True)
def _simple_jumper(
    p_values: NDArray[np.float64],
    bets: NDArray[np.float64],
    jumping: float,
    logarithms: NDArray[np.float64],
) -> None:
    """Compute the logarithm of the capital after each bet; the capital itself would overflow."""
    capital = np.full(len(bets), 1 / len(bets))
    logarithm = 0.0
    for n in range(len(p_values)):
        total = 0.0
        for k in range(len(bets)):
            capital[k] *= 1 + bets[k] * (p_values[n] - 0.5)
            total += capital[k]
        logarithm += np.log(total)
        logarithms[n] = logarithm
        for k in range(len(bets)):
            capital[k] = (1 - jumping) * capital[k] / total + jumping / len(bets)


class ItemLevel(NamedTuple):
    """The coverage of item-level sets, and their online p-values."""

    measured: MeasuredSets
    n_known: NDArray[np.int64]
    online: NDArray[np.float64] | None
    """Smoothed p-values of the items after the training items, each among those before it.

    They are ordered by time over all users, and are uniform and independent if the items of a user
    are exchangeable. None for a recommender that does not score its calibration items.
    """


def observe_items(
    subject: AuditSubject,
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    users: NDArray[np.int64],
    *,
    order: SplitOrder,
    random_state: int = 0,
) -> ItemLevel:
    """Compute the sets of each user under the paper's protocol, and the test items left out.

    Parameters
    ----------
    subject : AuditSubject
        The audited measure or recommender.
    scorer : Scorer
        Its scorer, fitted on these statistics.
    statistics : PrecedenceStatistics
        The counts; each user is left out of them.
    users : array of int
        Codes of the users.
    order : {"time", "random"}
        Whether calibration items precede the test items, or both are drawn at random.
    random_state : int
        Seed of the random split and of smoothing.
    """
    interactions = statistics.interactions

    def one(user: int) -> tuple[Split, NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        split = split_user(
            interactions, user, shares=subject.shares, order=order, random_state=random_state
        )
        rng = np.random.default_rng((random_state, user, 1))
        candidates = candidates_of(statistics, split)
        online = np.empty(0)
        assessed: Assessment
        if subject.model is not None:
            assessed = assess_model(subject.model, split, candidates)
        else:
            scores = scorer.score_query(Query(split.training, (user,)))
            probabilities = 1 - rng.random(len(candidates)) if subject.smoothed else None
            assessed = compare_with_items(
                scores, split.calibration, candidates, probabilities=probabilities
            )
            after = scores[np.concatenate((split.calibration, split.test))]
            online = np.empty(len(after))
            online_p_values(after, 1 - rng.random(len(after)), online)
        inside = np.stack([assessed.included(epsilon) for epsilon in CHECKED_EPSILONS])
        left_out = unknown_among(statistics, split, candidates) | ~inside
        missed = left_out[:, np.searchsorted(candidates, split.test)]
        return split, missed.mean(axis=1), (~left_out).sum(axis=1), online

    found = for_each(one, users.tolist(), f"p-values, {order} order")
    splits, losses, sizes, online = zip(*found, strict=True)
    measured = MeasuredSets(
        np.stack(losses, axis=1), np.stack(sizes, axis=1).astype(np.float64), np.zeros(len(users))
    )
    n_known = np.array([len(split.known) for split in splits])
    if subject.model is not None:
        return ItemLevel(measured, n_known, None)
    times = [interactions.times_of(split.user)[len(split.training) :] for split in splits]
    by_time = np.argsort(np.concatenate(times), kind="stable")
    return ItemLevel(measured, n_known, np.concatenate(online)[by_time])


def log_martingale(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithm of the Simple Jumper, a conformal test martingale, after each p-value.

    The martingale is the capital of a bettor who starts with 1 and bets against uniform p-values.
    Bets and jumping rate are those of ``crepes.martingales.SimpleJumper``. If p-values are uniform
    and independent, it ever reaches 1/α with probability at most α (Ville's inequality).

    Parameters
    ----------
    p_values : array-like of float
        In order of arrival.

    Notes
    -----
    Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*, 2nd edition, algorithm
    8.1.

    Examples
    --------
    >>> uniform = np.random.default_rng(1).random(2000)
    >>> bool(log_martingale(uniform).max() < np.log(100))
    True
    >>> bool(log_martingale(uniform**2).max() > np.log(1e9))
    True
    """
    values = check_numbers("p_values", p_values)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("p_values must all be between 0 and 1. Pass p-values, not scores.")
    logarithms = np.empty(len(values))
    _simple_jumper(values, _BETS, _JUMPING, logarithms)
    return logarithms


def drift_row(order: str, online: NDArray[np.float64]) -> dict[str, Any]:
    """Test online p-values for drift with the test martingale.

    Returns
    -------
    dict
        ``order``, ``test``, ``n``, ``statistic``, ``p_value``, ``drift``, ``meaning``.
    """
    highest = float(max(log_martingale(online).max(initial=0.0), 0.0))
    power, p_value = highest / np.log(10), float(np.exp(-highest))
    drift = p_value < ALPHA
    # A float cannot hold powers of ten above 308, so the exponent is printed.
    found = f"drift: p-value of exchangeability at most 1e-{int(power)}"
    return {
        "order": order,
        "test": "test martingale, log10 of its maximum",
        "n": len(online),
        "statistic": power,
        "p_value": p_value,
        "drift": drift,
        "meaning": found if drift else f"no drift found: p-value {p_value:.2g}",
    }
