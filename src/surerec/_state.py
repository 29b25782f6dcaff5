"""State of fitted components: named arrays and texts, and the schemas that check them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

_T = TypeVar("_T")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class State(NamedTuple):
    """Saved state of a component: named arrays and texts.

    Names consist of lower-case letters, digits and ``_``. A model's state is that of its
    components, each under a prefix.

    Examples
    --------
    >>> state = State({"codes": np.arange(2)}, {"name": "new"}).under("list_")
    >>> sorted(state.arrays), sorted(state.texts)
    (['list_codes'], ['list_name'])
    >>> mine, rest = state.split("list_")
    >>> sorted(mine.texts), rest.is_empty
    (['name'], True)
    """

    arrays: Mapping[str, NDArray[Any]] = _NOTHING
    texts: Mapping[str, str] = _NOTHING

    @classmethod
    def of(cls, component: Any) -> State:
        """Return the state of a dataclass of arrays."""
        return cls({name: getattr(component, name) for name in component.__dataclass_fields__})

    @classmethod
    def numbered(cls, prefix: str, states: Iterable[State]) -> State:
        """Return several states as one; :meth:`split_numbered` is the inverse."""
        found = cls()
        for number, each in enumerate(states):
            found |= each.under(f"{prefix}{number}_")
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there are no arrays and no texts."""
        return not self.arrays and not self.texts

    def __or__(self, other: State) -> State:
        """Return the arrays and texts of both."""
        return State({**self.arrays, **other.arrays}, {**self.texts, **other.texts})

    def under(self, prefix: str) -> State:
        """Return the state with a prefix on all names."""
        arrays = {prefix + name: array for name, array in self.arrays.items()}
        return State(arrays, {prefix + name: text for name, text in self.texts.items()})

    def split(self, prefix: str) -> tuple[State, State]:
        """Return the entries with a prefix, which is removed, and the rest."""
        arrays, other_arrays = _split(self.arrays, prefix)
        texts, other_texts = _split(self.texts, prefix)
        return State(arrays, texts), State(other_arrays, other_texts)

    def split_numbered(self, prefix: str) -> tuple[list[State], State]:
        """Return the states that :meth:`numbered` joined, and the rest."""
        states, rest = list[State](), self
        while True:
            found, others = rest.split(f"{prefix}{len(states)}_")
            if found.is_empty:
                return states, rest
            states.append(found)
            rest = others

    def require_empty(self, what: str) -> None:
        """Raise ValueError if anything is left."""
        if not self.is_empty:
            left = min((*self.arrays, *self.texts))
            raise ValueError(f"{what}: unexpected {left!r}")


def _split(named: Mapping[str, _T], prefix: str) -> tuple[dict[str, _T], dict[str, _T]]:
    found = {name: each for name, each in named.items() if name.startswith(prefix)}
    rest = {name: each for name, each in named.items() if name not in found}
    return {name.removeprefix(prefix): each for name, each in found.items()}, rest


@dataclass(frozen=True)
class ArraySchema:
    """Schema of an array that is read from a file; kernels check no bounds.

    Examples
    --------
    >>> schema = ArraySchema("int64", ("n_users", 2), low=-1, below="n_items")
    >>> schema.check("codes", np.array([[0, 1], [-1, 9]]), {"n_users": 2, "n_items": 9})
    Traceback (most recent call last):
    ValueError: codes has 9, not below 9
    """

    dtype: str | tuple[str, ...]
    """Allowed type names."""
    shape: tuple[int | str | None, ...] | None
    """Length of each axis: a number, a named dimension such as "n_users" or "n_users+1", or None.
    None allows any length, or any shape."""
    low: float | None = None
    """Smallest allowed value."""
    below: int | str | None = None
    """Exclusive upper bound: a number or a named dimension."""
    holds: Literal["anything", "numbers", "finite"] = "anything"
    """Whether NaN ("numbers"), or NaN and infinity ("finite"), is an error."""

    def check(self, name: str, array: NDArray[Any], sizes: dict[str, int]) -> None:
        """Raise ValueError unless an array matches the schema.

        `sizes` are the named dimensions. The first array with a new dimension sets it.
        """
        types = (self.dtype,) if isinstance(self.dtype, str) else self.dtype
        is_native = array.dtype.name in types and array.dtype.isnative
        if not is_native or not self._fits(array.shape, sizes):
            known = ", ".join(f"{name}={size:,}" for name, size in sizes.items())
            raise ValueError(
                f"{name} is {array.dtype.name} {array.shape}, not {' or '.join(types)}"
                f"{'' if self.shape is None else f' {self.shape} with {known}'}"
            )
        below = sizes[self.below] if isinstance(self.below, str) else self.below
        if self.low is not None and array.size and not array.min() >= self.low:
            raise ValueError(f"{name} has {array.min()}, not at least {self.low}")
        if below is not None and array.size and not array.max() < below:
            raise ValueError(f"{name} has {array.max()}, not below {below}")
        if self.holds == "numbers" and np.isnan(array).any():
            raise ValueError(f"{name} has NaN")
        if self.holds == "finite" and not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite")

    def _fits(self, found: tuple[int, ...], sizes: dict[str, int]) -> bool:
        if self.shape is None:
            return True
        if len(found) != len(self.shape):
            return False
        for expected, length in zip(self.shape, found, strict=True):
            if isinstance(expected, str):
                dimension, _, more = expected.partition("+")
                size = length - int(more or 0)
                if size < 0 or sizes.setdefault(dimension, size) != size:
                    return False
            elif expected not in (None, length):
                return False
        return True


def check_arrays(
    what: str, schemas: Mapping[str, ArraySchema], arrays: Mapping[str, NDArray[Any]], **sizes: int
) -> dict[str, int]:
    """Check the arrays of a component against its schemas; return the named dimensions.

    Raises
    ------
    KeyError, ValueError
        If an array is missing, does not match its schema, or has no schema.
    """
    for name, schema in schemas.items():
        schema.check(f"{name} of {what}", arrays[name], sizes)
    if arrays.keys() != schemas.keys():
        raise ValueError(f"{what}: unexpected {min(arrays.keys() - schemas.keys())!r}")
    return sizes
