"""What a live model guarantees, and from when what it stands on is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surerec._shown import counted
from surerec.calibration import NEW_ITEMS, Guarantee, level_of

if TYPE_CHECKING:
    from surerec.conformal import Steering

_LONG_RUN: Final = "the long run"


def live_guarantee(steering: Steering, significance: float, ages: str) -> Guarantee:
    """Return what is guaranteed live at a confidence, with what was observed so far."""
    place = steering.place_of(significance)
    if place is None:
        stated = ", ".join(f"{1 - each:.4g}" for each in steering.epsilons[::-1])
        found = Guarantee(kind="live", level=level_of(significance), horizon=_LONG_RUN)
        return found.broken(f"a guarantee is kept live at the confidences {stated} only")
    epsilon = steering.epsilons[place]
    so_far = "no event has been judged yet"
    if steering.n:
        observed, of_all = (
            each[place] for each in (steering.observed_by_user_day(), steering.delivered())
        )
        so_far = (
            f"over {counted(steering.user_days, 'user days')} it was {observed:.2%}, and it cannot "
            f"be more than {_points(steering.bound(place))} points away from "
            f"{100 * epsilon:.4g}%; counting each of {counted(steering.n, 'judged events')} it was "
            f"{of_all:.2%}"
        )
    return Guarantee(
        kind="live",
        level=level_of(epsilon),
        claim=(
            f"Of {NEW_ITEMS}, with each user and day counted once, {100 * epsilon:.4g}% is outside "
            f"such sets in the long run, whatever happens: {so_far}"
        ),
        horizon=_LONG_RUN,
        covers="users whose events are judged",
    ).assuming(ages)


def _points(share: float) -> str:
    """Return a share in percentage points, with two digits."""
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"  # noqa: PLR2004


def ages(learned: str, counted: str) -> str:
    """Say from when things are: what was learned, if anything was, and when all was counted.

    Examples
    --------
    >>> ages("", "2026-11-17T08:00:00+00:00")
    'Counts are of this moment; the threshold that is steered is of 2026-11-17.'
    """
    and_learned = f" and {learned} are" if learned else " is"
    return (
        f"Counts are of this moment; the threshold that is steered{and_learned} of {counted[:10]}."
    )


def stays_of_the_forgotten(learned: str, *, calibrated: bool) -> tuple[str, ...]:
    """Say what stays of somebody who was forgotten, and until when."""
    stays = [
        "the files of the model counted last hold their profile until a recount begun after this",
        "the cuts of the live promise, one number each, were moved by their events",
    ]
    if learned:
        stays.append(f"{learned} were learned from them too, and stay until the next recount")
    if calibrated:
        stays.append("probabilities and named lists are not offered until the next recount")
    return tuple(stays)
