"""What the benchmarks share: timing and showing."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

Result = TypeVar("Result")

_REPEATS = 5


def best(task: Callable[[], Result]) -> tuple[float, Result]:
    """Give the shortest of a few times, in seconds, and the result."""
    result = task()  # compiles, and warms the caches, for either side alike
    times = []
    for _ in range(_REPEATS):
        begin = perf_counter()
        result = task()
        times.append(perf_counter() - begin)
    return min(times), result


def show(table: Table) -> None:
    """Print a table, in full width where there is no screen to fit into."""
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)
