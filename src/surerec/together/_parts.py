"""Calibrations over groups as arrays by name, for a model folder, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.together._aggregations import AGGREGATIONS
from surerec.together._calibration import GroupCalibration
from surerec.together._outcomes import GroupOutcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

_ABOUT: Final = "together_about"


def companies_to_parts(calibrations: Iterable[GroupCalibration]) -> dict[str, NDArray[Any]]:
    """Give all arrays of calibrations over groups by name; nothing if there are none."""
    arrays: dict[str, NDArray[Any]] = {}
    about = []
    for number, each in enumerate(calibrations):
        about.append(each.about())
        parts = each.outcomes.to_arrays()
        arrays |= {f"together{number}_{name}": array for name, array in parts.items()}
    if about:
        arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    return arrays


def companies_from_parts(
    arrays: Mapping[str, NDArray[Any]], n_users: int, future: str, min_known: int, whom: str
) -> tuple[list[GroupCalibration], dict[str, NDArray[Any]]]:
    """Read them back, and give the arrays that are none of theirs.

    KeyError or ValueError if they are damaged.
    """
    rest = dict(arrays)
    if _ABOUT not in rest:
        return [], rest
    written = rest.pop(_ABOUT)
    if written.dtype != np.uint8 or written.ndim != 1:
        raise ValueError("what is said of its groups is no text")
    about = json.loads(written.tobytes().decode())
    if not isinstance(about, list) or not all(isinstance(each, dict) for each in about):
        raise ValueError("what is said of its groups is no list")
    found = []
    for number, each in enumerate(about):
        prefix = f"together{number}_"
        parts = {n.removeprefix(prefix): a for n, a in rest.items() if n.startswith(prefix)}
        rest = {name: array for name, array in rest.items() if not name.startswith(prefix)}
        formed, size = each["formed"], each["size"]
        if formed not in {"random", "similar", "given"} or type(size) is not int or size < 1:
            raise ValueError("they are not those of calibration groups")
        outcomes = GroupOutcomes.from_arrays(parts, n_users)
        aggregation = AGGREGATIONS[each["aggregation"]]
        found.append(GroupCalibration(outcomes, formed, size, aggregation, future, min_known, whom))
    return found, rest
