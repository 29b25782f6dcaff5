"""Whether a promised precision is delivered to people who calibrated nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._calendar import day_of
from surerec.calibration import ItemChances, choose, choose_bins, observe
from surerec.conformal import ServedPrecision
from surerec.evaluation._calendar import calendar_windows
from surerec.measures import as_recipe
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Bins, Outcomes
    from surerec.evaluation._calendar import Calendar
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike

CHECKED_PRECISIONS: Final = (0.2, 0.3, 0.4, 0.5, 0.7)
"""The precisions that are looked at where nothing else is said."""

_SHAPING: Final = 300


def precision_over_splits(
    outcomes: Outcomes,
    *,
    precisions: Sequence[float] = CHECKED_PRECISIONS,
    delta: float = 0.1,
    n_splits: int = 40,
    seed: int = 0,
) -> pl.DataFrame:
    """Promise a precision on a random half of the users and see what the others get, many times.

    Parameters
    ----------
    outcomes : Outcomes
        With all candidates' shares.
    precisions : sequence of float
        The levels.
    delta : float
        With which probability a promise may fail.
    n_splits : int
        How many halves.
    seed : int
        Of the halves.

    Returns
    -------
    polars.DataFrame
        For each split and level: ``delivered`` (mean share taken of what served people are shown),
        ``length`` (their mean list), ``served`` (share of people); null where the level is refused,
        with ``reachable``, the best that can be promised.
    """
    n = len(outcomes)
    rng = np.random.default_rng(seed)
    rows = []
    for split in range(n_splits):
        order = rng.permutation(n)
        calibrates, tested = order[: n // 2], order[n // 2 :]
        choosing = calibrates[: len(calibrates) // 4]
        bins = choose_bins(_some(outcomes, np.sort(choosing[:_SHAPING])))[0]
        counts, hits = binned(outcomes, bins)
        lists = ServedPrecision(
            counts[calibrates], hits[calibrates], np.arange(len(calibrates)) < len(choosing)
        )
        rows += [
            {"split": split, **row}
            for row in _delivered(lists, counts[tested], hits[tested], precisions, delta)
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def precision_over_calendar(
    interactions: Interactions,
    recipe: RecipeLike,
    calendar: Calendar,
    *,
    precisions: Sequence[float] = CHECKED_PRECISIONS,
    delta: float = 0.1,
    n_windows: int | None = None,
) -> pl.DataFrame:
    """Promise a precision on each window of the calendar, and see what the next one delivers.

    Calibrated on a window with counts from before it, then counted anew: what
    ``PopulationConformal.recalibrate`` does. The rows are those of :func:`precision_over_splits`,
    with ``window``, the first day of the one that is served, in the place of ``split``.
    """
    made = as_recipe(recipe)
    rows = []
    for begin in calendar_windows(interactions, calendar)[-n_windows if n_windows else 0 :]:
        earlier = begin - calendar.length
        cases = calendar.cases(interactions, earlier), calendar.cases(interactions, begin)
        if cases[0] is None or cases[1] is None or len(cases[1]) < calendar.min_users:
            continue
        past, now = (
            count_precedence(interactions.until(date), ties=calendar.ties)
            for date in (earlier, begin)
        )
        scorer = made.fit(past)
        choice = choose(scorer, past, cases[0], seed=calendar.seed)
        if choice is None:
            continue
        calibrated = observe(scorer, past, cases[0], bins=choice.bins)
        chances = ItemChances.of(calibrated, choice)
        order = np.random.default_rng(calendar.seed).permutation(len(calibrated))
        lists = ServedPrecision(chances.counts[order], chances.hits[order], chances.chooses[order])
        tested = observe(made.update(scorer, now), now, cases[1], bins=choice.bins)
        assert tested.counts is not None  # noqa: S101  # as bins were given
        assert tested.hits is not None  # noqa: S101
        found = _delivered(lists, tested.counts, tested.hits, precisions, delta)
        rows += [{"window": day_of(begin), "n_test": len(tested), **row} for row in found]
    return pl.DataFrame(rows, infer_schema_length=None)


def binned(outcomes: Outcomes, bins: Bins) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count each case's candidates by bin, and those taken, from shares that were kept."""
    shares = outcomes.candidate_shares
    assert shares is not None  # noqa: S101  # they are asked for
    shape = len(outcomes), bins.n
    counts, hits = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    ends = np.searchsorted(outcomes.owners, np.arange(len(outcomes) + 1))
    for case, n_known in enumerate(outcomes.n_known):
        places = bins.of(shares[case, : outcomes.n_candidates[case]], int(n_known))
        ranks = outcomes.ranks[ends[case] : ends[case + 1]]
        taken = places[ranks[np.isfinite(ranks)].astype(np.int64) - 1]
        counts[case] = np.bincount(places, minlength=bins.n)
        hits[case] = np.bincount(taken, minlength=bins.n)
    return counts, hits


def _delivered(
    lists: ServedPrecision,
    counts: NDArray[np.integer],
    hits: NDArray[np.integer],
    precisions: Sequence[float],
    delta: float,
) -> Iterator[dict[str, Any]]:
    reachable = None
    for precision in precisions:
        passed = lists.passed(precision, delta=delta)
        row: dict[str, Any] = {"precision": precision}
        if passed is None:
            reachable = lists.best(delta=delta) if reachable is None else reachable
            yield row | dict.fromkeys(("delivered", "length", "served")) | {"reachable": reachable}
            continue
        shown, taken = (some[:, passed.threshold :].sum(axis=1) for some in (counts, hits))
        served = shown > 0
        yield row | {
            "delivered": float((taken[served] / shown[served]).mean()),
            "length": float(shown[served].mean()),
            "served": float(served.mean()),
            "reachable": None,
        }


def _some(outcomes: Outcomes, chosen: NDArray[np.intp]) -> Outcomes:
    """Give the outcomes of some cases, by ascending place."""
    assert outcomes.candidate_shares is not None  # noqa: S101  # they are asked for
    kept = np.isin(outcomes.owners, chosen)
    return type(outcomes)(
        cases=outcomes.cases[chosen],
        owners=np.searchsorted(chosen, outcomes.owners[kept]),
        items=outcomes.items[kept],
        ranks=outcomes.ranks[kept],
        shares=outcomes.shares[kept],
        n_known=outcomes.n_known[chosen],
        n_candidates=outcomes.n_candidates[chosen],
        values=outcomes.values[chosen],
        masses=outcomes.masses[chosen],
        candidate_shares=outcomes.candidate_shares[chosen],
    )
