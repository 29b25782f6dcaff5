"""Refitting in the background: one thread of one process at a time."""

from __future__ import annotations

import logging
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from surerec.errors import InputError, StoreError
from surerec.live._sqlite import sole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LOGGER: Final = logging.getLogger("surerec.live")
_LOGGER.addHandler(logging.NullHandler())  # silent, unless an application wants to hear of it

PAUSE: Final = 600
"""Seconds after a background refit that failed, in which none is started."""


class RefitJob:
    """A refit that runs in a thread; while it runs, starting it again waits for the same one.

    Parameters
    ----------
    lock_file : Path
        Keeps other processes from refitting at the same time.
    """

    def __init__(self, lock_file: Path) -> None:
        self._lock_file = lock_file
        self._starting = Lock()
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self._not_before = 0.0

    @property
    def may_start(self) -> bool:
        """Whether no background refit failed a short while ago."""
        return monotonic() >= self._not_before

    def start(
        self, refit: Callable[[], None], report: Callable[[str], None], *, wait: bool
    ) -> None:
        """Start a refit, unless one is running.

        Parameters
        ----------
        refit : callable
            Refits, and replaces the model in one step.
        report : callable
            Is told why a refit failed that nobody waits for.
        wait : bool
            Wait until it has ended, and raise its error.
        """
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._error = None
                args = (refit, None if wait else report)
                self._thread = Thread(target=self._run, args=args, name="surerec-refit")
                self._thread.start()
        if wait:
            self.join()
            if self._error is not None:
                raise self._error

    def join(self) -> None:
        """Wait for the end of a refit that is running."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, refit: Callable[[], None], report: Callable[[str], None] | None) -> None:
        try:
            with sole(self._lock_file) as is_sole:
                if is_sole:
                    refit()
                else:
                    self._error = InputError("Another process refits this model already.")
        except BaseException as error:  # raised where it is waited for
            self._error = error
            if report is not None:
                self._not_before = monotonic() + PAUSE
                _LOGGER.exception("refitting failed", extra={"fields": {"why": str(error)}})
                report(_reason(error))


def _reason(error: BaseException) -> str:
    """Return why something failed, without the paths and addresses of an error's message.

    Examples
    --------
    >>> _reason(OSError(28, "No space left on device", "/srv/shop/models/000002"))
    'No space left on device'
    """
    if isinstance(error, StoreError):
        return error.reason
    return getattr(error, "strerror", None) or type(error).__name__
