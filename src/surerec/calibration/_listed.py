"""A named list of items that may be shown, on which a calibration can be made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import IdMap

_NAME: Final = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
_SCHEMAS: Final = {"codes": ArraySchema("int64", ("n_listed",), low=0, below="n_items")}


@dataclass(frozen=True, eq=False)
class NamedItems:
    """The items of a list, by code, and its name.

    Examples
    --------
    >>> NamedItems("in stock", np.array([1, 4]))
    Traceback (most recent call last):
    surerec.errors.InputError: 'in stock' cannot name a list; use up to 100 letters (a to z),
    digits, '.', '_' and '-', not dots alone.
    """

    name: str
    codes: NDArray[np.int64]
    """Ascending, each once."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InputError(
                f"{self.name!r} cannot name a list; use up to 100 letters (a to z), digits, '.', "
                "'_' and '-', not dots alone."
            )

    def within(self, now: IdMap, then: IdMap) -> NamedItems:
        """Give the same list by the codes of other data, without what they do not know."""
        codes = then.codes(now.ids.gather(self.codes))
        return NamedItems(self.name, np.unique(codes[codes >= 0]))

    def state(self) -> State:
        """Return the codes and the name."""
        return State({"codes": self.codes}, {"name": self.name})

    @classmethod
    def from_state(cls, state: State, n_items: int) -> NamedItems:
        """Read it back; KeyError or ValueError if it is no such list."""
        n = check_arrays("an item list", _SCHEMAS, state.arrays, n_items=n_items)["n_listed"]
        found = cls(state.texts["name"], state.arrays["codes"])
        if state.texts.keys() != {"name"} or not n or not (np.diff(found.codes) > 0).all():
            raise ValueError("its item list is not sorted, or empty")
        return found
