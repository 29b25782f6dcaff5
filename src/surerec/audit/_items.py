"""p-values of what people took later, from what they took before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.audit._kernels import online_p_values
from surerec.audit._measured import Measured
from surerec.calibration import compare_with_items
from surerec.conformal import left_out_up_to, smoothed_p_values
from surerec.evaluation import (
    CHECKED_EPSILONS,
    Judgement,
    assess_model,
    candidates_of,
    split_user,
    unknown_among,
)
from surerec.measures import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.audit._subject import Subject
    from surerec.evaluation import Split, SplitOrder
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics


_USERS_AT_ONCE = 8


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


class ItemLevel(NamedTuple):
    """What the paper's sets left out, and the p-values for tests of drift."""

    measured: Measured
    p_values: PValues | None
    """None for a recommender that has no scores for its calibration items."""


class _Person(NamedTuple):
    split: Split
    n_candidates: int
    missed: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    earlier: NDArray[np.float64]
    later: NDArray[np.float64]
    online: NDArray[np.float64]


def observe_items(
    subject: Subject,
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    users: NDArray[np.int64],
    *,
    order: SplitOrder,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    seed: int = 0,
) -> ItemLevel:
    """Make the sets of each user under the paper's protocol, and see what they left out.

    Parameters
    ----------
    subject : Subject
        What is audited.
    scorer : Scorer
        What it became on these statistics.
    statistics : PrecedenceStatistics
        The counts; each user is left out of them.
    users : array of int
        Their codes.
    order : {"time", "random"}
        Calibration before test, or drawn at random from the same stretch of the profile.
    epsilons : sequence of float
        The significance levels.
    seed : int
        Of the draw, and of smoothing.
    """
    interactions = statistics.interactions

    def one(user: int) -> _Person:
        split = split_user(interactions, user, shares=subject.shares, order=order, seed=seed)
        rng = np.random.default_rng((seed, user, 1))
        return _person(subject, scorer, statistics, split, epsilons, rng)

    def block(start: int) -> list[_Person]:
        return [one(user) for user in users[start : start + _USERS_AT_ONCE].tolist()]

    people: list[_Person] = []
    with progress(f"p-values, {order} order", total=len(users), unit="users") as advance:
        for found in run_blocks(block, range(0, len(users), _USERS_AT_ONCE)):
            people += found
            advance(len(found))
    measured = _measured(users, people)
    if subject.judge is not None:
        return ItemLevel(measured, None)
    splits = [person.split for person in people]
    # Of what follows the training items.
    times = [interactions.times_of(split.user)[len(split.training) :] for split in splits]
    by_time = np.argsort(np.concatenate(times), kind="stable")
    p_values = PValues(
        earlier=np.concatenate([person.earlier for person in people]),
        earlier_owners=np.repeat(np.arange(len(people)), [len(one.earlier) for one in people]),
        later=np.concatenate([person.later for person in people]),
        later_owners=measured.owners,
        online=np.concatenate([person.online for person in people])[by_time],
    )
    return ItemLevel(measured, p_values)


def _person(
    subject: Subject,
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    split: Split,
    epsilons: Sequence[float],
    rng: np.random.Generator,
) -> _Person:
    candidates = candidates_of(statistics, split)
    unknown = unknown_among(statistics, split, candidates)
    tested = np.searchsorted(candidates, split.test)
    none = np.empty(0)
    if subject.judge is not None:
        given = Judgement.of(assess_model(subject.judge, split, candidates))
        judged = given.without(unknown)
        assert judged.counts is not None  # noqa: S101  # it gives confidence
        left_out = judged.counts <= left_out_up_to(epsilons, judged.levels)[:, None]
        return _Person(split, len(candidates), left_out[:, tested], (~left_out).sum(1), *[none] * 3)
    scores = scorer.score_query(Query(split.training, (split.user,)))
    chances = 1 - rng.random(len(candidates)) if subject.smoothed else None
    assessed = compare_with_items(scores, split.calibration, candidates, chances=chances)
    left_out = unknown | ~np.stack([assessed.included(epsilon) for epsilon in epsilons])
    known = scores[split.calibration]
    after = scores[np.concatenate((split.calibration, split.test))]
    online = np.empty(len(after))
    online_p_values(after, 1 - rng.random(len(after)), online)
    return _Person(
        split,
        len(candidates),
        left_out[:, tested],
        (~left_out).sum(axis=1),
        among_themselves(known, 1 - rng.random(len(known))),
        smoothed_p_values(known, scores[split.test], 1 - rng.random(len(split.test))),
        online,
    )


def among_themselves(
    scores: NDArray[np.float64], uniforms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Give the smoothed p-value of each score among all of them.

    Examples
    --------
    >>> among_themselves(np.array([3.0, 1.0, 3.0]), np.full(3, 0.5)).round(3).tolist()
    [0.667, 0.167, 0.667]
    """
    ordered = np.sort(scores)
    below = np.searchsorted(ordered, scores)
    alike = np.searchsorted(ordered, scores, side="right") - below
    return np.asarray((below + uniforms * alike) / max(len(scores), 1))


def _measured(users: NDArray[np.int64], people: list[_Person]) -> Measured:
    missed = np.concatenate([person.missed for person in people], axis=1).astype(np.float64)
    n_later = [person.missed.shape[1] for person in people]
    owners = np.repeat(np.arange(len(people)), n_later)
    return Measured(
        users=users,
        n_known=np.array([len(person.split.known) for person in people]),
        n_candidates=np.array([person.n_candidates for person in people]),
        owners=owners,
        items=np.concatenate([person.split.test for person in people]),
        missed=missed,
        losses=np.stack([np.bincount(owners, row, len(people)) for row in missed]) / n_later,
        sizes=np.stack([person.sizes for person in people], axis=1).astype(np.float64),
    )
