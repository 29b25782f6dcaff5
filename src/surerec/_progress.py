"""Progress of long work: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import ProgressColumn


@cache
def terminal() -> Console:
    """Give the one console of all bars: a bar inside another is drawn below it."""
    from rich.console import Console  # noqa: PLC0415  # only who waits needs rich

    return Console(stderr=True)


@contextmanager
def progress(
    description: str, total: float | None, *, in_bytes: bool = False
) -> Iterator[Callable[[float], None]]:
    """Give a function that moves a bar forward; the bar vanishes when the work is done.

    Parameters
    ----------
    description : str
        What is being done.
    total : float or None
        The amount at which the work is done; None if it is not known.
    in_bytes : bool, default=False
        Show amounts and speed in bytes.

    Examples
    --------
    >>> with progress("Counting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    # Only who waits needs rich, which takes a tenth of a second to import.
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = terminal()
    amounts: tuple[ProgressColumn, ...] = (
        (DownloadColumn(), TransferSpeedColumn()) if in_bytes else ()
    )
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *amounts,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda amount: bar.advance(task, amount)
