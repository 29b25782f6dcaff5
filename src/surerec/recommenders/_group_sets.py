"""A recommendation set for a group: what is in it for each member, and for whom least."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns, frame_of, json_number
from surerec.recommenders._sets import RecommendationSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.recommenders._explanation import Explanation


@dataclass(frozen=True, repr=False, kw_only=True)
class GroupSet(RecommendationSet):
    """The items recommended to a group; see :class:`RecommendationSet` for what else it has.

    Attributes
    ----------
    members : tuple
        The members: ids of users, names that were given, or "member 2".
    satisfaction : tuple of float
        For each member the share of their own best items, as many as there are in the set, that is
        in it: 1 for who would have got the same alone. NaN if the set is empty.
    together : str
        What is promised to the group, by name.
    formed : str
        Which groups the promise is about, in words.
    """

    members: tuple[Any, ...]
    satisfaction: tuple[float, ...]
    together: str
    formed: str
    values: NDArray[np.float64] = field(repr=False)
    """What each item is worth to each member, members × items: from 1 for their best, down to 0."""
    member_ranks: NDArray[np.float64] = field(repr=False)
    """Its rank for each member."""

    @property
    def covered(self) -> bool:
        """Whether the guarantee of the full set covers this group."""
        return (self.guarantee.full or self.guarantee).holds

    @property
    def least_served(self) -> Any:
        """The member with the smallest satisfaction; None if the set is empty."""
        found = np.array(self.satisfaction)
        return None if np.isnan(found).all() else self.members[int(np.nanargmin(found))]

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the set as the command line's JSON and HTTP have it; see the base class."""
        served = zip(self.members, self.satisfaction, strict=True)
        return {
            **super().to_dict(n),
            "together": self.together,
            "formed": self.formed,
            "covered": self.covered,
            "members": [
                {"member": name, "satisfaction": json_number(share)} for name, share in served
            ],
            "least_served": self.least_served,
        }

    def _row_columns(self, n: int | None) -> dict[str, list[Any]]:
        return {
            **super()._row_columns(n),
            "member_ranks": self.member_ranks[:, :n].T.astype(int).tolist(),
            "member_values": self.values[:, :n].T.tolist(),
        }

    def by_member(self) -> pl.DataFrame:
        """Give ``item_id``, ``member``, ``rank`` and ``value`` of every item for every member.

        ``rank`` is its place among all items that no member has taken, for that member alone, and
        ``value`` the same from 1 for the best down to 0.
        """
        n, m = len(self), len(self.members)
        return pl.DataFrame(
            {
                Columns.Item: self.catalogue.gather(np.repeat(self.columns[Columns.Item], m)),
                "member": pl.Series([str(name) for name in self.members] * n, dtype=pl.String),
                Columns.Rank: self.member_ranks.T.ravel().astype(np.int64),
                "value": self.values.T.ravel(),
            }
        )

    def to_satisfaction(self) -> pl.DataFrame:
        """Give each ``member`` with their ``satisfaction``, the least served first."""
        frame = frame_of(
            {
                "member": pl.Series([str(name) for name in self.members], dtype=pl.String),
                "satisfaction": np.array(self.satisfaction, dtype=np.float64),
            }
        )
        return frame.sort("satisfaction", maintain_order=True)

    def __repr__(self) -> str:
        whom = f", for {len(self.members)} members"
        return f"GroupSet{super().__repr__().removeprefix('RecommendationSet')[:-1]}{whom})"


@dataclass(frozen=True, repr=False)
class GroupExplanation:
    """Why an item is in a group's set, member by member.

    Attributes
    ----------
    item, title
        The item explained.
    rank : int
        Its rank for the group.
    n_candidates : int
        Among how many items.
    entry_confidence : float
        The confidence above which it is in the set.
    members : tuple
        The members, as in :class:`GroupSet`.
    ranks : tuple of int
        Its rank for each of them.
    reasons : tuple of Explanation
        What speaks for it, for each of them; every member is left out of all counts.
    recommender : str
        Whose answer it is, by name.
    """

    item: Any
    title: str
    rank: int
    n_candidates: int
    entry_confidence: float
    members: tuple[Any, ...]
    ranks: tuple[int, ...]
    reasons: tuple[Explanation, ...]
    recommender: str

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the explanation as the command line's JSON and HTTP have it.

        Parameters
        ----------
        n : int, optional
            How many earlier items of each member to list; by default all.
        """
        each = zip(self.members, self.ranks, self.reasons, strict=True)
        return {
            "recommender": self.recommender,
            "item_id": self.item,
            "title": self.title,
            "rank": self.rank,
            "n_candidates": self.n_candidates,
            "entry_confidence": json_number(self.entry_confidence),
            "members": [
                {"member": member, "rank": rank, **reason.counts(n)}
                for member, rank, reason in each
            ],
        }

    def __str__(self) -> str:
        first = (
            f"{self.title}: {self.rank:,} of {self.n_candidates:,} for the group, in the set at "
            f"every confidence above {self.entry_confidence:.3f}."
        )
        lines = [first]
        for name, rank, why in zip(self.members, self.ranks, self.reasons, strict=True):
            counts = "; ".join(why.sentences(2)) or "nothing was counted between it and the profile"
            lines.append(f"{name}: {rank:,} of {self.n_candidates:,}. {counts}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"GroupExplanation({self.item!r}, {len(self.members)} members)"
