"""Factors as arrays and a text, for a model folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.errors import InputError
from surerec.measures._folds import are_folds
from surerec.measures._scorer import Parts
from surerec.measures.als import _kernels as kernels
from surerec.measures.als._factors import Factorisation
from surerec.measures.als._settings import AlsSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.precedence import PrecedenceStatistics

_ITEMS, _GRAMS, _FOLDS, _SETTINGS = "als_items", "als_grams", "als_fold_of", "als_settings"
_ROUNDING: Final = 1e-6  # of a product of 32-bit numbers, wherever it was computed


def is_als_part(name: str) -> bool:
    """Tell whether a part belongs to a matrix factorisation."""
    return name.startswith("als_")


def to_parts(factors: Factorisation) -> Parts:
    """Give what is to be stored."""
    arrays: dict[str, NDArray[Any]] = {
        _ITEMS: factors.items,
        _GRAMS: factors.grams,
        _FOLDS: factors.fold_of,
    }
    return Parts(arrays, {_SETTINGS: json.dumps(asdict(factors.settings))})


def from_parts(
    statistics: PrecedenceStatistics,
    arrays: Mapping[str, NDArray[Any]],
    texts: Mapping[str, str],
) -> Factorisation:
    """Read back what :func:`to_parts` gave; KeyError or ValueError if these are no such parts."""
    items, grams, fold_of = arrays[_ITEMS], arrays[_GRAMS], arrays[_FOLDS]
    try:
        settings = AlsSettings(**json.loads(texts[_SETTINGS]))
    except (InputError, TypeError) as error:
        raise ValueError("they are not the settings of a matrix factorisation") from error
    n_folds, n_factors = settings.folds, settings.factors
    if (
        not are_folds(fold_of, statistics.n_users, n_folds)
        or items.shape != (n_folds, n_factors, statistics.n_items)
        or items.dtype != np.float32
        or grams.shape != (n_folds, n_factors, n_factors)
        or grams.dtype != np.float64
        or not np.isfinite(items).all()
        or not all(
            _belongs(gram, factors, settings) for gram, factors in zip(grams, items, strict=True)
        )
    ):
        raise ValueError("they are not those of a matrix factorisation")
    return Factorisation(items, grams, fold_of, settings)


def _belongs(
    gram: NDArray[np.float64], factors: NDArray[np.float32], settings: AlsSettings
) -> bool:
    """Tell whether a matrix is YᵀY of these factors, and people can be folded in with it."""
    if not np.isfinite(gram).all():
        return False
    wide = factors.astype(np.float64)
    near = _ROUNDING * max(float(np.abs(gram).max(initial=0.0)), 1e-300)
    if not np.allclose(gram, wide @ wide.T, rtol=0.0, atol=near):
        return False
    return bool(kernels.factor(gram + settings.regularization * np.eye(len(gram))))
