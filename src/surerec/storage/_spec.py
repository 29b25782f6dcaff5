"""A recommender as it is stored: a kind and parameters, under a name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["JSON", "RecommenderSpec", "check_recommenders"]

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

# Names end up in addresses and on command lines; dots alone would be a folder there.
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class RecommenderSpec:
    """What a recommender is made from; storage does not ask what it means.

    Examples
    --------
    >>> RecommenderSpec("InductiveConformal", {"measure": "CM12"})
    RecommenderSpec(kind='InductiveConformal', params={'measure': 'CM12'})
    """

    kind: str
    """Which recommender it is."""
    params: Mapping[str, JSON] = field(default_factory=dict)
    """Its parameters: whatever JSON can say."""


def check_recommenders(recommenders: Mapping[str, RecommenderSpec]) -> dict[str, RecommenderSpec]:
    """Give the recommenders as they will be read back, or say which cannot be stored."""
    return {_checked_name(name): _checked_spec(name, spec) for name, spec in recommenders.items()}


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
    return RecommenderSpec(spec.kind, stored)
