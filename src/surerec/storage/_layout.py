"""The files of a model: their roles, types and shapes, checked alike when written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._memory import in_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.storage._cards import Counts


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
_HELD_ROLES: Final = {
    f"{direction}_held_{part}": (direction, part)
    for direction in ("followers", "predecessors")
    for part in _HELD
}
_TYPES.update({role: _HELD[part] for role, (_, part) in _HELD_ROLES.items()})

_SPANS: Final = tuple(role for role in _TYPES if role.startswith(("following_", "preceding_")))
ROW_ROLES: Final[dict[str, tuple[str, ...]]] = {
    "dense": ("followers", "predecessors"),
    "on-demand": _SPANS,
    "bounded": (*_SPANS, *_HELD_ROLES),
    "none": (),
}
"""The arrays of rows, by the kind of their store; only dense ones do without profiles."""

PART_ROLES: Final = {"arrays": "array", "texts": "text"}
"""What recommenders keep beside the statistics, by field: any number of files of each role."""
MOST_TEXT: Final = 1 << 30
"""Bytes of one text: texts are read, not mapped, and a stranger's file must not fill the memory."""
_PART_TYPES: Final = frozenset(
    {"bool", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)

ROLES: Final = frozenset({*TABLES, *_TYPES, *PART_ROLES.values()})


def file_kind(role: str) -> str:
    """Give the ending of a file's name."""
    return "arrow" if role in TABLES else "txt" if role == PART_ROLES["texts"] else "npy"


def file_name(role: str, sha256: str) -> str:
    """Give the name of the file of that role and content.

    Examples
    --------
    >>> file_name("users", 64 * "a"), file_name("times", 64 * "b"), file_name("text", 64 * "c")
    ('users-aaaaaaaaaaaaaaaa.arrow', 'times-bbbbbbbbbbbbbbbb.npy', 'text-cccccccccccccccc.txt')
    """
    return f"{role}-{sha256[:16]}.{file_kind(role)}"


def role_of(name: str) -> str:
    """Give the role of a file from its name."""
    return name.partition("-")[0]


def roles_for(rows: str, *, with_profiles: bool) -> set[str]:
    """Give the roles of the files that a model has; ValueError if there is no such model."""
    profiles = {*TABLES, "offsets", "items_taken", "times"} if with_profiles else set()
    if rows not in ROW_ROLES or not (with_profiles or rows == "dense"):
        raise ValueError(rows)
    return {"support", *ROW_ROLES[rows]} | profiles


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


def check_part_array(array: object) -> None:
    """Raise ValueError unless it is an array that can be a part of a recommender."""
    # By type, for a masked array would lose its mask.
    if not isinstance(array, np.ndarray) or type(array) not in (np.ndarray, np.memmap):
        raise ValueError(f"it is of type {type(array).__name__}, not a NumPy array")
    if array.dtype.name not in _PART_TYPES or not array.dtype.isnative:
        raise ValueError(
            f"its numbers are of type {array.dtype}, not bool, int8 to int64, uint8 to uint64, "
            "float32 or float64 in this machine's byte order"
        )


def check_part_text(text: object) -> None:
    """Raise ValueError unless it is a text that can be a part of a recommender."""
    if not isinstance(text, str):
        raise ValueError(f"it is of type {type(text).__name__}, not text")  # noqa: TRY004
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(f"UTF-8 cannot say its character {error.start + 1:,}") from None
    if size > MOST_TEXT:
        raise ValueError(f"it has {in_words(size)}, more than {in_words(MOST_TEXT)}")


def check_table(role: str, table: pl.DataFrame, counts: Counts) -> None:
    """Raise ValueError unless a table holds as many ids as there are, and texts if any."""
    types = dict(table.schema)
    ids = types.pop(TABLES[role], None)
    texts = {types.pop(name, pl.String()) for name in (Columns.Title, Columns.Genres)}
    is_id = ids is not None and (ids.is_integer() or ids == pl.String)
    length = counts.users if role == "users" else counts.items
    has_all = is_id and not table[TABLES[role]].null_count()
    if not has_all or texts != {pl.String()} or types or len(table) != length:
        raise ValueError(f"{role} has {len(table)} rows of {table.schema}, not {length} ids")


def _shape(role: str, counts: Counts) -> tuple[int | None, ...]:
    match role:
        case "support":
            return (counts.items,)
        case "followers" | "predecessors":
            return (counts.items, counts.items)
        case "offsets":
            return (counts.users + 1,)
        case _ if role in _HELD_ROLES:
            shapes = {"slots": (counts.items,), "dense": (None, counts.items)}
            return shapes.get(_HELD_ROLES[role][1], (None,))
        case "following_offsets" | "preceding_offsets":
            return (counts.items + 1,)
        case _:
            return (counts.rows,)
