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


SMALL: Final = Growth(leaves=15, rate=0.12, most=110)
LARGE: Final = Growth(leaves=31, rate=0.15, most=130)
"""A little slower to evaluate."""
QUICK: Final = Growth(leaves=15, rate=0.2, most=50)
"""For comparing features."""
_PATIENCE: Final = 15  # trees that may come without being of use to the users held out
_SETTINGS: Final[dict[str, Any]] = {
    "objective": "binary",
    # Strongly held back: on ML-100K trees that were not measured worse than the ridge alone.
    "min_data_in_leaf": 500,
    "lambda_l2": 20.0,
    # Half of the features for a tree, in few bins found on some examples: as good as half at each
    # split in 255 bins, in two thirds of the time. Rounded gradients would save a seventh more, but
    # LightGBM 4.7 fails with them on small data.
    "feature_fraction": 0.5,
    "max_bin": 63,
    "bin_construct_sample_cnt": 30_000,
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


class Bins:
    """Examples as LightGBM keeps them, sorted into bins once for all trees grown on them.

    Parameters
    ----------
    examples : Examples
        What is learned from, and what growing is stopped by.
    feature_names : list of str
        What their columns are called.
    """

    def __init__(self, examples: Examples, feature_names: list[str]) -> None:
        held_out = examples.held_out
        learn = ~held_out if 0 < held_out.mean() < 1 else np.ones_like(held_out)
        share = float(np.clip(examples.taken[learn].mean(), 1e-6, 1 - 1e-6))
        self.intercept = float(np.log(share / (1 - share)) - examples.offset[learn].mean())
        # Little data allows only smaller leaves, or there would be no split at all.
        self._smallest = min(_SETTINGS["min_data_in_leaf"], max(int(learn.sum()) // 100, 5))
        settings = {**_SETTINGS, "min_data_in_leaf": self._smallest}

        def rows(which: NDArray[np.bool_]) -> dict[str, Any]:
            start = examples.offset[which] + self.intercept
            return {
                "data": examples.features[which],
                "label": examples.taken[which],
                "init_score": start,
            }

        self._data = _lightgbm().Dataset(**rows(learn), feature_name=feature_names, params=settings)
        whole = learn.all()
        self._checked = self._data if whole else self._data.create_valid(**rows(~learn))

    def grow(self, growth: Growth, seed: int, advance: Callable[[float], None]) -> str:
        """Grow trees; give their text.

        The margin, trees and intercept, is the log-odds that an item of the whole catalogue is
        taken.
        """
        lightgbm = _lightgbm()
        grown = lightgbm.train(
            {
                **_SETTINGS,
                "learning_rate": growth.rate,
                "num_leaves": growth.leaves,
                "min_data_in_leaf": self._smallest,
                "seed": seed,
            },
            self._data,
            growth.most,
            valid_sets=[self._checked],
            callbacks=[
                lightgbm.early_stopping(_PATIENCE, verbose=False),
                lambda _: advance(1),
            ],
        )
        text: str = grown.model_to_string(num_iteration=grown.best_iteration)
        return text


def contributions(text: str, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Give what each feature moved the margin of one item (TreeSHAP), and last the expectation."""
    booster = _lightgbm().Booster(model_str=text)
    found: NDArray[np.float64] = booster.predict(features[None, :], pred_contrib=True)[0]
    return found
