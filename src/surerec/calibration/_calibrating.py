"""Calibrating over users: everything that is kept of their futures, in two passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec._progress import stage
from surerec.calibration._chances import FEWEST_USERS, ItemChances, choose
from surerec.calibration._stored import CalibrationUsers
from surerec.errors import InputError
from surerec.futures import Cases, observe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._promises import Cut
    from surerec.calibration._users import UserCalibration
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics


class NobodyTook(Exception):  # noqa: N818  # what is the matter, not that something is
    """Nobody who calibrates took any of the items that are allowed."""


@stage("calibration")
def calibrate(
    scorer: Scorer,
    past: PrecedenceStatistics,
    cases: Cases,
    cut: Cut,
    statistics: PrecedenceStatistics,
    *,
    allowed: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> tuple[CalibrationUsers, ItemChances | None]:
    """Give what is kept of calibration users; no chances where they are too few.

    Parameters
    ----------
    scorer : Scorer
        What scores.
    past : PrecedenceStatistics
        What was known before their futures.
    cases : Cases
        The calibration users' pasts and futures.
    cut : {"rank", "score"}
        Where sets will be cut.
    statistics : PrecedenceStatistics
        Those that serve, by whose codes users go.
    allowed : array of int, optional
        The only items that are candidates, by code.
    seed : int, default=0
        Of who chooses.
    """
    choice = choose(scorer, past, cases, allowed=allowed, seed=seed)
    bins = None if choice is None else choice.bins
    doing = "Scoring calibration users"
    outcomes = observe(scorer, past, cases, bins=bins, allowed=allowed, doing=doing)
    if allowed is not None and not len(outcomes):
        raise NobodyTook
    users = CalibrationUsers.of(outcomes, cut, statistics)
    if choice is None or len(outcomes) < FEWEST_USERS:
        return users, None
    chances = ItemChances.of(outcomes, choice)
    return users, None if chances.chooses.all() else chances


def cases_of(calibration: UserCalibration, interactions: Interactions) -> Cases:
    """Give the pasts and futures of calibration users again, from the profiles that serve."""
    users, chances = calibration.users, calibration.chances
    if chances is None:
        raise InputError(
            f"Item lists and groups are calibrated on at least {FEWEST_USERS} users, and this "
            "model has fewer."
        )
    known = interactions.offsets[users.users] + users.n_before
    stops = known + np.bincount(users.owners, minlength=len(users))
    if (users.users < 0).any() or (stops > interactions.offsets[users.users + 1]).any():
        raise InputError(
            "This model was recalibrated without recounting, and does not hold what its "
            "calibration users consumed next: recalibrate it with refit=True first."
        )
    begin = int(chances.begin[0])
    return Cases(interactions, users.users, known, stops, None if begin < 0 else begin)
