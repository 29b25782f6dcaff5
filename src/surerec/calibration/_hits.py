"""The probability that a short list holds at least one item that the user consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from surerec.calibration._chances import MOST_HITS
from surerec.conformal import CalibratedProbability, venn_abers
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._chances import ItemChances
    from surerec.calibration._stored import CalibrationUsers

Weights: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]"
"""Coefficients learned on the even users, on the odd ones, and on all; each with the intercept."""

_HALVES: Final = (slice(0, None, 2), slice(1, None, 2))
_STEPS: Final = 25
_RIDGE: Final = 1e-3  # keeps the fit finite where everybody, or nobody, found a hit
_FOLDS: Final = 10
"""Calibration users are told by the others but for their own tenth, which is fitted ten times."""


def list_features(
    n_known: NDArray[np.int64], values: NDArray[np.floating], masses: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return what tells one user's short list from another's, a row for each user.

    How much is known of them (long profiles have used up the obvious items), the mean value of the
    list's items, and their share of all scores.
    """
    return np.column_stack((np.log1p(n_known), values, masses)).astype(np.float64)


def list_hits(
    users: CalibrationUsers,
    chances: ItemChances | None,
    lengths: NDArray[np.int64],
    features: NDArray[np.float64],
    places: NDArray[np.int64],
    learned: dict[tuple[int, int, int], Weights],
) -> CalibratedProbability:
    """Return the probabilities of at least one, two and three hits in users' lists, 3 × users.

    NaN for what is not calibrated.

    Parameters
    ----------
    users, chances
        What is kept of the calibration users.
    lengths : array of int
        Of each list, which holds a user's best items; 1 to 100.
    features : array of float
        As :func:`list_features` returns them for that length, a row a user.
    places : array of int
        Which of the calibration users each user is; −1 for none.
    learned : dict
        Weights of earlier calls with the same calibration users; new ones are added.
    """
    shape = MOST_HITS, len(lengths)
    found = CalibratedProbability(*(np.full(shape, np.nan) for _ in range(3)))
    ranks = users.first_ranks[:, None] if chances is None else chances.hit_ranks
    fold_of = np.where(places < 0, -1, places % _FOLDS)
    everybody = np.arange(len(users)) % _FOLDS
    for length in np.unique(lengths):
        known = list_features(
            users.n_known, users.values[:, length - 1], users.masses[:, length - 1]
        )
        for fold in np.unique(fold_of[lengths == length]):
            mine = (lengths == length) & (fold_of == fold)
            others = everybody != fold
            for n_hits in range(ranks.shape[1]):
                key, hit = (int(length), int(fold), n_hits), ranks[others, n_hits] <= length
                if key not in learned:
                    learned[key] = learn_weights(known[others], hit)
                said = hit_probabilities(known[others], hit, features[mine], learned[key])
                for whole, part in zip(found, said, strict=True):
                    whole[n_hits, mine] = part
    for part in found:
        np.minimum.accumulate(part, axis=0, out=part)  # two hits are never likelier than one
    return found


def learn_weights(features: NDArray[np.float64], hit: NDArray[np.bool_]) -> Weights:
    """Return the logistic regressions on both halves of the users, and on all of them."""
    known, _ = _scaled(features, features[:0])
    if len(known) < len(_HALVES):
        raise InputError("The probability of a hit needs at least two calibration users.")
    first, second = (_logistic(known[half], hit[half]) for half in _HALVES)
    return first, second, _logistic(known, hit)


def hit_probabilities(
    features: NDArray[np.float64],
    hit: NDArray[np.bool_],
    new: NDArray[np.float64],
    weights: Weights | None = None,
) -> CalibratedProbability:
    """Return the probability of a hit for each new row of features.

    The bounds are calibrated whatever the features are worth: a logistic regression on every other
    calibration user makes one score of the features, and the users in between turn that into two
    Venn–Abers probabilities. Then they change places, and both answers are averaged. The
    probability is that of a logistic regression on all of them, which is right on average, within
    the bounds; merging the bounds alone would lean to 1/2 where few users are alike. `weights` are
    those of :func:`learn_weights`, if they are known.
    """
    *of_halves, of_all = learn_weights(features, hit) if weights is None else weights
    known, wanted = _scaled(features, new)
    answers = []
    for learned, calibrate in zip(of_halves, _HALVES[::-1], strict=True):
        slopes = learned[:-1]
        answers.append(venn_abers(known[calibrate] @ slopes, hit[calibrate], wanted @ slopes))
    low, high = (
        np.mean([getattr(each, end) for each in answers], axis=0) for end in ("low", "high")
    )
    said = 1 / (1 + np.exp(-(wanted @ of_all[:-1] + of_all[-1])))
    return CalibratedProbability(np.clip(said, low, high), low, high)


def _scaled(
    features: NDArray[np.float64], new: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both with the mean and the spread of the first; constant features are dropped."""
    scale = features.std(axis=0)
    kept = scale > 0
    mean = features[:, kept].mean(axis=0)
    return (features[:, kept] - mean) / scale[kept], (new[:, kept] - mean) / scale[kept]


def _logistic(features: NDArray[np.float64], hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return coefficients by Newton's method, the intercept last: it is hardly penalised."""
    design = np.column_stack((features, np.ones(len(features))))
    weights = np.zeros(design.shape[1])
    ridge = np.full(len(weights), _RIDGE * len(hit))
    ridge[-1] = _RIDGE
    for _ in range(_STEPS):
        said = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (hit - said) - ridge * weights
        curvature = (design.T * (said * (1 - said))) @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        weights += step
        if np.abs(step).max() < 1e-8:  # noqa: PLR2004
            break
    return weights
