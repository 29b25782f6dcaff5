"""LightGBM, asked for only where it is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures.learned._examples import Examples


@dataclass(frozen=True)
class Growth:
    """How large trees are grown, how many, how much of each is taken, and what each may look at."""

    leaves: int
    rate: float
    most: int
    by_tree: bool = False
    """Whether half of the features are drawn for a tree, not for each split."""

    def settings(self) -> dict[str, Any]:
        """Give it in LightGBM's words."""
        drawn = "feature_fraction" if self.by_tree else "feature_fraction_bynode"
        return {"num_leaves": self.leaves, "learning_rate": self.rate, drawn: 0.5}


SMALL: Final = Growth(leaves=15, rate=0.1, most=100)
LARGE: Final = Growth(leaves=31, rate=0.15, most=90, by_tree=True)
"""As good as with half of the features at each split, in three quarters of the time."""
QUICK: Final = Growth(leaves=15, rate=0.2, most=50)
"""For comparing features."""
_PATIENCE: Final = 15  # trees that may come without being of use to the users held out
_SETTINGS: Final[dict[str, Any]] = {
    "objective": "binary",
    # Strongly held back: on ML-100K trees that were not measured worse than the ridge alone.
    "min_data_in_leaf": 500,
    "lambda_l2": 20.0,
    "use_missing": False,  # features are always there
    "feature_pre_filter": False,  # leaves of other sizes may be grown from the same bins
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


@dataclass(frozen=True)
class Binned:
    """Examples in LightGBM's bins: made once, grown from many times."""

    learned_from: Any
    """LightGBM's Dataset of those that trees are grown on."""
    stopped_by: Any
    """And of those of users who are held out, where there are any."""
    owners: NDArray[np.int64]
    """Whose the former are."""
    feature_names: list[str]
    intercept: float
    """What goes with trees that are grown from them: the margin, trees and intercept, is the
    log-odds that an item of the whole catalogue is taken."""

    @classmethod
    def of(cls, examples: Examples, feature_names: list[str]) -> Binned:
        """Bring examples to bins, with what their columns are called."""
        held_out = examples.held_out
        learn = ~held_out if 0 < held_out.mean() < 1 else np.ones_like(held_out)
        share = float(np.clip(examples.taken[learn].mean(), 1e-6, 1 - 1e-6))
        intercept = float(np.log(share / (1 - share)) - examples.offset[learn].mean())

        def rows(which: NDArray[np.bool_]) -> dict[str, Any]:
            return {
                "data": examples.features[which],
                "label": examples.taken[which],
                "init_score": examples.offset[which] + intercept,
                "params": _SETTINGS,
            }

        data = _lightgbm().Dataset(**rows(learn), feature_name=feature_names).construct()
        judge = data if learn.all() else data.create_valid(**rows(~learn)).construct()
        return cls(data, judge, examples.owners[learn], feature_names, intercept)

    def of_users(self, one_in: int) -> Binned:
        """Give the examples of one in so many users, stopped by the same others."""
        rows = np.flatnonzero(self.owners % one_in == 0)
        some = self.learned_from.subset(rows).construct()
        return replace(self, learned_from=some, owners=self.owners[rows])

    def grow(
        self,
        columns: NDArray[np.int64],
        growth: Growth,
        seed: int,
        advance: Callable[[float], None] = lambda _: None,
    ) -> str:
        """Grow trees; give their text.

        Parameters
        ----------
        columns : array of int
            The features that they may look at.
        growth : Growth
            How to grow.
        seed : int
            Of what is drawn.
        advance : callable, optional
            Hears of each tree.
        """
        lightgbm = _lightgbm()
        # Little data allows only smaller leaves, or there would be no split at all.
        smallest = min(_SETTINGS["min_data_in_leaf"], max(len(self.owners) // 100, 5))
        settings = _SETTINGS | growth.settings() | {"min_data_in_leaf": smallest, "seed": seed}
        if len(columns) < len(self.feature_names):
            settings["interaction_constraints"] = [columns.tolist()]  # none but these
        grown = lightgbm.train(
            settings,
            self.learned_from,
            growth.most,
            valid_sets=[self.stopped_by],
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
