"""Progress of long work: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    console = Console(stderr=True)
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
