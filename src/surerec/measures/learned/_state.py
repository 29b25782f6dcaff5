"""The state of a learned measure: arrays and texts, for a model folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec.measures.als import Factorisation
from surerec.measures.learned._forward import ForwardRidge
from surerec.measures.learned._learned import LearnedMeasure
from surerec.measures.learned._offered import extras_of
from surerec.measures.learned._ridge import Ridge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.learned._features import Features
    from surerec.precedence import PrecedenceStatistics

_SCHEMAS: Final = {
    "fold_of": ArraySchema("int8", ("n_users",), low=-1, below="n_folds"),
    "ridge": ArraySchema("float64", ("n_ridge", "n_ridge")),
}
_FORWARD: Final = {
    name: ArraySchema("float64", ("n_forward", "n_forward"))
    for name in ("forward_inverse", "forward_weights")
}
_FACTORS: Final = "als_"


def to_state(learned: LearnedMeasure, features: Features) -> State:
    """Return what is saved, ridges and factors included: opening it learns nothing again."""
    settings = {
        "feature_names": learned.feature_names,
        "intercepts": learned.intercepts,
        "params": learned.params,
    }
    texts = {_text(fold): text for fold, text in enumerate(learned.folds)}
    arrays: dict[str, NDArray[Any]] = {"fold_of": learned.fold_of, "ridge": features.ridge.inverse}
    if features.forward is not None:
        forward = features.forward.inverse, features.forward.weights
        arrays |= dict(zip(_FORWARD, forward, strict=True))
    found = State(arrays, {**texts, "settings": json.dumps(settings)})
    if features.factors is not None:
        found |= features.factors.state().under(_FACTORS)
    return found


def from_state(
    statistics: PrecedenceStatistics, state: State
) -> tuple[LearnedMeasure, Ridge, ForwardRidge | None, Factorisation | None]:
    """Read back what :func:`to_state` returned; KeyError or ValueError if it is no such state."""
    statistics = statistics.counted  # what grows has the state of what it grew from
    of_factors, (arrays, texts) = state.split(_FACTORS)
    try:
        settings = json.loads(texts["settings"])
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
    extras = extras_of(feature_names)
    has_forward = "past to future" in extras
    sizes = check_arrays(
        "a learned measure",
        _SCHEMAS | (_FORWARD if has_forward else {}),
        arrays,
        n_users=statistics.n_users,
        n_folds=len(intercepts),
    )
    ridges = [sizes[name] for name in ("n_ridge", "n_forward") if name in sizes]
    if (
        not all(0 < n <= statistics.n_items for n in ridges)
        or {*texts} != {"settings", *map(_text, range(len(intercepts)))}
        or of_factors.is_empty is ("matrix factorisation" in extras)
    ):
        raise ValueError("they are not those of a learned measure")
    return (
        LearnedMeasure(folds, arrays["fold_of"], feature_names, intercepts, params),
        Ridge(arrays["ridge"]),
        ForwardRidge(*(arrays[name] for name in _FORWARD)) if has_forward else None,
        None if of_factors.is_empty else Factorisation.from_state(of_factors, statistics),
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
    return f"fold_{fold}"
