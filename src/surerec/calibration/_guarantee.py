"""The third extension point: what a confidence level means, as an object."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from surerec._shown import counted

if TYPE_CHECKING:
    from surerec.calibration._assessment import Assessment

NEW_ITEMS: Final = "items new to the user that they consume"
"""What guarantees are about: repeats are neither recommended nor counted."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What an answer guarantees, to whom and under which assumptions.

    ``str(guarantee)`` is the sentence. Where nothing is guaranteed, the other fields describe what
    would be.

    Attributes
    ----------
    kind : str
        "item", "recall", "hit", "precision", "live" or "none" (of a ranking); the name of a promise
        of your own.
    level : float or None
        The nominal level, the confidence asked for.
    precision : float or None
        The share of the shown items that is consumed, where precision is guaranteed.
    claim : str
        What is guaranteed, without the assumptions.
    horizon : str
        The future that is covered.
    n_calibration : int or None
        The calibration items, users or groups behind it; None if that depends on the user.
    period : tuple of str or None
        The first and the last day of the held-out interactions that calibrated it.
    covers : str
        Who is covered.
    assumptions : tuple of str
        What it assumes and depends on, in sentences.
    holds : bool
        Whether it holds for this answer.
    reason : str
        Why it does not hold; empty if it does.
    full : Guarantee or None
        The guarantee of the full set, where items were left out of it.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
    >>> model = sr.InductiveConformal().fit(films)
    >>> found = model.recommend(user=7, confidence=0.7).guarantee
    >>> print(found)
    An item new to the user that they will consume is left out with probability at most 0.3.
    Assumes that the user's 9 calibration items and the items consumed next are exchangeable. It
    holds less well the more tastes drift.
    >>> found.holds, found.kind, found.level, found.n_calibration
    (True, 'item', 0.7, 9)
    >>> short = model.recommend(user=7, confidence=0.7, k=1).guarantee
    >>> short.holds, short.reason, short.full == found
    (False, 'the set was truncated to 1 item', True)
    >>> short.to_dict()["full"]["holds"]
    True
    """

    kind: str
    level: float | None = None
    precision: float | None = None
    claim: str = ""
    horizon: str = ""
    n_calibration: int | None = None
    period: tuple[str, str] | None = None
    covers: str = ""
    assumptions: tuple[str, ...] = ()
    holds: bool = True
    reason: str = ""
    full: Guarantee | None = None

    def __str__(self) -> str:
        if self.holds:
            return " ".join((f"{self.claim}.", *self.assumptions))
        none = f"No guarantee: {self.reason}."
        if self.full is None:
            return none
        if self.full.holds:
            return f"{none} The full set has: {self.full}"
        return f"{none} Nor has the full set: {self.full.reason}."

    @property
    def labelled(self) -> str:
        """The sentence, after "Guarantee:" where there is one."""
        return f"Guarantee: {self}" if self.holds else str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the ``sentence``, ready for JSON."""
        return {
            "sentence": str(self),
            **vars(self),
            "period": None if self.period is None else list(self.period),
            "assumptions": list(self.assumptions),
            "full": None if self.full is None else self.full.to_dict(),
        }

    def assuming(self, *sentences: str) -> Guarantee:
        """Return it with further assumptions; empty ones are skipped."""
        more = tuple(filter(None, sentences))
        if not more:
            return self
        full = None if self.full is None else self.full.assuming(*more)
        return replace(self, assumptions=self.assumptions + more, full=full)

    def broken(self, reason: str) -> Guarantee:
        """Return it as one that does not hold, if there is a reason."""
        return replace(self, holds=False, reason=reason) if reason else self

    def shortened(self, reason: str) -> Guarantee:
        """Return the guarantee of what is left of the set, if there is a reason to leave out."""
        if not reason or self.kind == "none":
            return self
        return replace(self, holds=False, reason=reason, full=self)


RANKING: Final = Guarantee(
    kind="none", holds=False, reason="this recommender ranks, without a confidence"
)


class Guarantees(Protocol):
    """A calibration, on users or on groups."""

    def guarantee(self, significance: float, assessment: Any = None) -> Guarantee:
        """Return what the confidence guarantees."""

    def beyond(self, significance: float, assessment: Any) -> str:
        """Return why a confidence cannot be supported."""


def guarantee_of(
    calibration: Guarantees, significance: float | None, assessment: Assessment | None = None
) -> Guarantee:
    """Return what the set of an assessment guarantees at ε; without one, that of covered users."""
    if significance is None:
        return RANKING
    found = calibration.guarantee(significance, assessment)
    if assessment is None:
        return found
    if assessment.everything_qualifies(significance):
        return found.broken(calibration.beyond(significance, assessment))
    return found.broken(assessment.gap)


def level_of(significance: float) -> float:
    """Return 1 − ε, without the noise of binary fractions."""
    return round(1 - significance, 12)


def item_guarantee(
    significance: float, assessment: Assessment | None, known: str, note: str
) -> Guarantee:
    """Return the item-level guarantee; `known` names the items that it is based on."""
    n = None if assessment is None else assessment.n_calibration
    based_on = f"{known} items" if n is None else counted(n, f"{known} items")
    return Guarantee(
        kind="item",
        level=level_of(significance),
        claim=(
            "An item new to the user that they will consume is left out with probability at most "
            f"{significance:.4g}"
        ),
        horizon=NEW_ITEMS,
        n_calibration=n,
        covers="each user",
        assumptions=(
            f"Assumes that the user's {based_on} and the items consumed next are exchangeable.",
            note,
        ),
    )
