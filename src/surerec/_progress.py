"""Progress of long work: bars on a terminal or in a notebook, and log lines on request.

A stage (`stage`) is a timed part of the work; a bar (`progress`) shows the progress of a loop.
Both report to the logger ``surerec``, and nothing else is printed. Bars of all threads share one
display, and appear only after half a second, so that short work does not flicker.
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from numba.core import event

from surerec._words import in_bytes, in_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

Result = TypeVar("Result")

LOGGER: Final = logging.getLogger("surerec")
"""Logs stages at INFO and loops within them at DEBUG."""
LOGGER.addHandler(logging.NullHandler())

AT_ONCE = 0.5
"""Seconds before a bar appears."""
_BETWEEN_LINES = 30.0  # seconds, while one loop is logged
_NOTHING: Final = 0.05  # seconds, shown as 0.0


@cache
def terminal() -> Console:
    """Return the shared console: log lines are printed above the bars."""
    from rich.console import Console  # noqa: PLC0415  # its import takes 0.1 s

    return Console(stderr=True)


@dataclass
class Spent:
    """Time spent, in total and by stage.

    Examples
    --------
    >>> print(Spent({"counting": 0.2, "learning": 26.1}, total=26.4))
    26 s: counting 0.2 s, learning 26 s, other 0.1 s
    """

    stages: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    in_stage: bool = False

    def __str__(self) -> str:
        parts = {**self.stages, "other": self.total - sum(self.stages.values())}
        words = [
            f"{name} {in_seconds(elapsed)}"
            for name, elapsed in parts.items()
            if elapsed >= _NOTHING
        ]
        return in_seconds(self.total) + (f": {', '.join(words)}" if words else "")


_spent: ContextVar[Spent | None] = ContextVar("spent", default=None)


class _Compiling(event.Listener):
    """Measures and shows the compilation of kernels, which does not count as time of a stage."""

    def __init__(self) -> None:
        self.n_compiled, self.seconds = 0, 0.0
        self._open: list[Bar] = []  # compilation is nested

    def on_start(self, event: Any) -> None:
        """Show the bar."""
        if _is_ours(event):
            self._open.append(
                self._open[0]
                if self._open
                else Bar("Compiling (first use only)", unit="functions", done=self.n_compiled)
            )

    def on_end(self, event: Any) -> None:
        """Count a function; add the time after the outermost one."""
        if not _is_ours(event):
            return
        self.n_compiled += 1
        bar = self._open.pop()
        bar(1)
        if not self._open:
            self.seconds += perf_counter() - bar.begin
            bar.close()


def _is_ours(event: Any) -> bool:
    function = getattr(event.data["dispatcher"], "py_func", None)
    return getattr(function, "__module__", "").startswith("surerec.")


COMPILING: Final = _Compiling()
"""The kernels that this process has compiled."""
_register: Any = event.register  # numba has no types
_register("numba:compile", COMPILING)


@contextmanager
def time_stages(done: str = "", verbose: int = 0) -> Iterator[Spent]:
    """Time the stages of some work, and log the totals at the end.

    Inside another call, stages are added to that call and no totals are logged.

    Parameters
    ----------
    done : str
        Beginning of the final log line, such as "Fitted"; no totals are logged without it.
    verbose : int, default=0
        Print log lines: 1 for stages, 2 for all.

    Examples
    --------
    >>> with time_stages("Fitted") as spent, stage("counting"):
    ...     pass
    >>> print(spent)
    0.0 s
    """
    with printed(verbose):
        outer = _spent.get()
        if outer is not None:
            yield outer
            return
        begin, spent = perf_counter(), Spent()
        token = _spent.set(spent)
        try:
            yield spent
        finally:
            _spent.reset(token)
            spent.total = perf_counter() - begin
        if done:
            LOGGER.info("%s in %s", done, spent)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time a stage of the work; nested stages are part of the outer one.

    Parameters
    ----------
    name : str
        Name in the totals, such as "counting".
    """
    with time_stages() as spent:
        if spent.in_stage:
            yield
            return
        title = name.capitalize()
        LOGGER.debug("%s …", title)
        begin, compiled, spent.in_stage = perf_counter(), COMPILING.seconds, True
        try:
            with closing(Bar(title)):
                yield
        finally:
            spent.in_stage = False
            compiling = COMPILING.seconds - compiled
            elapsed = perf_counter() - begin - compiling
            spent.stages[name] = spent.stages.get(name, 0.0) + elapsed
            spent.stages["compiling"] = spent.stages.get("compiling", 0.0) + compiling
        LOGGER.info("%s: %s", title, in_seconds(elapsed))


@contextmanager
def printed(verbose: int) -> Iterator[None]:
    """Print log lines on stderr, above any bar, unless the program has its own log handlers.

    Parameters
    ----------
    verbose : int
        0 for the program's own logging, 1 for stages, 2 for all.
    """
    if not verbose:
        yield
        return
    level = logging.INFO if verbose == 1 else logging.DEBUG
    before, handler = LOGGER.level, _Printer(level)
    has_own = any(not isinstance(each, logging.NullHandler) for each in LOGGER.handlers)
    if not (has_own or logging.root.handlers):
        LOGGER.addHandler(handler)
    LOGGER.setLevel(min(level, LOGGER.getEffectiveLevel()))
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


class _Printer(logging.Handler):
    """Prints log lines above the bars."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        terminal().print(self.format(record), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress(description: str, total: float | None, *, unit: str = "") -> Iterator[Bar]:
    """Yield a function that advances a bar; the bar disappears at the end.

    Parameters
    ----------
    description : str
        Description of the work.
    total : float or None
        Total amount of work; None if unknown.
    unit : str, default=""
        Unit of the amounts, such as "users" or "bytes"; without it no amounts are shown.

    Examples
    --------
    >>> with progress("Counting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    with closing(Bar(description, total, unit)) as bar:
        yield bar
    bar.log(logging.DEBUG)


class Bar:
    """Progress of a loop or stage: a row of the display, if any, and occasional log lines."""

    def __init__(
        self, description: str, total: float | None = None, unit: str = "", done: float = 0.0
    ) -> None:
        self._description, self._total, self._unit, self._done = description, total, unit, done
        self.begin = self._logged = perf_counter()
        self._row: TaskID | None = None
        if terminal().is_terminal and LOGGER.isEnabledFor(logging.WARNING):
            with _lock:
                if not _display().tasks:
                    _display().start()
                self._row = _display().add_task(description, total=total, amount=self._amount())

    def __call__(self, amount: float) -> None:
        """Advance the bar."""
        self._done += amount
        if self._row is not None:
            _display().update(self._row, advance=amount, amount=self._amount())
        now = perf_counter()
        if now - self._logged > _BETWEEN_LINES:
            self._logged = now
            self.log(logging.INFO)

    def describe(self, description: str) -> None:
        """Replace the description."""
        self._description = description
        LOGGER.info(description)
        if self._row is not None:
            _display().update(self._row, description=description)

    def through(self, results: Iterable[Result], n: int, worth: float = 1.0) -> Iterator[Result]:
        """Yield `n` results, and advance by `worth` in all."""
        for each in results:
            yield each
            self(worth / n)
        if not n:
            self(worth)

    def close(self) -> None:
        """Remove the row; the display stops with the last row."""
        if self._row is None:
            return
        with _lock:
            _display().remove_task(self._row)
            if not _display().tasks:
                _display().stop()

    def _amount(self) -> str:
        if not self._unit:
            return ""
        amounts = [self._done] if self._total is None else [self._done, self._total]
        if self._unit == "bytes":
            return " of ".join(map(in_bytes, amounts))
        return f"{' of '.join(f'{amount:,.0f}' for amount in amounts)} {self._unit}"

    def log(self, level: int) -> None:
        """Log the progress and the elapsed time."""
        far = self._amount() or (f"{self._done / self._total:.0%}" if self._total else "")
        elapsed = in_seconds(perf_counter() - self.begin)
        LOGGER.log(level, "%s: %s", self._description, ", ".join(filter(None, (far, elapsed))))


_lock = Lock()


@cache
def _display() -> Progress:
    """Return the display that all bars share."""
    # Imported on first use, because the import takes 0.1 s.
    from rich import progress as rich  # noqa: PLC0415

    class Rows(rich.Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            slow = [each for each in self.tasks if (each.elapsed or 0.0) > AT_ONCE]
            yield self.make_tasks_table(slow)

    return Rows(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[amount]}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
        console=terminal(),
        transient=True,
    )
