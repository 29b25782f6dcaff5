"""Lists of a few items: the chance that at least one, two or three of them are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.calibration._chances import MOST_HITS
from surerec.calibration._slates import hit_probabilities, slate_features
from surerec.conformal import CalibratedProbability

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._chances import ItemChances
    from surerec.calibration._stored import CalibrationUsers

_FOLDS: Final = 10
"""Calibration users are told by the others but for their own tenth, which is fitted ten times."""


def list_chances(
    users: CalibrationUsers,
    chances: ItemChances | None,
    lengths: NDArray[np.int64],
    features: NDArray[np.float64],
    places: NDArray[np.int64],
) -> CalibratedProbability:
    """Give the chances of many people's lists, 3 × people; NaN for what is not calibrated.

    Parameters
    ----------
    users, chances
        What is kept of the calibration users.
    lengths : array of int
        Of each list, which holds a person's best items; 1 to 100.
    features : array of float
        As :func:`slate_features` gives them for that length, a row a person.
    places : array of int
        Which of the calibration users each person is; −1 for nobody.
    """
    shape = MOST_HITS, len(lengths)
    found = CalibratedProbability(*(np.full(shape, np.nan) for _ in range(3)))
    ranks = users.first_ranks[:, None] if chances is None else chances.hit_ranks
    fold_of = np.where(places < 0, -1, places % _FOLDS)
    everybody = np.arange(len(users)) % _FOLDS
    for length in np.unique(lengths):
        known = slate_features(
            users.n_known, users.values[:, length - 1], users.masses[:, length - 1]
        )
        for fold in np.unique(fold_of[lengths == length]):
            mine = (lengths == length) & (fold_of == fold)
            others = everybody != fold
            for n_hits in range(ranks.shape[1]):
                said = hit_probabilities(
                    known[others], ranks[others, n_hits] <= length, features[mine]
                )
                for whole, part in zip(found, said, strict=True):
                    whole[n_hits, mine] = part
    for part in found:
        np.minimum.accumulate(part, axis=0, out=part)  # two hits are never likelier than one
    return found
