"""LightGBM, asked for only where it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures.learned._examples import Examples


@dataclass(frozen=True)
class Growth:
    """How large trees are grown, how many, and how much of each is taken."""

    leaves: int
    rate: float
    most: int

    def faster(self, times: float) -> Growth:
        """Give the same in fewer trees, of each of which more is taken."""
        return Growth(self.leaves, self.rate * times, max(round(self.most / times), 1))


SMALL: Final = Growth(leaves=15, rate=0.05, most=200)
LARGE: Final = Growth(leaves=31, rate=0.15, most=130)
"""As fast to evaluate as the small ones."""
_PATIENCE: Final = 15  # trees that may come without being of use to the users held out
_SETTINGS: Final[dict[str, Any]] = {
    "objective": "binary",
    # Strongly held back: on ML-100K trees that were not measured worse than the ridge alone.
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
    examples: Examples,
    feature_names: list[str],
    seed: int,
    advance: Callable[[float], None],
    growth: Growth = SMALL,
) -> tuple[str, float]:
    """Train trees; give their text, and the intercept that goes with them.

    The margin, trees and intercept, is the log-odds that an item of the whole catalogue is taken.
    """
    lightgbm = _lightgbm()
    learn = (
        ~examples.held_out if 0 < examples.held_out.mean() < 1 else np.ones_like(examples.held_out)
    )
    share = float(np.clip(examples.taken[learn].mean(), 1e-6, 1 - 1e-6))
    intercept = float(np.log(share / (1 - share)) - examples.offset[learn].mean())

    def rows(which: NDArray[np.bool_]) -> dict[str, Any]:
        start = examples.offset[which] + intercept
        return {
            "data": examples.features[which],
            "label": examples.taken[which],
            "init_score": start,
        }

    data = lightgbm.Dataset(**rows(learn), feature_name=feature_names)
    checked = data if learn.all() else data.create_valid(**rows(~learn))
    # Little data allows only smaller leaves, or there would be no split at all.
    smallest = min(_SETTINGS["min_data_in_leaf"], max(int(learn.sum()) // 100, 5))
    grown = lightgbm.train(
        {
            **_SETTINGS,
            "learning_rate": growth.rate,
            "num_leaves": growth.leaves,
            "min_data_in_leaf": smallest,
            "seed": seed,
        },
        data,
        growth.most,
        valid_sets=[checked],
        callbacks=[
            lightgbm.early_stopping(_PATIENCE, verbose=False),
            lambda _: advance(1),
        ],
    )
    return grown.model_to_string(num_iteration=grown.best_iteration), intercept


def contributions(text: str, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Give what each feature moved the margin of one item (TreeSHAP), and last the expectation."""
    booster = _lightgbm().Booster(model_str=text)
    found: NDArray[np.float64] = booster.predict(features[None, :], pred_contrib=True)[0]
    return found
