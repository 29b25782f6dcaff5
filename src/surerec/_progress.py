"""Progress of long work: bars on a terminal or in a notebook, and log lines where asked for.

A stage (`stage`) is a part of the work that is timed; a bar (`progress`) shows how far a loop in it
is. Both report to the logger ``surerec``, and nothing else is printed. Bars of all threads share
one display, and appear only after half a second, so that short work does not flicker.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from numba.core import event

from surerec._words import in_seconds, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

LOGGER: Final = logging.getLogger("surerec")
"""Stages are logged at INFO, loops within them at DEBUG."""
LOGGER.addHandler(logging.NullHandler())

AT_ONCE = 0.5
"""Seconds of work that need no bar."""
_register: Any = event.register  # numba has no types
_unregister: Any = event.unregister
_BETWEEN_LINES = 30.0  # seconds, while one loop is logged
_NOTHING: Final = 0.05  # seconds, shown as 0.0


@cache
def terminal() -> Console:
    """Return the one console of all bars and log lines: lines are printed above the bars."""
    from rich.console import Console  # noqa: PLC0415  # takes a tenth of a second to import

    return Console(stderr=True)


@dataclass
class Spent:
    """The time that some work took, in total and by stage.

    Examples
    --------
    >>> print(Spent({"counting": 0.2, "learning": 26.1}, total=26.4))
    26 s: counting 0.2 s, learning 26 s, other 0.1 s
    """

    stages: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    in_stage: bool = False

    def add(self, name: str, seconds: float) -> None:
        """Add to what a stage took."""
        self.stages[name] = self.stages.get(name, 0.0) + seconds

    def __str__(self) -> str:
        parts = {**self.stages, "other": self.total - sum(self.stages.values())}
        words = [f"{name} {in_seconds(took)}" for name, took in parts.items() if took >= _NOTHING]
        return in_seconds(self.total) + (f": {', '.join(words)}" if words else "")


_spent: ContextVar[Spent | None] = ContextVar("spent", default=None)


class Compiling(event.Listener):
    """Counts and times the kernels that are compiled, and shows a bar meanwhile.

    Compiling is no time of the stage that it is in.
    """

    seconds: ClassVar[float] = 0.0
    at_work: ClassVar[Compiling | None] = None

    def __init__(self) -> None:
        self.n_compiled = 0
        self._depth = 0  # a kernel compiles those that it calls
        self._begin = 0.0
        self._bar: Bar | None = None

    def on_start(self, _event: Any) -> None:
        """Begin with another function."""
        self._depth += 1
        if self._bar is None:
            self._begin = perf_counter()
            self._bar = Bar("Compiling, once on this machine", unit="functions")
            self._bar(self.n_compiled)

    def on_end(self, _event: Any) -> None:
        """Count it."""
        self._depth -= 1
        self.n_compiled += 1
        if self._bar is not None:
            self._bar(1)
            if not self._depth:
                Compiling.seconds += perf_counter() - self._begin
                self._bar.close()
                self._bar = None


@contextmanager
def compile_progress() -> Iterator[Compiling]:
    """Show how far compiling is, where there is a terminal; inside another one it is that one."""
    if Compiling.at_work is not None:
        yield Compiling.at_work
        return
    listener = Compiling.at_work = Compiling()
    _register("numba:compile", listener)
    try:
        yield listener
    finally:
        Compiling.at_work = None
        _unregister("numba:compile", listener)


@contextmanager
def time_stages(done: str = "", verbose: int = 0) -> Iterator[Spent]:
    """Time the stages of some work, and log the totals when it is done.

    Inside of other work that is timed its stages are that work's, and no totals are logged.

    Parameters
    ----------
    done : str
        How the closing line begins, such as "Fitted"; without it, no totals are logged.
    verbose : int, default=0
        Print log lines meanwhile: stages from 1, all from 2.

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
    """Time a stage of the work; a stage inside of another is part of that one.

    Parameters
    ----------
    name : str
        As totals are to name it, such as "counting".
    """
    with time_stages() as spent:
        if spent.in_stage:
            yield
            return
        title = name.capitalize()
        LOGGER.debug("%s …", title)
        bar = Bar(title, is_stage=True)
        begin, compiled, spent.in_stage = perf_counter(), Compiling.seconds, True
        try:
            yield
        finally:
            bar.close()
            spent.in_stage = False
            compiling = Compiling.seconds - compiled
            took = perf_counter() - begin - compiling
            spent.add(name, took)
            spent.add("compiling", compiling)
        LOGGER.info("%s: %s", title, in_seconds(took))


@contextmanager
def printed(verbose: int) -> Iterator[None]:
    """Print log lines on stderr, above any bar, unless the program has its own log handlers.

    Parameters
    ----------
    verbose : int
        0 for what the program's own logging asks for, 1 for stages, 2 for all.
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
    """Prints log lines where the bars are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        terminal().print(self.format(record), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress(description: str, total: float | None, *, unit: str = "") -> Iterator[Bar]:
    """Give a function that moves a bar forward; the bar vanishes when the work is done.

    Parameters
    ----------
    description : str
        What is being done.
    total : float or None
        The amount at which the work is done; None if it is not known.
    unit : str, default=""
        What is counted, such as "users", or "bytes"; no amounts are shown without it.

    Examples
    --------
    >>> with progress("Counting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    bar = Bar(description, total, unit)
    try:
        yield bar
    finally:
        bar.close()
    bar.log(logging.DEBUG)


class Bar:
    """How far a loop or a stage is: a row of the display, if any, and a log line now and then."""

    def __init__(
        self,
        description: str,
        total: float | None = None,
        unit: str = "",
        *,
        is_stage: bool = False,
    ) -> None:
        self._description = description
        self._total = total
        self._unit = unit
        self._done = 0.0
        self._begin = self._logged = perf_counter()
        self._row: TaskID | None = None
        if terminal().is_terminal and LOGGER.isEnabledFor(logging.WARNING):
            self._show(is_stage=is_stage)

    def __call__(self, amount: float) -> None:
        """Move forward."""
        self._done += amount
        if self._row is not None:
            _display().update(self._row, advance=amount, amount=self._amount())
        now = perf_counter()
        if now - self._logged > _BETWEEN_LINES:
            self._logged = now
            self.log(logging.INFO)

    def describe(self, description: str) -> None:
        """Say what is being done now.

        Parameters
        ----------
        description : str
            In the place of the one before.
        """
        self._description = description
        LOGGER.info(description)
        if self._row is not None:
            _display().update(self._row, description=description)

    def _show(self, *, is_stage: bool) -> None:
        with _lock:
            if not _display().tasks:
                _display().start()
            self._row = _display().add_task(
                self._description, total=self._total, amount=self._amount(), is_stage=is_stage
            )

    def close(self) -> None:
        """Leave the display, which ends with the last row."""
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
            return " of ".join(map(in_words, amounts))
        return f"{' of '.join(f'{amount:,.0f}' for amount in amounts)} {self._unit}"

    def log(self, level: int) -> None:
        """Log how far it is, and since when.

        Parameters
        ----------
        level : int
            Of the logger.
        """
        far = self._amount() or (f"{self._done / self._total:.0%}" if self._total else "")
        took = in_seconds(perf_counter() - self._begin)
        LOGGER.log(level, "%s: %s", self._description, ", ".join(filter(None, (far, took))))


_lock = Lock()


@cache
def _display() -> Progress:
    """Return what all bars are rows of."""
    # Only who waits needs rich, which takes a tenth of a second to import.
    from rich import progress as rich  # noqa: PLC0415

    class Rows(rich.Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            slow = [each for each in self.tasks if (each.elapsed or 0.0) > AT_ONCE]
            loops = [each for each in slow if not each.fields["is_stage"]]
            yield self.make_tasks_table(loops or slow)

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
