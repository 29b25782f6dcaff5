"""Which group of people's own somebody is in, and why none promises them anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import UserGroups
    from surerec.measures import Query

_NAMED: Final = 8  # of the groups


@dataclass(frozen=True)
class Labels:
    """The groups by a column of people's own; None where there are none.

    Examples
    --------
    >>> from surerec.measures import Query
    >>> Labels(None).members(np.array([3, 5])), Labels(None).gap(Query(np.array([1])))
    ({}, '')
    """

    people: UserGroups | None

    def members(self, users: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
        """Give for each group which of some users are in it; users by code, −1 for nobody."""
        if self.people is None:
            return {}
        codes = np.where(users >= 0, self.people.codes[users], -1)
        return {name: codes == code for code, name in enumerate(self.people.names)}

    def of(self, query: Query) -> str | None:
        """Give the group of a person; None if it is not known, or nobody of it calibrated."""
        label = self._said(query)
        known = self.people is not None and self.people.code(label) is not None
        return label if known else None

    def in_words(self, label: str | None) -> str:
        """Say which people a group is, such as "country 'DE'"; empty for everybody."""
        return "" if self.people is None or label is None else f"{self.people.column} {label!r}"

    def gap(self, query: Query) -> str:
        """Say why no group promises a person anything; empty if one does."""
        if self.people is None:
            return ""
        label, column = self._said(query), self.people.column
        if label is None:
            return (
                f"the {column} of this user is not known, and each {column} is calibrated by itself"
            )
        if self.people.code(label) is None:
            return f"nobody of {column} {label!r} calibrated; {_listed(self.people.names)} did"
        return ""

    def _said(self, query: Query) -> str | None:
        if query.segment is not None or self.people is None or query.user is None:
            return query.segment
        return self.people.label(query.user)


def _listed(names: tuple[str, ...]) -> str:
    few = ", ".join(repr(name) for name in names[:_NAMED])
    return few if len(names) <= _NAMED else f"{few} and {len(names) - _NAMED:,} others"
