"""Scored item lists, one per user, as written by any recommender."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.errors import InputError
from surerec.interactions._ids import IdMap, encode
from surerec.interactions._reading import usable
from surerec.interactions._sources import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ScoredLists:
    """Item scores of a model, user by user; a list may contain any subset of items.

    Attributes
    ----------
    users, items : IdMap
        Users with a list, and all items of the lists.
    offsets : array of int64
        Start of each user's list, and the end of the last one.
    listed : array of uint32
        Item codes of all lists, concatenated.
    scores : array of float64
        Scores, higher is better; minus the position in the list if there are no scores.
    name : str
        Name of the source.
    """

    users: IdMap
    items: IdMap
    offsets: NDArray[np.int64]
    listed: NDArray[np.uint32]
    scores: NDArray[np.float64]
    name: str

    def lengths(self) -> str:
        """Return the lengths of the lists as text.

        Examples
        --------
        >>> import polars as pl
        >>> frame = pl.DataFrame({"user_id": [1, 1, 2], "item_id": [5, 6, 5]})
        >>> read_lists(frame).lengths()
        'lists of 1 to 2 items'
        """
        lengths = np.diff(self.offsets)
        shortest, longest = int(lengths.min()), int(lengths.max())
        both = f"{shortest:,} to {longest:,}" if shortest < longest else f"{longest:,}"
        return f"lists of {both} item{'' if longest == 1 else 's'}"


def read_lists(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    user: str | None = None,
    item: str | None = None,
    score: str | None = None,
) -> ScoredLists:
    """Read scored item lists from a file or a frame.

    Parameters
    ----------
    source : path or frame
        A source as in :func:`read_interactions`, with a row for each user and item.
    columns : sequence of str, optional
        Names of all columns of a text file that has no header.
    user, item, score : str, optional
        Column names, if they are not standard. Without scores, lists are ordered by the column
        ``rank``, or else by row.

    Raises
    ------
    InputError
        If a cell is invalid; the message has the file and the line.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"user_id": [1, 1, 2], "item_id": [5, 6, 5], "score": [0.2, 0.9, 1]})
    >>> lists = read_lists(frame)
    >>> len(lists.users), lists.offsets.tolist(), lists.scores.tolist()
    (2, [0, 2, 3], [0.2, 0.9, 1.0])
    """
    requested: dict[str, str | None] = {"user": user or None, "item": item or None}
    optional = {"score": "", "rank": "", "rating": ""}
    table = read_table(source, requested | ({"score": score} if score else optional), columns)
    by = next((role for role in optional if role in table.frame.columns), None)
    kept = table.frame.select("user", "item", *([by] if by else []))
    fix = "Fix them, or remove those rows: items without a score are allowed."
    cells = usable(replace(table, frame=kept), None, fix=fix)
    if not len(cells):
        raise InputError(f"{table.name}: no rows. Pass one row for each user and item.")
    user_ids, users = encode(cells["user"])
    item_ids, items = encode(cells["item"])
    pairs = np.sort(users.astype(np.int64) * len(item_ids) + items)
    twice = pairs[1:][pairs[1:] == pairs[:-1]]
    if len(twice):
        owner, code = divmod(int(twice[0]), len(item_ids))
        raise InputError(
            f"{table.name}: {len(twice):,} rows repeat a user and item, such as user "
            f"{user_ids[owner]!r} and item {item_ids[code]!r}. Keep one score for each."
        )
    order = np.argsort(users, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(users, minlength=len(user_ids)))))
    if by is None:
        scores = np.repeat(offsets[:-1], np.diff(offsets)) - np.arange(1.0, len(order) + 1)
    else:
        given = cells[by].to_numpy()[order]
        scores = -given if by == "rank" else given
    return ScoredLists(
        IdMap(user_ids, noun="user"),
        IdMap(item_ids, noun="item"),
        offsets,
        items[order].astype(np.uint32),
        scores,
        table.name,
    )
