"""Reliability of probabilities: compares them with what new users consume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec._threads import for_each
from surerec.calibration import (
    CalibrationUsers,
    ItemProbabilities,
    choose,
    codes_in,
    hit_probabilities,
    list_features,
    observe,
    profile_cases,
    rank_items,
)
from surerec.errors import InputError
from surerec.evaluation._new_users import split_by, split_users
from surerec.measures import as_measure
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Cases, Horizon
    from surerec.interactions import Interactions
    from surerec.measures import MeasureLike, Scorer
    from surerec.precedence import PrecedenceStatistics

_SHOWN: Final = 10  # the length of short lists
_LIKELY, _UNLIKELY = 0.5, 0.001
_NEW_GROUPS: Final = (f"top {_SHOWN}", f"p >= {_LIKELY}", f"p < {_UNLIKELY}", "all items")
_MOST: Final = 2000  # calibration users, the default of PopulationConformal


def item_reliability(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    calibrating: Cases,
    tested: Cases,
    random_state: int = 0,
) -> pl.DataFrame:
    """Calibrate probabilities on some users, and compare with what other users consumed.

    Parameters
    ----------
    scorer : Scorer
        The scorer.
    statistics : PrecedenceStatistics
        The statistics that it was fitted on.
    calibrating, tested : Cases
        Known and held-out parts of histories of the calibration users and of the test users.
    random_state : int, default=0
        Seed of the choice of a scale.

    Returns
    -------
    polars.DataFrame
        See :func:`surerec.evaluation.new_user_reliability`.

    Raises
    ------
    InputError
        If there are too few users to calibrate or to test.
    """
    choice = choose(scorer, statistics, calibrating, random_state=random_state)
    if choice is None:
        raise InputError(
            f"{len(calibrating):,} users are too few for probabilities. Pass more users."
        )
    outcomes = observe(scorer, statistics, calibrating, bins=choice.bins)
    probabilities = ItemProbabilities.of(outcomes, choice)
    probabilities.probabilities(np.ones(1), 1)  # fit once, before threads use it
    users, items = codes_in(statistics, tested.interactions)

    def one(case: int) -> tuple[NDArray[np.float64], ...] | None:
        """Return, for each group, sums of items, probabilities and hits, and their spread."""
        query = tested.query(case, users, items)
        if not len(query.history):
            return None
        n_known = len(query.history)
        ranking, _ = rank_items(scorer, statistics, query, scorer.score_query(query))
        consumed = np.isin(ranking.items, items[tested.future(case)])
        ranks = np.arange(1, len(ranking.items) + 1)
        predicted = probabilities.probabilities(ranking.shares, n_known).probability
        bins = probabilities.bins.of(ranking.shares, n_known)
        groups = np.array([ranks <= _SHOWN, predicted >= _LIKELY, predicted < _UNLIKELY, ranks > 0])
        hits = consumed.astype(np.float64)
        sums = np.stack((groups.sum(axis=1), groups @ predicted, groups @ hits), axis=1)
        spreads = probabilities.curve.spreads(bins, ranks, n_known, groups)
        best, mass = ranking.of_the_best()
        features = list_features(np.array([n_known]), best[[_SHOWN - 1]], mass[[_SHOWN - 1]])[0]
        return sums, spreads, np.append(features, consumed[:_SHOWN].any())

    answers = for_each(one, range(len(tested)), "Probabilities of items")
    found = [each for each in answers if each is not None]
    if not found:
        raise InputError("No new user has an item that fitted users consumed. Pass more users.")
    sums, spreads, lists = (np.array(part) for part in zip(*found, strict=True))
    rows = [
        _row(name, sums[:, group], spreads[:, group].sum(axis=0))
        for group, name in enumerate(_NEW_GROUPS)
        if sums[:, group, 0].any()
    ]
    calibrated = CalibrationUsers.of(outcomes, outcomes.ranks, statistics)
    shown = calibrated.values[:, _SHOWN - 1], calibrated.masses[:, _SHOWN - 1]
    known = list_features(calibrated.n_known, *shown)
    hit = hit_probabilities(known, calibrated.first_ranks <= _SHOWN, lists[:, :-1]).probability
    every = np.column_stack((np.ones(len(lists)), hit, lists[:, -1]))
    rows.append(_row(f"a hit in the top {_SHOWN}", every, None))
    return pl.DataFrame(rows)


def new_user_reliability(
    interactions: Interactions,
    measure: MeasureLike = "CM12",
    *,
    fitted: NDArray[np.integer] | float = 0.5,
    horizon: Horizon = 0.4,
    min_history: int = 5,
    random_state: int = 0,
) -> pl.DataFrame:
    """Compare the probabilities for new users with what they consume.

    Catalogue, statistics, measure and probabilities are fitted on some users. The others are new
    users, with the last part of their histories held out.

    Parameters
    ----------
    interactions : Interactions
        The data.
    measure : str, measure or scorer, default="CM12"
        Any measure that :class:`surerec.PopulationConformal` accepts.
    fitted : float or array of int, default=0.5
        The users to fit on: a share, drawn at random, or codes.
    horizon : float or int, default=0.4
        Held-out share of a history, or number of held-out items.
    min_history : int, default=5
        Users with a shorter history are left out.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    polars.DataFrame
        For the 10 best items of each new user, for items with a probability of at least 0.5 or
        below 0.001, for all items, and for a hit among the 10 best: ``predicted`` and
        ``observed`` (means over pairs of user and item), ``difference``, its standard error
        ``error`` with its two parts ``error_calibration`` and ``error_test`` (both over users;
        that of the calibration users is missing for a hit), ``n_users`` and ``n``. Empty groups
        have no row.

    Raises
    ------
    InputError
        If there are too few users to calibrate or to test.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=3)
    >>> top = new_user_reliability(films).row(0, named=True)
    >>> top["group"], abs(top["difference"]) < 3 * top["error"]
    ('top 10', True)
    """
    if isinstance(fitted, float):
        if not 0 < fitted < 1:
            raise InputError(f"fitted is {fitted}. Pass a share between 0 and 1.")
        mine, others = split_users(interactions, fitted, random_state=(random_state, 7))
    else:
        mine, others = split_by(interactions, fitted)
    statistics = count_precedence(mine)
    scorer = as_measure(measure).fit(statistics)
    calibrating, tested = (
        profile_cases(each, horizon, min_history=min_history) for each in (mine, others)
    )
    return item_reliability(
        scorer, statistics, calibrating.sample(_MOST, random_state), tested, random_state
    )


def _row(
    group: str, sums: NDArray[np.float64], spread: NDArray[np.float64] | None
) -> dict[str, float | int | str | None]:
    """Return the row of one group, from each user's sums of items, probabilities and hits."""
    counts, predicted, consumed = sums.T
    n = counts.sum()
    difference = (predicted.sum() - consumed.sum()) / n
    off = predicted - consumed - difference * counts  # residuals of a ratio of independent sums
    test = float(np.sqrt((off**2).sum()) / n)
    calibration = None if spread is None else float(np.linalg.norm(spread) / n)
    return {
        "group": group,
        "predicted": predicted.sum() / n,
        "observed": consumed.sum() / n,
        "difference": difference,
        "error": float(np.hypot(test, calibration or 0.0)),
        "error_calibration": calibration,
        "error_test": test,
        "n_users": int(np.count_nonzero(counts)),
        "n": int(n),
    }
