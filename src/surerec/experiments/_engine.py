"""Where the work on a data set's users is done: on this machine's cores, or on a cluster."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from surerec._progress import progress
from surerec._threads import run_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from surerec.precedence import PrecedenceStatistics


Work = TypeVar("Work")
Answer = TypeVar("Answer")


class Spread(Protocol):
    """Does many pieces of work on the statistics of one data set."""

    def __call__(
        self,
        task: Callable[[PrecedenceStatistics, Work], Answer],
        work: Sequence[Work],
        description: str,
    ) -> list[Answer]:
        """Give the answers, which JSON can say, in the order of the work."""


class Engine(Protocol):
    """Holds the statistics of a data set where work is done on them."""

    def holding(
        self, statistics: PrecedenceStatistics, folder: Path
    ) -> AbstractContextManager[Spread]:
        """Make them known to all who work; what that takes on disk goes into the folder."""


class Threads:
    """Works on this machine, on all cores."""

    @contextmanager
    def holding(self, statistics: PrecedenceStatistics, folder: Path) -> Iterator[Spread]:  # noqa: ARG002
        """Keep them in memory."""
        yield partial(_on_threads, statistics)


def _on_threads(
    statistics: PrecedenceStatistics,
    task: Callable[[PrecedenceStatistics, Any], Answer],
    work: Sequence[Any],
    description: str,
) -> list[Answer]:
    answers = []
    with progress(description, total=len(work)) as advance:
        for answer in run_blocks(partial(task, statistics), work):
            answers.append(answer)
            advance(1)
    return answers
