"""A recommender as it is saved: a kind, parameters and a state, under a name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from surerec._state import State
from surerec.errors import InputError
from surerec.storage._files import check_state_array, check_state_text

if TYPE_CHECKING:
    from collections.abc import Sequence


JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

# Names end up in addresses and on command lines; dots alone would be a folder there.
_NAME: Final = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
_STATE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")
_CHECKS: Final = {"arrays": check_state_array, "texts": check_state_text}


@dataclass(frozen=True, eq=False)
class RecommenderSpec:
    """A recommender as it is saved: kind, parameters and state, whatever they mean.

    Examples
    --------
    >>> RecommenderSpec("InductiveConformal", {"measure": "CM12"})
    RecommenderSpec(kind='InductiveConformal', params={'measure': 'CM12'})
    >>> import numpy as np
    >>> from surerec.measures import State
    >>> thresholds = State({"thresholds": np.array([0.1, 0.4])})
    >>> RecommenderSpec("Calibrated", {}, thresholds) == RecommenderSpec("Calibrated")
    False
    """

    kind: str
    """Which recommender it is."""
    params: Mapping[str, JSON] = field(default_factory=dict)
    """Its parameters: whatever JSON can say."""
    state: State = field(default=State(), repr=False)
    """What it learned: arrays of plain numbers of any shape, and texts, by lower-case names."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecommenderSpec):
            return NotImplemented
        (arrays, texts), (others, other_texts) = self.state, other.state
        mine = (self.kind, self.params, texts, arrays.keys())
        return mine == (other.kind, other.params, other_texts, others.keys()) and all(
            array.dtype == others[name].dtype
            and np.array_equal(array, others[name], equal_nan=True)
            for name, array in arrays.items()
        )

    __hash__ = None  # type: ignore[assignment]  # it holds dicts


def check_recommenders(recommenders: Mapping[str, RecommenderSpec]) -> dict[str, RecommenderSpec]:
    """Return the recommenders as they will be read back, or refuse what cannot be saved."""
    for name in recommenders:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r} cannot name a recommender; use up to 100 letters (a to z), digits, "
                "'.', '_' and '-', not dots alone."
            )
    return {name: _checked(name, spec) for name, spec in recommenders.items()}


def check_state_name(name: str, key: object) -> None:
    """Refuse a name that no array or text of a recommender can have."""
    if not isinstance(key, str) or not _STATE_NAME.fullmatch(key):
        raise InputError(
            f"{key!r} cannot name an array or text of the recommender {name!r}; use up to 50 small "
            "letters (a to z), digits and '_', a letter first."
        )


def _checked(name: str, spec: object) -> RecommenderSpec:
    if not isinstance(spec, RecommenderSpec) or not isinstance(spec.kind, str):
        raise InputError(f"The recommender {name!r} is not a RecommenderSpec with a kind in words.")
    if not isinstance(spec.state, State) or not all(isinstance(x, Mapping) for x in spec.state):
        raise InputError(f"The state of the recommender {name!r} must be a State of dicts by name.")
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
    for (kind, check), values in zip(_CHECKS.items(), spec.state, strict=True):
        for key, value in values.items():
            check_state_name(name, key)
            try:
                check(value)
            except ValueError as error:
                raise InputError(
                    f"{key!r} in the {kind} of the recommender {name!r} cannot be stored: {error}."
                ) from None
    return RecommenderSpec(spec.kind, stored, spec.state)
