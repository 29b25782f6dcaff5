"""User segments by a column such as country, and members of groups."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_whole
from surerec._state import ArraySchema, State, check_arrays
from surerec.errors import InputError
from surerec.interactions._sources import read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions._ids import IdMap


OTHER: Final = "other"
"""Name of the segment of pooled users."""
_SCHEMAS: Final = {"codes": ArraySchema(("int32", "int64"), ("n_users",), low=-1, below="n_names")}


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The segment of each user, such as a country, by code.

    Examples
    --------
    >>> segments = Segmentation("country", ("AT", "DE"), np.array([1, -1, 0]))
    >>> segments.label(0), segments.label(1), segments.code("AT"), segments.code("FR")
    ('DE', None, 0, None)
    """

    column: str
    """Name of the column."""
    names: tuple[str, ...]
    """Names of the segments, sorted."""
    codes: NDArray[np.int32]
    """Position in `names` of each user's segment; −1 if unknown."""

    def label(self, user: int) -> str | None:
        """Return the segment of a user; None if unknown, for example for a new user."""
        code = int(self.codes[user]) if user < len(self.codes) else -1
        return None if code < 0 else self.names[code]

    def code(self, label: str | None) -> int | None:
        """Return the code of a segment, or None if there is no such segment."""
        return self.names.index(label) if label in self.names else None

    def counts(self, users: NDArray[np.int64]) -> dict[str, int]:
        """Return the number of the given users, by code, in each segment."""
        codes = self.codes[users]
        found = np.bincount(codes[codes >= 0], minlength=len(self.names))
        return dict(zip(self.names, found.tolist(), strict=True))

    def pooled(self, min_users: int, users: NDArray[np.int64] | None = None) -> Segmentation:
        """Return a segmentation in which segments of fewer than `min_users` users are pooled.

        Parameters
        ----------
        min_users : int
            Minimum size of a segment that stays.
        users : array of int, optional
            Codes of the users to count; by default all.

        Examples
        --------
        >>> segments = Segmentation("country", ("AT", "CH", "DE"), np.array([2, 0, 2, 1, -1]))
        >>> pooled = segments.pooled(2)
        >>> pooled.names, pooled.codes.tolist()
        (('DE', 'other'), [0, 1, 0, 1, -1])
        """
        counts = self.counts(np.arange(len(self.codes)) if users is None else users)
        kept = [name for name in self.names if counts[name] >= min_users]
        if len(kept) == len(self.names):
            return self
        place = {name: kept.index(name) if name in kept else len(kept) for name in self.names}
        moved = np.array([*(place[name] for name in self.names), -1], dtype=np.int32)
        return Segmentation(self.column, (*kept, _name_of_others(kept)), moved[self.codes])

    def other(self, before: Segmentation) -> str:
        """Return the name of the pooled segment; empty if none of `before` was pooled."""
        return "" if self.names == before.names else self.names[-1]

    def state(self) -> State:
        """Return the codes as an array and the names as JSON."""
        return State({"codes": self.codes}, {"names": json.dumps(self.names, ensure_ascii=False)})

    @classmethod
    def from_state(cls, state: State, column: str, n_users: int) -> Segmentation:
        """Restore a segmentation; raise KeyError or ValueError unless it has `n_users` users."""
        names = json.loads(state.texts["names"])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of its segments are not a list of texts")
        check_arrays("segments", _SCHEMAS, state.arrays, n_users=n_users, n_names=len(names))
        return cls(column, tuple(names), state.arrays["codes"])

    def moved(self, earlier: NDArray[np.integer]) -> Segmentation:
        """Return the segmentation under new codes; `earlier` are the old ones, −1 for new users."""
        known = np.asarray(earlier) >= 0
        codes = np.full(len(known), -1, dtype=np.int32)
        codes[known] = self.codes[np.asarray(earlier)[known]]
        return Segmentation(self.column, self.names, codes)


def read_user_segments(
    source: Any,
    column: str,
    users: IdMap,
    *,
    user: str | None = None,
    columns: Sequence[str] | None = None,
) -> Segmentation:
    """Read the segment of each user from a mapping, a Series, a frame or a file.

    Parameters
    ----------
    source : mapping, pandas Series, frame or path
        A mapping or Series of segments by user id; or a pandas, polars or Arrow frame, or a CSV or
        Parquet file, with a column of users (``user_id``, ``userId``, …) and the column of
        segments. A user may have several rows with the same segment.
    column : str
        Name of the column of segments.
    users : IdMap
        Users to read; others are skipped.
    user : str, optional
        Name of the column of users, if it is not standard.
    columns : sequence of str, optional
        Names of all columns, in order, of a text file without a header.

    Returns
    -------
    Segmentation
        Segments are text; empty cells are unknown.

    Examples
    --------
    >>> from surerec.interactions import IdMap
    >>> users = IdMap(pl.Series(["ann", "bob", "eve"]), noun="user")
    >>> segments = read_user_segments({"eve": 7, "ann": 3, "joe": 7}, "segment", users)
    >>> segments.names, segments.codes.tolist()
    (('3', '7'), [0, -1, 1])
    """
    rows, where = _pairs(source, column, {"user": user, "columns": columns})
    codes = pl.Series("user", users.codes(rows["id"]))
    found = rows.select(codes, "label").filter(codes >= 0, pl.col("label").is_not_null()).unique()
    twice = found.filter(pl.col("user").is_duplicated())
    if len(twice):
        who = twice["user"].min()
        both = twice.filter(pl.col("user") == who)["label"].sort()
        raise InputError(
            f"{where}: {users.noun} {users[int(who)]!r} has two segments, {column} {both[0]!r} and "  # type: ignore[arg-type]
            f"{both[1]!r}. Keep one."
        )
    if not len(found):
        raise InputError(
            f"{where}: no {column} for any of the {len(users):,} {users.noun}s. Check that the ids "
            "are the same."
        )
    names = found["label"].unique().sort()
    codes_by_user = np.full(len(users), -1, dtype=np.int32)
    codes_by_user[found["user"].to_numpy()] = names.search_sorted(found["label"]).to_numpy()
    return Segmentation(column, tuple(names.to_list()), codes_by_user)


def pool_segments(source: Any, column: str = "segment", *, min_users: int) -> dict[Any, str]:
    """Pool segments with fewer than `min_users` users into one segment, "other".

    Parameters
    ----------
    source : mapping, pandas Series, frame or path
        The segment of each user; see :func:`read_user_segments`.
    column : str, default="segment"
        Column of segments, for a frame or a file.
    min_users : int
        Minimum size of a segment that stays.

    Returns
    -------
    dict
        Segment of each user by id, for ``fit(…, user_segments=…)``. Requests for new users of a
        pooled segment must pass "other".

    Examples
    --------
    >>> pool_segments({"ann": "DE", "bob": "DE", "eve": "MT", "joe": "CY"}, min_users=2)
    {'ann': 'DE', 'bob': 'DE', 'eve': 'other', 'joe': 'other'}
    """
    check_whole("min_users", min_users)
    rows, where = _pairs(source, column, {})
    found: dict[Any, str] = {}
    for user, label in zip(rows["id"].to_list(), rows["label"].to_list(), strict=True):
        if label is not None and found.setdefault(user, label) != label:
            raise InputError(
                f"{where}: user {user!r} has two segments, {column} {found[user]!r} and "
                f"{label!r}. Keep one."
            )
    counts = Counter(found.values())
    kept = [name for name, n in counts.items() if n >= min_users]
    other = _name_of_others(kept)
    return {user: label if label in kept else other for user, label in found.items()}


def _name_of_others(kept: Sequence[str]) -> str:
    name = OTHER
    while name in kept:
        name += " segments"
    return name


def read_members(source: Any, column: str = "group") -> dict[Any, list[Any]]:
    """Read the members of groups of users who choose together.

    Parameters
    ----------
    source : mapping, frame or path
        A mapping of groups to members; or a frame or a file with a column of users and one of
        groups, a row for each member.
    column : str, default="group"
        Column of groups.

    Examples
    --------
    >>> rows = pl.DataFrame({"user": [7, 3, 9], "group": ["a", "b", "a"]})
    >>> read_members(rows)
    {'a': [7, 9], 'b': [3]}
    """
    if isinstance(source, Mapping):
        for group, members in source.items():
            if isinstance(members, str) or not isinstance(members, Iterable):
                raise InputError(f"Group {group!r}: members must be a list of user ids.")
        return {group: list(members) for group, members in source.items()}
    rows, _ = _pairs(source, column, {})
    found: dict[Any, list[Any]] = {}
    for member, group in rows.drop_nulls("label").iter_rows():
        found.setdefault(group, []).append(member)
    return found


def _pairs(source: Any, column: str, reading: Mapping[str, Any]) -> tuple[pl.DataFrame, str]:
    """Return user ids with labels as text, and the name of the source."""
    given = by_id(source)
    if given is not None:
        return given, "The mapping"
    # The reader of interactions: the label takes the role of the item.
    requested = {"user": reading.get("user") or None, "item": column, "time": ""}
    table = read_table(source, requested, reading.get("columns"))
    rows = {"id": table.frame["user"], "label": as_text(table.frame["item"])}
    return pl.DataFrame(rows).unique(maintain_order=True), table.name


def by_id(source: Any) -> pl.DataFrame | None:
    """Return a mapping or pandas Series as a frame of ``id`` and ``label``; None for others.

    Labels become text, and missing values of pandas become null.
    """
    is_series = hasattr(source, "index") and hasattr(source, "items")
    if not isinstance(source, Mapping) and (not is_series or hasattr(source, "columns")):
        return None
    ids, labels = [], []
    for key, label in source.items():
        ids.append(key)
        is_nan = isinstance(label, (float, np.floating)) and np.isnan(label)
        missing = is_nan or type(label).__name__ in ("NAType", "NaTType")
        labels.append(None if missing else label)
    if all(label is None or isinstance(label, (float, np.floating)) for label in labels):
        texts = pl.Series(labels, dtype=pl.Float64)
    else:
        known = [None if label is None else str(label) for label in labels]
        texts = pl.Series(known, dtype=pl.String)
    return pl.DataFrame({"id": pl.Series(ids, dtype=pl.Object), "label": as_text(texts)})


def as_text(labels: pl.Series) -> pl.Series:
    """Return labels as stripped text, null where empty."""
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
        if (labels == labels.round()).all():  # pandas converts integers with gaps
            labels = labels.cast(pl.Int64)
    text = labels.cast(pl.String).str.strip_chars()
    return text.replace("", None)
