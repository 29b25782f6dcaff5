"""No rows at all: profiles and support for models that count no precedence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from surerec.errors import InputError
from surerec.precedence._rows import RowStore
from surerec.precedence._statistics import PrecedenceStatistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence._rows import Block
    from surerec.precedence._spans import Direction


class NoRows(RowStore):
    """Refuses to be asked for counts: who took what before what was never counted."""

    kind = "none"
    has_counts = False

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Refuse."""
        _refuse(item)

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Refuse."""
        _refuse(item)

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Refuse."""
        _refuse(direction, items)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give none."""
        return {}

    def check(self) -> None:
        """Do nothing: there is nothing to check."""


def _refuse(*_: object) -> NoReturn:
    raise InputError(
        "Who took what before what was not counted here, as a wrapped model needs no counts: fit "
        "a measure of precedence on the interactions, in a folder of its own."
    )


def without_counts(
    interactions: Interactions, support: NDArray[np.integer] | None = None
) -> PrecedenceStatistics:
    """Give statistics of profiles in which no precedence is counted.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    support : array of int, optional
        How many users took each item in what a model was fitted on; by default in these profiles.

    Examples
    --------
    >>> from surerec import Interactions
    >>> statistics = without_counts(Interactions.from_profiles([0, 2, 3], [1, 0, 1]))
    >>> statistics.support.tolist(), statistics.rows.kind
    ([2, 1], 'none')
    """
    taken = support
    if taken is None:
        taken = np.bincount(interactions.items_taken, minlength=interactions.n_items)
    made = PrecedenceStatistics(
        interactions.n_users, taken.astype(np.uint32), NoRows(), interactions=interactions
    )
    made.counts_profiles = support is None
    return made
