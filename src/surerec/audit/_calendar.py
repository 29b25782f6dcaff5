"""The promise over the calendar: which windows, and what models of several ages deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl
from scipy import stats

from surerec._calendar import DAY
from surerec.audit._measured import LEVEL, interval_over_windows
from surerec.errors import InputError
from surerec.evaluation import AGES, Calendar, backtest

if TYPE_CHECKING:
    from surerec.audit._subject import Subject
    from surerec.interactions import Interactions
    from surerec.precedence import Ties


MOST_WINDOWS: Final = 12
_ENOUGH_WINDOWS: Final = 6
_BEFORE: Final = 3  # windows that the oldest model needs before the one that is tested
_LENGTHS: Final = (365, 180, 90, 60, 30, 14, 7, 3, 2, 1)


def default_window(interactions: Interactions) -> float:
    """Give the longest usual length, in days, of which the data have six windows to test.

    Examples
    --------
    >>> import surerec as sr
    >>> default_window(sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1))
    60.0
    """
    days = (int(interactions.times.max()) - int(interactions.times.min())) / DAY
    for length in _LENGTHS:
        if days // length >= _ENOUGH_WINDOWS + _BEFORE:
            return float(length)
    raise InputError(
        f"{days:,.1f} days from the first to the last item are too few for "
        f"{_ENOUGH_WINDOWS} windows with {_BEFORE} before them"
    )


def over_the_calendar(
    subject: Subject,
    interactions: Interactions,
    days: float,
    *,
    n_users: int,
    ties: Ties = "order",
    seed: int = 0,
) -> pl.DataFrame:
    """Test models of all ages in the latest windows, with the cut by rank.

    Returns
    -------
    polars.DataFrame
        As :func:`surerec.evaluation.backtest`, with ``promised``, ``delivered`` and ``below``:
        whether a window's users were delivered less than promised by more than chance, in any of
        all the windows and levels.
    """
    calendar = Calendar(days, min_known=subject.min_known, n_users=n_users, ties=ties, seed=seed)
    found = backtest(interactions, subject.recipe, calendar, n_windows=MOST_WINDOWS)
    each = (1 - LEVEL) / found["window"].n_unique()
    reach = float(stats.norm.ppf(1 - each / 2))
    error = (pl.col("loss_se") ** 2 + pl.col("calibration_se") ** 2).sqrt()
    return found.with_columns(
        promised=1 - pl.col("epsilon"),
        delivered=1 - pl.col("loss"),
        below=pl.col("loss") - reach * error > pl.col("epsilon"),
    )


def age_rows(calendar: pl.DataFrame) -> list[dict[str, Any]]:
    """Give what each age of model delivers on average over windows: a row for each age and ε."""
    rows = []
    for (model, epsilon), part in calendar.group_by("model", "epsilon", maintain_order=True):
        delivered, low, high = interval_over_windows(part["loss"])
        rows.append(
            {
                "kind": f"calendar-{AGES.index(str(model))}",
                "name": f"Over the calendar, {model}",
                "epsilon": epsilon,
                "promised": 1 - float(str(epsilon)),
                "delivered": delivered,
                "low": low,
                "high": high,
                "size": None if part["size"].has_nulls() else part["size"].mean(),
                "floor": part["floor"].max(),
                "n": len(part),
                "unit": "windows",
                "windows_below": int(part["below"].sum()),
            }
        )
    return sorted(rows, key=lambda row: (row["kind"], row["epsilon"]))
