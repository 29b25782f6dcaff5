"""What came of many hostile inputs, with failures counted by signature."""

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
    """How many inputs of one kind were answered, refused in a sentence, or failed.

    Attributes
    ----------
    kind : str
        What was tried, such as "files".
    answered : int
        Inputs that gave an answer which was right, or could not be wrong.
    refused : int
        Inputs that gave an error of surerec's own: one sentence.
    failures : Counter
        Crashes, tracebacks, broken limits and wrong answers, by signature.
    examples : dict
        For each signature, the first input that gave it: enough to try it again.
    notes : Counter
        Whatever else is worth counting, such as wrong answers where nothing was verified.
    """

    kind: str
    answered: int = 0
    refused: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        """How many inputs were tried."""
        return self.answered + self.refused + self.failures.total()

    def fail(self, signature: str, example: str) -> None:
        """Count a failure."""
        self.failures[signature] += 1
        self.examples.setdefault(signature, example)

    def attempt(self, act: Callable[[], object], example: str) -> None:
        """Do something, and count what comes of it; `example` says how to do it again."""
        try:
            act()
        except SurerecError as error:
            if "\n" in str(error).strip():
                self.fail("a refusal of several lines", f"{example}: {error}")
            else:
                self.refused += 1
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # polars' panics are no Exceptions
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
    """Name an error by its type and the last line of ours that it passed.

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
