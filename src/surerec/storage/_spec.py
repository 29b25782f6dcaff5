"""A recommender as it is stored: a kind, parameters, arrays and texts, under a name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from surerec.errors import InputError
from surerec.storage._layout import check_part_array, check_part_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

# Names end up in addresses and on command lines; dots alone would be a folder there.
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
_PART_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_PARTS: Final = {"arrays": check_part_array, "texts": check_part_text}


@dataclass(frozen=True, eq=False)
class RecommenderSpec:
    """A recommender as it is stored: kind, parameters, arrays and texts, whatever they mean.

    Examples
    --------
    >>> RecommenderSpec("InductiveConformal", {"measure": "CM12"})
    RecommenderSpec(kind='InductiveConformal', params={'measure': 'CM12'})
    >>> import numpy as np
    >>> thresholds = {"thresholds": np.array([0.1, 0.4])}
    >>> RecommenderSpec("Calibrated", {}, thresholds) == RecommenderSpec("Calibrated")
    False
    """

    kind: str
    """Which recommender it is."""
    params: Mapping[str, JSON] = field(default_factory=dict)
    """Its parameters: whatever JSON can say."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    """What it learned, as arrays of plain numbers of any shape, by lower-case names."""
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What it learned, as texts, by lower-case names."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecommenderSpec):
            return NotImplemented
        mine = (self.kind, self.params, self.texts, self.arrays.keys())
        return mine == (other.kind, other.params, other.texts, other.arrays.keys()) and all(
            array.dtype == other.arrays[part].dtype
            and np.array_equal(array, other.arrays[part], equal_nan=True)
            for part, array in self.arrays.items()
        )

    __hash__ = None  # type: ignore[assignment]  # it holds dicts


def check_recommenders(recommenders: Mapping[str, RecommenderSpec]) -> dict[str, RecommenderSpec]:
    """Give the recommenders as they will be read back, or say which cannot be stored."""
    return {_checked_name(name): _checked_spec(name, spec) for name, spec in recommenders.items()}


def check_part_name(name: str, part: object) -> None:
    """Refuse a name that no array or text of a recommender can have."""
    if not isinstance(part, str) or not _PART_NAME.fullmatch(part):
        raise InputError(
            f"{part!r} cannot name a part of the recommender {name!r}; use up to 50 small letters "
            "(a to z), digits and '_', a letter first."
        )


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a recommender; use up to 100 letters (a to z), digits, "
            "'.', '_' and '-', not dots alone."
        )
    return name


def _checked_spec(name: str, spec: object) -> RecommenderSpec:
    if not isinstance(spec, RecommenderSpec) or not isinstance(spec.kind, str):
        raise InputError(f"The recommender {name!r} is not a RecommenderSpec with a kind in words.")
    if not all(isinstance(getattr(spec, field), Mapping) for field in _PARTS):
        raise InputError(f"The arrays and texts of the recommender {name!r} must be dicts by name.")
    try:
        params = dict(spec.params)
        stored = json.loads(json.dumps(params, allow_nan=False))
        is_same = bool(stored == params)
    except (TypeError, ValueError, RecursionError):
        is_same = False
    if not is_same:
        raise InputError(
            f"The parameters of the recommender {name!r} cannot be stored ({spec.params!r}); use "
            "text, finite numbers, True, False, None, lists, and dicts with text as keys."
        )
    parts = {
        field: {
            x: _checked_part(name, field, x, value) for x, value in getattr(spec, field).items()
        }
        for field in _PARTS
    }
    return RecommenderSpec(spec.kind, stored, **parts)


def _checked_part(name: str, field: str, part: str, value: object) -> Any:
    check_part_name(name, part)
    try:
        _PARTS[field](value)
    except ValueError as error:
        raise InputError(
            f"{part!r} in the {field} of the recommender {name!r} cannot be stored: {error}."
        ) from None
    return value
