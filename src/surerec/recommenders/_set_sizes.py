"""Set sizes of a wrapped model beside those of popularity, at the same guarantee."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec.calibration import codes_in, observe
from surerec.errors import LargeSetsWarning
from surerec.measures import PopularityScorer

if TYPE_CHECKING:
    from surerec.calibration import UserCalibration
    from surerec.recommenders._group_calibration import Sample

_CONFIDENCES: Final = (0.9, 0.8, 0.7, 0.5)
_WARNED: Final = 0.8
_TRIED: Final = 200
"""Number of calibration users whose sets are counted."""
_TOLERANCE: Final = 1.05
"""Times the size of popularity's sets above which a model is not worth wrapping."""


def compare_sizes(calibration: UserCalibration, sample: Sample) -> pl.DataFrame:
    """Return the mean set size of a model and of popularity, at some confidences.

    Parameters
    ----------
    calibration : UserCalibration
        The calibration of the model.
    sample : Sample
        The model, the past that it was fitted on, and its calibration users.

    Returns
    -------
    polars.DataFrame
        ``confidence``, ``size``, ``popularity`` and ``candidates``, as means over calibration
        users. A size is null if the calibration users cannot support the confidence.
    """
    past, scorer = sample.past, sample.scorer
    cases = sample.cases.sample(_TRIED, 0)
    users, items = codes_in(past, cases.interactions)
    cases = cases[scorer.reaches(users[cases.users])]
    sizes = np.full((len(_CONFIDENCES), len(cases)), np.nan)
    for case in range(len(cases)):
        query = cases.query(case, users, items).known_to(past)
        found = calibration.assess(scorer, past, query, scorer.candidates(past, query.history))
        for place, level in enumerate(_CONFIDENCES):
            if not found.everything_qualifies(1 - level):
                sizes[place, case] = found.size(1 - level)
    baseline = observe(PopularityScorer(past, leave_out=False), past, sample.cases)
    curve = calibration.guarantee_kind.curve(baseline.ranks, baseline.owners, len(baseline))
    popularity = baseline.mean_sizes(curve, "rank", [1 - level for level in _CONFIDENCES])
    return pl.DataFrame(
        {
            "confidence": _CONFIDENCES,
            "size": pl.Series(sizes.mean(axis=1), dtype=pl.Float64).fill_nan(None),
            "popularity": pl.Series(popularity, dtype=pl.Float64),
            "candidates": [baseline.n_candidates.mean()] * len(_CONFIDENCES),
        }
    )


def warn_of_large_sets(name: str, sizes: pl.DataFrame) -> None:
    """Warn if popularity needs smaller sets than a model for the same guarantee."""
    row = sizes.row(by_predicate=pl.col("confidence") == _WARNED, named=True)
    size, popularity, whole = row["size"], row["popularity"], row["candidates"]
    if size is None or popularity is None or size <= _TOLERANCE * popularity:
        return
    warnings.warn(
        f"{name} needs {size / whole:.0%} of the catalogue at confidence {_WARNED:g}; popularity "
        f"needs {popularity / whole:.0%}. Its sets are valid but not useful. Check its ids and its "
        "training, and see sizes_.",
        LargeSetsWarning,
        stacklevel=5,
    )
