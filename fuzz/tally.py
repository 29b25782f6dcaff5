"""Outcomes of many inputs, with failures counted by signature."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surerec.errors import SurerecError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Tally:
    """Counts of the inputs that were answered, raised an error of surerec, or failed.

    Attributes
    ----------
    kind : str
        Kind of the inputs, such as "files".
    answered : int
        Inputs with a correct answer.
    refused : int
        Inputs with an error of surerec in one sentence.
    failures : Counter
        Crashes, tracebacks, broken limits and wrong answers, by signature.
    examples : dict
        For each signature, the first input that had it.
    notes : Counter
        Other counts, such as wrong answers without verification.
    """

    kind: str
    answered: int = 0
    refused: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        """Number of inputs."""
        return self.answered + self.refused + self.failures.total()

    def fail(self, signature: str, example: str) -> None:
        """Count a failure."""
        self.failures[signature] += 1
        self.examples.setdefault(signature, example)

    def attempt(self, act: Callable[[], object], example: str) -> None:
        """Call a function and count the outcome; `example` is how to reproduce it."""
        try:
            act()
        except SurerecError as error:
            if "\n" in str(error).strip():
                self.fail("an error of several lines", f"{example}: {error}")
            else:
                self.refused += 1
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # panics of polars are not Exceptions
            self.fail(signature(error), example)
        else:
            self.answered += 1

    def merge(self, other: Tally) -> None:
        """Add another tally of the same kind."""
        self.answered += other.answered
        self.refused += other.refused
        self.failures += other.failures
        self.notes += other.notes
        self.examples = {**other.examples, **self.examples}


def signature(error: BaseException) -> str:
    """Return the type of an error, and the last function of surerec in its traceback.

    Examples
    --------
    >>> signature(ValueError("any"))
    'ValueError'
    """
    ours = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "/surerec/" in frame.filename
    ]
    where = f" at {ours[-1].filename.rpartition('/surerec/')[2]}:{ours[-1].name}" if ours else ""
    return f"{type(error).__name__}{where}"
