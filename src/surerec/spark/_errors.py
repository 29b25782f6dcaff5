"""What Spark raises, as one sentence that says what to do."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from surerec.errors import InputError, SurerecError

if TYPE_CHECKING:
    from collections.abc import Iterator


# The first that is found counts; what its group found fills the sentence.
_SENTENCES: Final = (
    (r"surerec\.errors\.\w+: ([^\n]+)", "{}"),
    (
        (
            r"(OutOfMemoryError|MemoryError|exit(?:ed with)? code 137|Cannot allocate memory|"
            r"Container killed|beyond (?:the )?physical memory|Unable to allocate)"
        ),
        (
            "The executors ran out of memory ({}); give them more (spark.executor.memory and "
            "spark.executor.memoryOverhead, or --executor-memory), or let a task take less with "
            "task_memory (--task-memory)."
        ),
    ),
    (
        r"No module named '(surerec|numba|polars|pyarrow)",
        (
            "The executors have no {}: install surerec in the Python that they run, and name that "
            "Python in PYSPARK_PYTHON."
        ),
    ),
    (
        r"(PYTHON_VERSION_MISMATCH)",
        (
            "The executors run another version of Python than the driver ({}); name one that all "
            "machines have in PYSPARK_PYTHON."
        ),
    ),
    (
        r"FileNotFoundError:.*?: '([^']+)'",
        (
            "An executor does not find {}: the model folder must be on a path that the driver and "
            "all executors share."
        ),
    ),
    (
        r"PermissionError:.*?: '([^']+)'",
        "An executor may not write {}: give it the right to, or name another shared path.",
    ),
    (r"PATH_NOT_FOUND\] ([^\n]+)", "Spark finds no data there: {}"),
    (
        r"(ExecutorLostFailure|executors? (?:was|were) lost)",
        (
            "Executors were lost more often than Spark tries again ({}); look into their logs, for "
            "most often they lacked memory."
        ),
    ),
    (r"\s*(\S[^\n]{0,300})", "Spark could not do it: {}"),
)


def sentence_for(text: str) -> str:
    """Find the sentence for what Spark said.

    Examples
    --------
    >>> sentence_for("[PATH_NOT_FOUND] Path does not exist: file:/nowhere. SQLSTATE: 42K03")
    'Spark finds no data there: Path does not exist: file:/nowhere. SQLSTATE: 42K03'
    """
    for pattern, sentence in _SENTENCES:
        if found := re.search(pattern, text):
            return sentence.format(found[1].strip())
    return "Spark could not do it, and gave no reason."


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what Spark raises into one sentence that says what to do."""
    try:
        yield
    except SurerecError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise InputError(sentence_for(str(error))) from error
