"""Calibrations over users as arrays by name, for a model folder, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.calibration._chances import ItemChances
from surerec.calibration._listed import NamedItems
from surerec.calibration._stored import CalibrationUsers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.calibration._users import UserCalibration

    Kept = tuple[CalibrationUsers, ItemChances | None]

_CHANCES: Final = "chances_"
_NAMES: Final = "list_names"


def to_parts(calibration: UserCalibration) -> dict[str, NDArray[Any]]:
    """Give all arrays of a calibration by name."""
    arrays = calibration.users.to_arrays()
    if calibration.chances is not None:
        found = calibration.chances.to_arrays()
        arrays |= {f"{_CHANCES}{name}": array for name, array in found.items()}
    return arrays


def from_parts(arrays: Mapping[str, NDArray[Any]], n_users: int) -> Kept:
    """Read it back; KeyError or ValueError if these are not the arrays of a calibration.

    `n_users` are the users of the data. There are no chances with few calibration users.
    """
    chances, rest = _beginning(arrays, _CHANCES)
    users = CalibrationUsers.from_arrays(rest)
    if users.users.max(initial=-1) >= n_users:
        raise ValueError("they have a calibration user who is not there")
    return users, ItemChances.from_arrays(chances, len(users)) if chances else None


def lists_to_parts(lists: Iterable[UserCalibration]) -> dict[str, NDArray[Any]]:
    """Give all arrays of named lists by name; nothing if there are none."""
    arrays: dict[str, NDArray[Any]] = {}
    names = []
    for number, each in enumerate(lists):
        assert each.listed is not None  # noqa: S101  # it is a list's
        names.append(each.listed.name)
        parts = to_parts(each) | {"codes": each.listed.codes}
        arrays |= {f"list{number}_{name}": array for name, array in parts.items()}
    if names:
        arrays[_NAMES] = np.frombuffer("\n".join(names).encode(), dtype=np.uint8)
    return arrays


def lists_from_parts(
    arrays: Mapping[str, NDArray[Any]], n_users: int, n_items: int
) -> tuple[list[tuple[NamedItems, Kept]], dict[str, NDArray[Any]]]:
    """Read the lists back, and give the arrays that are none of theirs."""
    rest = dict(arrays)
    lists: list[tuple[NamedItems, Kept]] = []
    if _NAMES not in rest:
        return lists, rest
    written = rest.pop(_NAMES)
    if written.dtype != np.uint8 or written.ndim != 1:
        raise ValueError("the names of its lists are no text")
    names = written.tobytes().decode().split("\n")
    if len(set(names)) != len(names):
        raise ValueError("two of its lists have one name")
    for number, name in enumerate(names):
        parts, rest = _beginning(rest, f"list{number}_")
        codes = parts.pop("codes")
        is_sorted = codes.ndim == 1 and len(codes) > 0 and (np.diff(codes) > 0).all()
        if codes.dtype != np.int64 or not is_sorted or codes[0] < 0 or codes[-1] >= n_items:
            raise ValueError("they are not those of a list")
        lists.append((NamedItems(name, codes), from_parts(parts, n_users)))
    return lists, rest


def _beginning(
    arrays: Mapping[str, NDArray[Any]], prefix: str
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    found = {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}
    return found, {n: array for n, array in arrays.items() if not n.startswith(prefix)}
