"""LightGBM, asked for only where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures.learned._examples import Examples

__all__ = ["N_TREES", "boost", "contributions"]

N_TREES: Final = 200
_SETTINGS: Final[dict[str, Any]] = {
    "objective": "binary",
    # Small trees, strongly held back: on ML-100K larger ones measured worse than the ridge alone.
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 500,
    "lambda_l2": 20.0,
    "feature_fraction_bynode": 0.5,
    "use_missing": False,  # features are always there
    "deterministic": True,
    "force_row_wise": True,
    # Folds are trained side by side instead: on a busy machine LightGBM's threads, which wait for
    # each other at every split, were measured to be twenty times slower.
    "num_threads": 1,
    "verbose": -1,
}


def _lightgbm() -> Any:
    try:
        import lightgbm  # noqa: PLC0415  # an extra, and slow to import
    except ImportError as error:
        raise InputError(
            "Training and explaining a learned measure need LightGBM, which is not installed: "
            "pip install 'surerec[learn]'."
        ) from error
    return lightgbm


def boost(
    examples: Examples, feature_names: list[str], seed: int, advance: Callable[[float], None]
) -> tuple[str, float]:
    """Train trees; give their text, and the intercept that goes with them.

    The margin, trees and intercept, is the log-odds that an item of the whole catalogue is taken.
    """
    lightgbm = _lightgbm()
    share = float(np.clip(examples.taken.mean(), 1e-6, 1 - 1e-6))
    intercept = float(np.log(share / (1 - share)) - examples.offset.mean())
    data = lightgbm.Dataset(
        examples.features,
        examples.taken,
        init_score=examples.offset + intercept,
        feature_name=feature_names,
    )
    # Little data allows only smaller leaves, or there would be no split at all.
    smallest = min(_SETTINGS["min_data_in_leaf"], max(len(examples.taken) // 100, 5))
    settings = {**_SETTINGS, "min_data_in_leaf": smallest, "seed": seed}
    grown = lightgbm.train(settings, data, N_TREES, callbacks=[lambda _: advance(1)])
    return grown.model_to_string(), intercept


def contributions(text: str, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Give what each feature moved the margin of one item (TreeSHAP), and last the expectation."""
    booster = _lightgbm().Booster(model_str=text)
    found: NDArray[np.float64] = booster.predict(features[None, :], pred_contrib=True)[0]
    return found
