"""What is said to who waits while kernels are compiled, which happens once on a machine."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from numba.core import event

from surerec._progress import AT_ONCE, Compiling, terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import Progress

USUAL = 60
"""How many functions the first fit and answer on a machine compile, about."""
_register: Any = event.register  # numba has no types
_unregister: Any = event.unregister
_WATCHED = "numba:compile"
_AT_ONCE = AT_ONCE


class CompileProgress(event.Listener):
    """Shows on a terminal that kernels are being compiled, and how many are done.

    Functions that others call count too: they are most of the work. How many there will be is not
    known, so that the bar is an estimate which never quite ends before the work does.
    """

    at_work: ClassVar[CompileProgress | None] = None

    def __init__(self, console: Console | None = None) -> None:
        self.n_compiled = 0
        self._depth = 0
        self._begin = self._since = 0.0
        self._console = console
        self._bar: Progress | None = None
        self._task: Any = None

    def on_start(self, _event: Any) -> None:
        """Begin with another function, which may be one that another calls."""
        self._depth += 1
        if self._depth == 1:
            self._since = monotonic()
        self._begin = self._begin or monotonic()
        self._show()

    def on_end(self, _event: Any) -> None:
        """Count it; the bar goes while nothing is compiled, as what is done then has its own."""
        self._depth -= 1
        self.n_compiled += 1
        self._show()
        if not self._depth:
            Compiling.seconds += monotonic() - self._since
            self.close()

    def _show(self) -> None:
        if self._bar is None and monotonic() - self._begin > _AT_ONCE:
            self._open()
        if self._bar is not None:
            done = USUAL * (1 - 0.5 ** (2 * self.n_compiled / USUAL))
            self._bar.update(self._task, completed=done, n=self.n_compiled)

    def _open(self) -> None:
        # Only who waits needs rich, which takes a tenth of a second to import.
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        console = self._console or terminal()
        self._bar = Progress(
            TextColumn("Compiling, once on this machine: {task.fields[n]} functions"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=USUAL, n=self.n_compiled)
        self._bar.start()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def compile_progress(console: Console | None = None) -> Iterator[CompileProgress]:
    """Show how far compiling is, where there is a terminal to show it on; count it anywhere.

    Inside another one it is that one.
    """
    if CompileProgress.at_work is not None:
        yield CompileProgress.at_work
        return
    listener = CompileProgress.at_work = CompileProgress(console)
    _register(_WATCHED, listener)
    try:
        yield listener
    finally:
        CompileProgress.at_work = None
        _unregister(_WATCHED, listener)
        listener.close()
