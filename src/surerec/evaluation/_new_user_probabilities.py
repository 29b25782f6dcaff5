"""Whether new users consume items as often as their probabilities say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec._threads import run_blocks
from surerec.calibration import (
    CalibrationUsers,
    Ranking,
    candidates_of,
    codes_in,
    hit_probabilities,
    list_features,
    profile_cases,
)
from surerec.errors import InputError
from surerec.evaluation._new_users import split_by
from surerec.evaluation._probabilities import calibrated_chances
from surerec.measures import as_recipe
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Horizon
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike

SHOWN: Final = 10
"""The length of the lists that are looked at."""
LIKELY: Final = 0.5
"""Items with at least this probability are looked at."""
UNLIKELY: Final = 0.001
"""And items with a smaller one than this."""

_GROUPS: Final = (f"top {SHOWN}", f"p >= {LIKELY}", f"p < {UNLIKELY}", "all items")
_HIT: Final = f"a hit in the top {SHOWN}"
_MOST: Final = 2000  # calibration users, as PopulationConformal has them
_AT_ONCE: Final = 8


def new_user_reliability(
    interactions: Interactions,
    measure: RecipeLike = "CM12",
    *,
    fitted: NDArray[np.integer] | float = 0.5,
    horizon: Horizon = 0.4,
    min_known: int = 5,
    seed: int = 0,
) -> pl.DataFrame:
    """Compare the probabilities that new users are told with what they consume.

    The catalogue, the counts, the measure and the probabilities are made from some users. The
    others are asked by their histories, of which the last part is held out.

    Parameters
    ----------
    interactions : Interactions
        The data.
    measure : str, measure or scorer, default="CM12"
        Any measure that :class:`surerec.PopulationConformal` accepts.
    fitted : float or array of int, default=0.5
        The users to fit on: a share, drawn at random, or codes.
    horizon : float or int, default=0.4
        What is held out: a share of the history, or a number of items.
    min_known : int, default=5
        Users with a shorter history are left out.
    seed : int, default=0
        Seed of the draws.

    Returns
    -------
    polars.DataFrame
        For the 10 best items of each new user, for items with a probability of at least 0.5 or
        below 0.001, for all items, and for a hit among the 10 best: ``predicted`` and
        ``observed`` (means over pairs of user and item), ``difference``, its standard error
        ``error`` with its two parts ``error_calibration`` and ``error_test`` (both over users;
        that of the calibration users is missing for a hit), ``n_users`` and ``n``. What no pair
        is in has no row.

    Raises
    ------
    InputError
        If there are too few users to calibrate or to ask.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=3)
    >>> top = new_user_reliability(films).row(0, named=True)
    >>> top["group"], abs(top["difference"]) < 3 * top["error"]
    ('top 10', True)
    """
    mine, others = _apart(interactions, fitted, seed)
    statistics = count_precedence(mine)
    scorer = as_recipe(measure).fit(statistics)
    calibrating = profile_cases(mine, horizon, min_known=min_known).sample(_MOST, seed)
    chances, outcomes = calibrated_chances(scorer, statistics, calibrating, seed)
    chances.probabilities(np.ones(1), min_known)  # fitted once, before threads ask for it
    users = CalibrationUsers.of(outcomes, "rank", statistics)
    cases = profile_cases(others, horizon, min_known=min_known)
    no_codes, items = codes_in(statistics, others)

    def some(start: int) -> list[tuple[NDArray[np.float64], ...]]:
        return [one(case) for case in range(start, min(start + _AT_ONCE, len(cases)))]

    def one(case: int) -> tuple[NDArray[np.float64], ...]:
        """Return, for each group, the number of items, probabilities, consumed, and the spread."""
        query = cases.query(case, no_codes, items)
        if not len(query.history):
            return ()
        scores = scorer.score_query(query)
        values = scorer.value(scores, len(query.history), statistics.n_users)
        candidates = candidates_of(scorer, statistics, query, scores)
        ranking = Ranking.of(candidates, scores, values, statistics.popularity)
        n_known, ranks = len(query.history), np.arange(1, len(ranking.items) + 1)
        said = chances.probabilities(ranking.shares, n_known).probability
        consumed = np.isin(ranking.items, items[cases.future(case)]).astype(np.float64)
        bins = chances.bins.of(ranking.shares, n_known)
        groups = np.array([ranks <= SHOWN, said >= LIKELY, said < UNLIKELY, ranks > 0])
        sums = np.stack((groups.sum(axis=1), groups @ said, groups @ consumed), axis=1)
        spreads = chances.curve.spreads(bins, ranks, n_known, groups)
        best, mass = ranking.of_the_best()
        hit = list_features(np.array([n_known]), best[[SHOWN - 1]], mass[[SHOWN - 1]])[0]
        return sums, spreads, np.append(hit, consumed[:SHOWN].any())

    blocks = range(0, len(cases), _AT_ONCE)
    found = [part for block in run_blocks(some, blocks) for part in block if part]
    if not found:
        raise InputError("No new user has a history of items that the fitted users consumed.")
    sums, spreads, lists = (np.array(part) for part in zip(*found, strict=True))
    rows = [
        _row(name, sums[:, group], spreads[:, group].sum(axis=0))
        for group, name in enumerate(_GROUPS)
        if sums[:, group, 0].any()
    ]
    known = list_features(users.n_known, users.values[:, SHOWN - 1], users.masses[:, SHOWN - 1])
    hit = hit_probabilities(known, users.first_ranks <= SHOWN, lists[:, :-1]).probability
    every = np.column_stack((np.ones(len(lists)), hit, lists[:, -1]))
    rows.append(_row(_HIT, every, None))
    return pl.DataFrame(rows)


def _apart(
    interactions: Interactions, fitted: NDArray[np.integer] | float, seed: int
) -> tuple[Interactions, Interactions]:
    """Return the interactions of the users to fit on and of the others, read apart."""
    n = interactions.n_users
    if isinstance(fitted, float):
        if not 0 < fitted < 1:
            raise InputError(f"fitted is {fitted}; it must be a share between 0 and 1.")
        codes = np.random.default_rng((seed, 7)).permutation(n)[: round(fitted * n)]
    else:
        codes = np.asarray(fitted)
    return split_by(interactions, codes)


def _row(
    group: str, sums: NDArray[np.float64], spread: NDArray[np.float64] | None
) -> dict[str, float | int | str | None]:
    """Return one group's row, from each user's number of items, probabilities and consumed."""
    counts, said, consumed = sums.T
    n = counts.sum()
    difference = (said.sum() - consumed.sum()) / n
    off = said - consumed - difference * counts  # of a ratio of sums, which are independent
    test = float(np.sqrt((off**2).sum()) / n)
    calibration = None if spread is None else float(np.linalg.norm(spread) / n)
    return {
        "group": group,
        "predicted": said.sum() / n,
        "observed": consumed.sum() / n,
        "difference": difference,
        "error": float(np.hypot(test, calibration or 0.0)),
        "error_calibration": calibration,
        "error_test": test,
        "n_users": int(np.count_nonzero(counts)),
        "n": int(n),
    }
