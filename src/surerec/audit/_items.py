"""p-values of what users consumed later, and tests whether later items conform as earlier did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit
from scipy import stats

from surerec._arguments import check_numbers
from surerec.calibration import compare_with_items
from surerec.conformal import left_out_up_to, smoothed_p_values
from surerec.errors import InputError
from surerec.evaluation import (
    CHECKED_EPSILONS,
    Judgement,
    MeasuredSets,
    assess_model,
    candidates_of,
    for_each,
    split_user,
    unknown_among,
)
from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from surerec.audit._subject import AuditSubject
    from surerec.evaluation import Split, SplitOrder
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

ALPHA: Final = 0.01
"""Below this p-value drift is called found."""

_BETS: Final = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
_JUMPING: Final = 0.01


@njit(nogil=True, cache=True)
def online_p_values(
    scores: NDArray[np.float64], uniforms: NDArray[np.float64], p_values: NDArray[np.float64]
) -> None:
    """Compute each score's smoothed p-value among those before it and itself."""
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
    """Compute the logarithm of the capital after each bet, which would soon be too large."""
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


@dataclass(frozen=True)
class PValues:
    """Smoothed p-values, which are uniform where a person's items are exchangeable.

    Attributes
    ----------
    earlier, earlier_owners : array
        Of each calibration item among the others of the same person, and whose it is.
    later, later_owners : array
        Of each later item among that person's calibration items.
    online : array of float
        Of each item after the training items among those before it, of all people by time: under
        exchangeability these are independent of one another too.
    """

    earlier: NDArray[np.float64]
    earlier_owners: NDArray[np.int64]
    later: NDArray[np.float64]
    later_owners: NDArray[np.int64]
    online: NDArray[np.float64]


class _UserItems(NamedTuple):
    split: Split
    missed: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    earlier: NDArray[np.float64]
    later: NDArray[np.float64]
    online: NDArray[np.float64]


def observe_items(
    subject: AuditSubject,
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    users: NDArray[np.int64],
    *,
    order: SplitOrder,
    seed: int = 0,
) -> tuple[MeasuredSets, PValues | None]:
    """Make the sets of each user under the paper's protocol, and see what they left out.

    Parameters
    ----------
    subject : AuditSubject
        What is audited.
    scorer : Scorer
        What it became on these statistics.
    statistics : PrecedenceStatistics
        The counts; each user is left out of them.
    users : array of int
        Their codes.
    order : {"time", "random"}
        Calibration before test, or drawn at random from the same stretch of the profile.
    seed : int
        Of the draw, and of smoothing.

    Returns
    -------
    tuple of MeasuredSets and PValues
        No p-values for a recommender that has no scores for its calibration items.
    """
    interactions = statistics.interactions

    def one(user: int) -> _UserItems:
        split = split_user(interactions, user, shares=subject.shares, order=order, seed=seed)
        rng = np.random.default_rng((seed, user, 1))
        return _observe_user(subject, scorer, statistics, split, rng)

    found = for_each(one, users.tolist(), f"p-values, {order} order")
    splits = [each.split for each in found]
    missed = np.concatenate([each.missed for each in found], axis=1).astype(np.float64)
    n_later = [each.missed.shape[1] for each in found]
    owners = np.repeat(np.arange(len(found)), n_later)
    measured = MeasuredSets(
        users=users,
        n_known=np.array([len(split.known) for split in splits]),
        owners=owners,
        items=np.concatenate([split.test for split in splits]),
        missed=missed,
        losses=np.stack([np.bincount(owners, row, len(found)) for row in missed]) / n_later,
        sizes=np.stack([each.sizes for each in found], axis=1).astype(np.float64),
    )
    if subject.judge is not None:
        return measured, None
    # Of what follows the training items.
    times = [interactions.times_of(split.user)[len(split.training) :] for split in splits]
    by_time = np.argsort(np.concatenate(times), kind="stable")
    p_values = PValues(
        earlier=np.concatenate([each.earlier for each in found]),
        earlier_owners=np.repeat(np.arange(len(found)), [len(each.earlier) for each in found]),
        later=np.concatenate([each.later for each in found]),
        later_owners=owners,
        online=np.concatenate([each.online for each in found])[by_time],
    )
    return measured, p_values


def _observe_user(
    subject: AuditSubject,
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    split: Split,
    rng: np.random.Generator,
) -> _UserItems:
    candidates = candidates_of(statistics, split)
    unknown = unknown_among(statistics, split, candidates)
    tested = np.searchsorted(candidates, split.test)
    none = np.empty(0)
    if subject.judge is not None:
        given = Judgement.of(assess_model(subject.judge, split, candidates))
        judged = given.without(unknown)
        assert judged.counts is not None  # noqa: S101  # it gives confidence
        left_out = judged.counts <= left_out_up_to(CHECKED_EPSILONS, judged.levels)[:, None]
        return _UserItems(split, left_out[:, tested], (~left_out).sum(1), *[none] * 3)
    scores = scorer.score_query(Query(split.training, (split.user,)))
    chances = 1 - rng.random(len(candidates)) if subject.smoothed else None
    assessed = compare_with_items(scores, split.calibration, candidates, chances=chances)
    left_out = unknown | ~np.stack([assessed.included(epsilon) for epsilon in CHECKED_EPSILONS])
    known = scores[split.calibration]
    after = scores[np.concatenate((split.calibration, split.test))]
    online = np.empty(len(after))
    online_p_values(after, 1 - rng.random(len(after)), online)
    return _UserItems(
        split,
        left_out[:, tested],
        (~left_out).sum(axis=1),
        among_themselves(known, 1 - rng.random(len(known))),
        smoothed_p_values(known, scores[split.test], 1 - rng.random(len(split.test))),
        online,
    )


def among_themselves(
    scores: NDArray[np.float64], uniforms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the smoothed p-value of each score among all of them.

    Examples
    --------
    >>> among_themselves(np.array([3.0, 1.0, 3.0]), np.full(3, 0.5)).round(3).tolist()
    [0.667, 0.167, 0.667]
    """
    ordered = np.sort(scores)
    below = np.searchsorted(ordered, scores)
    alike = np.searchsorted(ordered, scores, side="right") - below
    return np.asarray((below + uniforms * alike) / max(len(scores), 1))


def log_martingale(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithm of the Simple Jumper, a conformal test martingale, after each p-value.

    It is the capital of a bettor who starts with 1 and bets against uniform p-values, with the
    bets and the jumping rate of ``crepes.martingales.SimpleJumper``. While p-values are uniform
    and independent it ever reaches 1/α with probability at most α (Ville).

    Parameters
    ----------
    p_values : array-like of float
        One after the other.

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
        raise InputError("p_values are not all between 0 and 1.")
    logarithms = np.empty(len(values))
    _simple_jumper(values, _BETS, _JUMPING, logarithms)
    return logarithms


def drift_rows(order: str, p_values: PValues, seed: int = 0) -> list[dict[str, Any]]:
    """Test the p-values of one protocol.

    The Kolmogorov–Smirnov tests take one random item of each user: those of one user share their
    calibration items, and are not independent.

    Returns
    -------
    list of dict
        ``order``, ``test``, ``n``, ``statistic``, ``p_value``, ``drift``, ``meaning``.
    """
    rng = np.random.default_rng(seed)
    earlier = _one_each(p_values.earlier, p_values.earlier_owners, rng)
    later = _one_each(p_values.later, p_values.later_owners, rng)
    alike = stats.ks_2samp(earlier, later, method="asymp")
    uniform = stats.kstest(later, "uniform")
    highest = float(max(log_martingale(p_values.online).max(initial=0.0), 0.0))
    power = highest / np.log(10)
    kolmogorov, n = "(Kolmogorov–Smirnov)", len(later)
    tests = (
        (f"earlier and later p-values alike {kolmogorov}", n, alike.statistic, alike.pvalue, ""),
        (f"later p-values uniform {kolmogorov}", n, uniform.statistic, uniform.pvalue, ""),
        # The largest power of ten that a float holds is about 308; the exponent says more.
        (
            "test martingale, log10 of its maximum",
            len(p_values.online),
            power,
            np.exp(-highest),
            f"at most 1e-{int(power)}",
        ),
    )
    rows = []
    for test, n_values, statistic, p_value, bound in tests:
        chance = bound or (f"{p_value:.1e}" if p_value > 0 else "below 1e-300")
        rows.append(
            {
                "order": order,
                "test": test,
                "n": n_values,
                "statistic": float(statistic),
                "p_value": float(p_value),
                "drift": bool(p_value < ALPHA),
                "meaning": f"drift: if items were exchangeable, chance {chance}"
                if p_value < ALPHA
                else f"no drift found: chance {p_value:.2g}",
            }
        )
    return rows


def _one_each(
    values: NDArray[np.float64], owners: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return one value of each owner at random."""
    order = rng.permutation(len(values))
    _, first = np.unique(owners[order], return_index=True)
    return values[order[first]]
