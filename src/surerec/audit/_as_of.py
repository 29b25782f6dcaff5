"""User-level promises by profile, with counts up to the moment of each question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec.audit._audited import FEWEST_USERS
from surerec.audit._measured import coverage_rows
from surerec.audit._users import cross_tested
from surerec.calibration import profile_cases
from surerec.errors import InputError
from surerec.evaluation import observe_as_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.audit._subject import Subject
    from surerec.calibration import Cut, Promise
    from surerec.precedence import PrecedenceStatistics

KNEW_LATER: Final = (
    "User-level promises by profile: scores also used what other people did later, which makes "
    "sets smaller than anybody would have had at the time; as_of (--as-of) counts only what "
    "had happened by then."
)


class AsOfRows(NamedTuple):
    """What was delivered as of then, and what is to be said about it."""

    rows: list[dict[str, Any]]
    said: str


def as_of_rows(
    subject: Subject,
    statistics: PrecedenceStatistics,
    users: NDArray[np.int64],
    promise: Promise,
    cuts: Sequence[Cut],
    seed: int,
) -> AsOfRows:
    """Measure a promise again where counts know nothing that others did later."""
    interactions = statistics.interactions
    horizon = subject.horizon(promise)
    future = f"next {horizon}" if isinstance(horizon, int) else f"last {horizon:.0%}"
    left_out = f"{promise.title(future)} as of then is left out"
    try:
        cases = profile_cases(interactions, horizon, min_known=subject.min_known)
        cases = cases[np.isin(cases.users, users)]
        found = observe_as_of(
            subject.recipe, cases, ties=statistics.ties, keep_candidates="score" in cuts
        )
    except InputError as error:
        said = str(error).rstrip(".")
        return AsOfRows([], f"{left_out}: {said[0].lower()}{said[1:]}.")
    if len(found.outcomes) < FEWEST_USERS:
        return AsOfRows([], f"{left_out}: {len(found.outcomes)} users are too few.")
    rows: list[dict[str, Any]] = []
    for cut in cuts:
        name = f"User-level {promise.title(future)}, cut by {cut}, counted as of then"
        tested = cross_tested(found.outcomes, cut, promise, seed=seed)
        rows += coverage_rows(f"{promise.kind}-{cut}-as-of", name, tested)
    return AsOfRows(rows, f"{promise.title(future).capitalize()} as of then: {found.in_words()}")
