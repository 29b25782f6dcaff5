"""What was learned as arrays and texts, for a model folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from surerec.measures._folds import are_folds
from surerec.measures._scorer import Parts
from surerec.measures.als import factors_from_parts, factors_to_parts
from surerec.measures.learned._forward import ForwardRidge
from surerec.measures.learned._learned import LearnedMeasure
from surerec.measures.learned._offered import extras_of
from surerec.measures.learned._ridge import Ridge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.measures.als import Factorisation
    from surerec.measures.learned._features import Features
    from surerec.precedence import PrecedenceStatistics

_Part = TypeVar("_Part")
_FOLDS, _RIDGE, _SETTINGS = "learned_fold_of", "learned_ridge", "learned_settings"
_FORWARD = ("learned_forward_inverse", "learned_forward_weights")
_FACTORS = "learned_of_"  # and what a matrix factorisation calls its own


def is_learned_part(name: str) -> bool:
    """Tell whether a part belongs to a learned scorer."""
    return name.startswith("learned_")


def to_parts(learned: LearnedMeasure, features: Features) -> Parts:
    """Give what is to be stored, ridges and factors included: opening it learns nothing again."""
    settings = {
        "feature_names": learned.feature_names,
        "intercepts": learned.intercepts,
        "params": learned.params,
    }
    texts = {_text(fold): text for fold, text in enumerate(learned.folds)}
    arrays: dict[str, NDArray[Any]] = {_FOLDS: learned.fold_of, _RIDGE: features.ridge.inverse}
    if features.forward is not None:
        forward = features.forward.inverse, features.forward.weights
        arrays |= dict(zip(_FORWARD, forward, strict=True))
    if features.factors is not None:
        more, settings_of = factors_to_parts(features.factors)
        arrays |= {_FACTORS + name: array for name, array in more.items()}
        texts |= {_FACTORS + name: text for name, text in settings_of.items()}
    return Parts(arrays, {**texts, _SETTINGS: json.dumps(settings)})


def from_parts(
    statistics: PrecedenceStatistics,
    arrays: Mapping[str, NDArray[Any]],
    texts: Mapping[str, str],
) -> tuple[LearnedMeasure, Ridge, ForwardRidge | None, Factorisation | None]:
    """Read back what :func:`to_parts` gave; KeyError or ValueError if these are no such parts."""
    statistics = statistics.counted  # what grows has the parts of what it grew from
    arrays, of_arrays = _apart(arrays)
    texts, of_texts = _apart(texts)
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
    extras = extras_of(feature_names)
    forward = _FORWARD if "past to future" in extras else ()
    factors = factors_from_parts(statistics, of_arrays, of_texts) if of_arrays else None
    if (
        not are_folds(learned.fold_of, statistics.n_users, len(intercepts))
        or {*arrays} != {_FOLDS, _RIDGE, *forward}
        or {*texts} != {_SETTINGS, *map(_text, range(len(intercepts)))}
        or not _are_square([arrays[_RIDGE]], statistics.n_items)
        or not _are_square([arrays[name] for name in forward], statistics.n_items)
        or (factors is None) is ("matrix factorisation" in extras)
    ):
        raise ValueError("they are not those of a learned measure")
    matrices = [arrays[name] for name in forward]
    return learned, Ridge(arrays[_RIDGE]), ForwardRidge(*matrices) if matrices else None, factors


def _apart(parts: Mapping[str, _Part]) -> tuple[dict[str, _Part], dict[str, _Part]]:
    """Tell the parts of a matrix factorisation from the others, by its own names."""
    own = {name: part for name, part in parts.items() if not name.startswith(_FACTORS)}
    rest = {name[len(_FACTORS) :]: parts[name] for name in parts if name not in own}
    return own, rest


def _are_square(matrices: list[NDArray[Any]], n_items: int) -> bool:
    """Tell whether these are matrices of the same items, some of all."""
    sizes = {each.shape[0] if each.ndim else 0 for each in matrices}
    return not matrices or (
        len(sizes) == 1
        and 0 < min(sizes) <= n_items
        and all(each.shape == (*sizes, *sizes) and each.dtype == np.float64 for each in matrices)
    )


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
