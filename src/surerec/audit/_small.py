"""What can be said of data that are too small to be audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec.audit._audited import FEWEST_USERS
from surerec.audit._known import known_of
from surerec.audit._profiles import profile_findings
from surerec.audit._result import Audit
from surerec.audit._verdicts import percent
from surerec.calibration import PROMISES, profile_cases
from surerec.errors import InputError

if TYPE_CHECKING:
    from surerec.audit._audited import TooFewUsersError
    from surerec.audit._subject import Subject
    from surerec.interactions import Interactions


_REST: Final = (
    "Probabilities of items, groups of people who choose together and models of several ages over "
    f"the calendar: each is measured on at least {FEWEST_USERS} users."
)


def small_audit(
    subject: Subject, interactions: Interactions, lacking: TooFewUsersError, seed: int
) -> Audit:
    """Give what is known of data with too few users, and which promises can be given meanwhile."""
    nothing = pl.DataFrame()
    return Audit(
        data=interactions.name or "data without a name",
        subject=subject.name,
        overall=f"Whether guarantees hold cannot be tested here yet: {lacking.why}.",
        verdicts=[],
        coverage=nothing,
        drift=nothing,
        groups=nothing,
        mondrian=nothing,
        calendar=None,
        skipped=[
            *_item_level(subject, interactions),
            *_user_level(subject, interactions),
            _REST,
        ],
        settings={"n_users": lacking.found, "n_lacking": lacking.lacking, "seed": seed},
        known=known_of(interactions),
        findings=[each.sentence for each in profile_findings(interactions, seed)],
    )


def _item_level(subject: Subject, interactions: Interactions) -> list[str]:
    """Say how sure a person's own items can make them."""
    if not subject.item_level:
        return []
    median = int(np.median(np.diff(interactions.offsets)))
    n_calibration = median - int(median * subject.train_share)
    if n_calibration < 1:
        return ["Item-level p-values: most profiles are too short to give any."]
    said = (
        "Item-level p-values compare people with themselves, and need no others to be given: a "
        f"profile of {median} items supports a confidence of "
        f"{percent(n_calibration / (n_calibration + 1), 1)} at most. Whether they hold as taste "
        "drifts was not tested."
    )
    return [said]


def _user_level(subject: Subject, interactions: Interactions) -> list[str]:
    """Say up to which confidence each promise over users can be given, and who lacks for a test."""
    said = []
    for promise in PROMISES.values():
        if not promise.monotone:
            continue
        horizon = subject.horizon(promise)
        try:
            n = len(profile_cases(interactions, horizon, min_known=subject.min_known))
        except InputError:
            n = 0
        future = f"next {horizon}" if isinstance(horizon, int) else f"last {horizon:.0%}"
        title = f"User-level {promise.title(future)}"
        have = f"{n} {'user has' if n == 1 else 'users have'} {subject.min_known} known items"
        if n < 2:  # noqa: PLR2004  # somebody else must calibrate
            said.append(f"{title} cannot be given: {have} and such a future.")
            continue
        test = f"a test needs {FEWEST_USERS}"
        if n < FEWEST_USERS:
            test += f", and {FEWEST_USERS - n} are lacking"
        said.append(
            f"{title}, of items new to the user, can be given up to a confidence of "
            f"{percent((n - 1) / n, 1)}, as {have} and such a future; it was not tested ({test})."
        )
    return said
