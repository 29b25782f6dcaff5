"""What a matrix factorisation (ALS) expects, of factors that were trained without the person.

Factors cannot leave one user out exactly, so users are dealt into folds, and somebody is folded in
by the item factors of theirs. Where trees are trained this is done once more inside: the factors of
an example were learned from neither its user nor anybody of the fold that the trees will score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surerec.errors import InputError
from surerec.measures.als import AlsSettings, Factorisation

if TYPE_CHECKING:
    from surerec.precedence import PrecedenceStatistics

PREFERENCE: Final[dict[str, str]] = {
    "preference": "what a matrix factorisation expects of the profile's items"
}
"""The feature in words."""


def train_factors(statistics: PrecedenceStatistics, n_folds: int, seed: int) -> Factorisation:
    """Train factors for each fold of users, dealt as those of the trees are."""
    return Factorisation.train(statistics, AlsSettings(folds=n_folds, seed=seed))


def try_factors(statistics: PrecedenceStatistics, n_folds: int, seed: int) -> Factorisation | None:
    """Do the same, or give nothing where there are too few users or implicit is not installed."""
    try:
        return train_factors(statistics, n_folds, seed)
    except InputError:
        return None
