"""The arrays of a model: their roles, types and shapes, checked alike when written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._columns import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.storage._manifest import Counts

__all__ = [
    "HELD_ROLES",
    "ROLES",
    "TABLES",
    "check_array",
    "check_offsets",
    "check_table",
    "roles_for",
]

TABLES: Final = {"users": Columns.User, "items": Columns.Item}
"""The tables by role, with the column of ids."""

_INDEX: Final = ("uint32", "uint64")
_COUNTS: Final = ("uint16", "uint32")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "support": ("uint32",),
    "offsets": ("int64",),
    "items_taken": ("uint32",),
    "times": ("int64",),
    "followers": _COUNTS,
    "predecessors": _COUNTS,
    "following_offsets": ("int64",),
    "following_starts": _INDEX,
    "following_stops": _INDEX,
    "preceding_offsets": ("int64",),
    "preceding_starts": _INDEX,
    "preceding_stops": _INDEX,
}
_HELD: Final = {
    "slots": ("int64",),
    "dense": _COUNTS,
    "offsets": ("int64",),
    "items": ("uint32",),
    "counts": _COUNTS,
}
"""The arrays of held rows, for each direction."""
HELD_ROLES: Final = {
    f"{direction}_held_{part}": (direction, part)
    for direction in ("followers", "predecessors")
    for part in _HELD
}
_TYPES.update({role: _HELD[part] for role, (_, part) in HELD_ROLES.items()})

ROLES: Final = frozenset(TABLES.keys() | _TYPES.keys())


def roles_for(rows: str, *, with_profiles: bool) -> set[str]:
    """Give the roles of the files that a model has; ValueError if there is no such model."""
    profiles = {*TABLES, "offsets", "items_taken", "times"} if with_profiles else set()
    match rows:
        case "dense":
            return {"support", "followers", "predecessors"} | profiles
        case "on-demand" | "bounded" if with_profiles:
            spans = {role for role in _TYPES if role.startswith(("following_", "preceding_"))}
            held = set(HELD_ROLES) if rows == "bounded" else set()
            return {"support"} | spans | held | profiles
        case _:
            raise ValueError(rows)


def check_array(role: str, array: NDArray[Any], counts: Counts) -> None:
    """Raise ValueError unless an array has the type and shape that its role asks for."""
    shape = _shape(role, counts)
    fits = len(shape) == array.ndim and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype.name not in _TYPES[role] or not array.dtype.isnative or not fits:
        raise ValueError(
            f"{role} is {array.dtype.name} {array.shape}, not {' or '.join(_TYPES[role])} {shape}"
        )


def check_table(role: str, table: pl.DataFrame, counts: Counts) -> None:
    """Raise ValueError unless a table holds as many ids as there are, and titles if any."""
    types = dict(table.schema)
    ids = types.pop(TABLES[role], None)
    titles = types.pop(Columns.Title, pl.String())
    is_id = ids is not None and (ids.is_integer() or ids == pl.String)
    length = counts.users if role == "users" else counts.items
    if not is_id or titles != pl.String or types or len(table) != length:
        raise ValueError(f"{role} has {len(table)} rows of {table.schema}, not {length} ids")


def check_offsets(offsets: NDArray[np.int64], end: int) -> None:
    """Raise ValueError unless offsets lead from 0 to `end` and never back."""
    if offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
        raise ValueError("offsets lead outside")


def _shape(role: str, counts: Counts) -> tuple[int | None, ...]:
    match role:
        case "support":
            return (counts.items,)
        case "followers" | "predecessors":
            return (counts.items, counts.items)
        case "offsets":
            return (counts.users + 1,)
        case _ if role in HELD_ROLES:
            shapes = {"slots": (counts.items,), "dense": (None, counts.items)}
            return shapes.get(HELD_ROLES[role][1], (None,))
        case "following_offsets" | "preceding_offsets":
            return (counts.items + 1,)
        case _:
            return (counts.rows,)
