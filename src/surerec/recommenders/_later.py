"""Columns of a result that are made when somebody looks at one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LaterColumns(Mapping[str, "NDArray[Any]"]):
    """Columns by name, all made when the first is looked at: ordering takes as long as scoring.

    Parameters
    ----------
    make : callable
        Gives the columns.
    n_rows : int
        How long they will be.

    Examples
    --------
    >>> import numpy as np
    >>> later = LaterColumns(lambda: {"rank": np.arange(1, 4)}, 3)
    >>> later.n_rows, later["rank"].tolist(), list(later)
    (3, [1, 2, 3], ['rank'])
    """

    def __init__(self, make: Callable[[], Mapping[str, NDArray[Any]]], n_rows: int) -> None:
        self._make = make
        self.n_rows = n_rows

    @cached_property
    def _made(self) -> Mapping[str, NDArray[Any]]:
        return self._make()

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[dict[str, NDArray[Any]]], tuple[dict[str, NDArray[Any]]]]:
        """Be copied, and sent elsewhere, as the columns themselves."""
        return dict, (dict(self._made),)
