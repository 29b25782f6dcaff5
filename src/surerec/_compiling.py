"""What is said to who waits while kernels are compiled, which happens once on a machine."""

from __future__ import annotations

import platform
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import numba
from numba.core import event
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from surerec._files import cache_folder
from surerec._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

USUAL = 60
"""How many functions the first fit and answer on a machine compile, about."""
_register: Any = event.register  # numba has no types
_unregister: Any = event.unregister
_WATCHED = "numba:compile"
_AT_ONCE = 0.5  # seconds that nobody needs to be told of


@contextmanager
def first_use_notice() -> Iterator[None]:
    """Say on a terminal that compiling takes a while, if nothing was counted here before.

    numba keeps what it compiled; a stamp in the cache folder remembers that it has.
    """
    versions = f"{__version__}-{numba.__version__}-{platform.python_version()}"
    stamp = cache_folder() / f"compiled-{versions}"
    if stamp.exists() or CompileProgress.shown:
        yield
        return
    console = Console(stderr=True)
    if console.is_terminal:
        console.print("Compiling, once on this machine; this takes some seconds …", style="dim")
    yield
    with suppress(OSError):  # a cache that cannot be written to only means another notice
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()


class CompileProgress(event.Listener):
    """Shows on a terminal that kernels are being compiled, and how many are done.

    Functions that others call count too: they are most of the work. How many there will be is not
    known, so that the bar is an estimate which never quite ends before the work does.
    """

    shown = False
    """Whether one is at work."""

    def __init__(self, console: Console) -> None:
        self.n_compiled = 0
        self._depth, self._begin = 0, 0.0
        self._console = console
        self._bar: Progress | None = None
        self._task: Any = None

    def on_start(self, _event: Any) -> None:
        """Begin with another function."""
        if not self._begin:
            self._begin = monotonic()
        self._depth += 1

    def on_end(self, _event: Any) -> None:
        """Count it."""
        self._depth -= 1
        self.n_compiled += 1
        waited = monotonic() - self._begin > _AT_ONCE
        if self._bar is None and waited and self._console.is_terminal:
            self._open()
        if self._bar is not None:
            done = USUAL * (1 - 0.5 ** (2 * self.n_compiled / USUAL))
            self._bar.update(self._task, completed=done, n=self.n_compiled)

    def _open(self) -> None:
        self._bar = Progress(
            TextColumn("Compiling, once on this machine: {task.fields[n]} functions"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
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
    """Show how far compiling is, where there is a terminal to show it on; count it anywhere."""
    console = console or Console(stderr=True)
    listener = CompileProgress(console)
    _register(_WATCHED, listener)
    CompileProgress.shown = console.is_terminal
    try:
        yield listener
    finally:
        CompileProgress.shown = False
        _unregister(_WATCHED, listener)
        listener.close()
