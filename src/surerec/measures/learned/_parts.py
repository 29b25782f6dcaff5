"""What was learned as arrays and texts, for a model folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.measures._folds import are_folds
from surerec.measures._scorer import Parts
from surerec.measures.learned._learned import LearnedMeasure
from surerec.measures.learned._ridge import Ridge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.precedence import PrecedenceStatistics

_FOLDS, _RIDGE, _SETTINGS = "learned_fold_of", "learned_ridge", "learned_settings"


def is_learned_part(name: str) -> bool:
    """Tell whether a part belongs to a learned scorer."""
    return name.startswith("learned_")


def to_parts(learned: LearnedMeasure, ridge: Ridge) -> Parts:
    """Give what is to be stored, the ridge included, so that opening it learns nothing again."""
    settings = {
        "feature_names": learned.feature_names,
        "intercepts": learned.intercepts,
        "params": learned.params,
    }
    texts = {_text(fold): text for fold, text in enumerate(learned.folds)}
    arrays: dict[str, NDArray[Any]] = {_FOLDS: learned.fold_of, _RIDGE: ridge.inverse}
    return Parts(arrays, {**texts, _SETTINGS: json.dumps(settings)})


def from_parts(
    statistics: PrecedenceStatistics,
    arrays: Mapping[str, NDArray[Any]],
    texts: Mapping[str, str],
) -> tuple[LearnedMeasure, Ridge]:
    """Read back what :func:`to_parts` gave; KeyError or ValueError if these are no such parts."""
    try:
        settings = json.loads(texts[_SETTINGS])
        intercepts = [float(value) for value in settings["intercepts"]]
        feature_names = [str(name) for name in settings["feature_names"]]
        params = dict(settings["params"])
        is_future = _check_future(params, len(intercepts))
        _check_ingredients(params, len(intercepts))
    except (TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError("the settings are not those of a learned measure") from error
    if not intercepts or not np.isfinite(intercepts).all() or not is_future:
        raise ValueError("the settings are not those of a learned measure")
    folds = [texts[_text(fold)] for fold in range(len(intercepts))]
    learned = LearnedMeasure(folds, arrays[_FOLDS], feature_names, intercepts, params)
    fold_of, inverse = learned.fold_of, arrays[_RIDGE]
    size = inverse.shape[0] if inverse.ndim else 0
    if (
        not are_folds(fold_of, statistics.n_users, len(intercepts))
        or {*arrays} != {_FOLDS, _RIDGE}
        or {*texts} != {_SETTINGS, *map(_text, range(len(intercepts)))}
        or inverse.shape != (size, size)
        or inverse.dtype != np.float64
        or not 0 < size <= statistics.n_items
    ):
        raise ValueError("they are not those of a learned measure")
    return learned, Ridge(inverse)


def _check_future(params: dict[str, Any], n_folds: int) -> bool:
    """Tell whether the future that it was trained for is one, and make numbers of it."""
    horizon = float(params["horizon"])
    if params.get("n_next") is None:
        params["horizon"] = horizon
        return 0 < horizon < 1
    n_next = params["n_next"] = [float(each) for each in params["n_next"]]
    return len(n_next) == n_folds and all(0 < each < np.inf for each in (horizon, *n_next))


def _check_ingredients(params: dict[str, Any], n_folds: int) -> None:
    """Refuse ingredients that are none; what was learned before there were any has none."""
    tried = params.get("ingredients")
    if tried is None:
        return
    params["ingredients"] = [
        {
            "kept": [str(name) for name in each["kept"]],
            "gains": {str(name): float(gain) for name, gain in each["gains"].items()},
        }
        for each in tried
    ]
    if len(params["ingredients"]) != n_folds:
        raise ValueError("the ingredients are not those of the folds")


def _text(fold: int) -> str:
    return f"learned_fold_{fold}"
