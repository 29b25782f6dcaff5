"""What a matrix factorisation (ALS) expects, of factors that were trained without the person.

Factors cannot leave one user out exactly, so users are dealt into folds, and somebody is folded in
by the item factors of theirs. Trees are trained on users whom no factors know.
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


def try_factors(statistics: PrecedenceStatistics, seed: int) -> Factorisation | None:
    """Train one set of factors on all users, which may score anybody else.

    None where there are too few users or implicit is not installed.
    """
    try:
        return Factorisation.train_whole(statistics, AlsSettings(seed=seed))
    except InputError:
        return None
