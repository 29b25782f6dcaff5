"""The third extension point: guarantees, and the table of their kinds."""

from __future__ import annotations

import re
from abc import ABC
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from surerec._arguments import check_choice
from surerec.conformal import RiskCurve
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from surerec.calibration._held_out import Horizon

ThresholdUnit: TypeAlias = Literal["rank", "score"]
"""What a threshold is on: the rank of an item, or its share of the user's scores."""
ThresholdChoice: TypeAlias = Literal["rank", "score", "learned"]
"""The same, or "learned": its share of what the user is expected to consume."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a recommendation guarantees, to whom and under which assumptions.

    ``str(guarantee)`` states it in a few sentences. If it does not hold, the other fields describe
    the guarantee that fails.

    Attributes
    ----------
    kind : str
        "item", "recall", "hit", "precision", "live" or "none" (a ranking); or the name of a custom
        kind.
    level : float or None
        The nominal level, which is the requested confidence.
    precision : float or None
        The guaranteed share of shown items that are consumed; None for other kinds.
    claim : str
        What is guaranteed, without the assumptions.
    horizon : str
        The held-out interactions that it covers.
    n_calibration : int or None
        The number of calibration items, users or groups; None if it depends on the user.
    period : tuple of str or None
        The first and the last day of the held-out interactions that calibrated it.
    covers : str
        Who is covered.
    assumptions : tuple of str
        What it assumes and depends on, as sentences.
    holds : bool
        Whether it holds for this recommendation.
    reason : str
        Why it does not hold; empty if it does.
    full : Guarantee or None
        The guarantee of the full set, if items were left out of it.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> model = sr.InductiveConformal().fit(films)
    >>> found = model.recommend(user=7, confidence=0.7).guarantee
    >>> print(found)
    An item new to the user that they consume next is left out with probability at most 30%.
    Assumes that the user's 9 calibration items and future items are exchangeable. Drift of the
    user's taste weakens it.
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
        return f"{none} The full set has none either: {self.full.reason}."

    @property
    def labelled(self) -> str:
        """The sentences, after the label "Guarantee:" if it holds."""
        return f"Guarantee: {self}" if self.holds else str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the text (``sentence``) as JSON-compatible values."""
        return {
            "sentence": str(self),
            **vars(self),
            "period": None if self.period is None else list(self.period),
            "assumptions": list(self.assumptions),
            "full": None if self.full is None else self.full.to_dict(),
        }

    def assuming(self, *sentences: str) -> Guarantee:
        """Return the guarantee with further assumptions; empty ones are skipped."""
        more = tuple(filter(None, sentences))
        if not more:
            return self
        full = None if self.full is None else self.full.assuming(*more)
        return replace(self, assumptions=self.assumptions + more, full=full)

    def broken(self, reason: str) -> Guarantee:
        """Return the guarantee marked as not holding, if a reason is given."""
        return replace(self, holds=False, reason=reason) if reason else self

    def shortened(self, reason: str) -> Guarantee:
        """Return the guarantee of a truncated set, with the reason; unchanged without one."""
        if not reason or self.kind == "none":
            return self
        return replace(self, holds=False, reason=reason, full=self)


RANKING: Final = Guarantee(
    kind="none", holds=False, reason="this recommender ranks items without a confidence level"
)


def level_of(significance: float) -> float:
    """Return 1 − ε, rounded to remove floating-point noise."""
    return round(1 - significance, 12)


class GuaranteeKind(ABC):
    """A kind of guarantee for users exchangeable with the calibration users, at confidence 1 − ε.

    To add a kind, write a subclass in this file and add it to
    :data:`surerec.calibration.GUARANTEE_KINDS`. Its sentences are templates; a subclass may
    override the methods that fill them.

    Attributes
    ----------
    name : str
        Its name in ``PopulationConformal(guarantee=...)``, model folders and audit tables.
    prefix : str
        The prefix of recommender names, such as "recall" in "recall-cm12".
    horizon : float or int
        Default horizon: a share of the history, or a number of next items.
    monotone : bool
        Whether a user's loss never grows with the set, as risk control requires.
    tested : bool
        Whether it is a precision, which users request by value and which is tested, not controlled.
    audited : tuple of {"rank", "score"}
        The threshold units for which an audit measures it.
    curve_by : callable or None
        Builds the risk curve from entries, owners and the number of users; None if tested.
    claim, lost, summary, label : str
        Templates of :meth:`sentence`, :meth:`unknown`, :meth:`headline` and :meth:`title`.
    by_group : bool
        Whether an audit also measures it within groups of users, with a threshold for each.
    """

    name: str
    prefix: str
    horizon: ClassVar[Horizon]
    monotone: ClassVar[bool] = True
    tested: ClassVar[bool] = False
    audited: ClassVar[tuple[ThresholdUnit, ...]] = ("rank",)
    by_group: ClassVar[bool] = False
    curve_by: ClassVar[Callable[..., RiskCurve] | None] = None
    claim: ClassVar[str]
    lost: ClassVar[str] = (
        "calibration users lose {loss:.1%} on average whatever the set, as some of what they "
        "consumed next was {lacking}"
    )
    summary: ClassVar[str] = "{name} at {confidence:.0%}, of items new to the user"
    label: ClassVar[str]

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Return the risk curve of the calibration users; tested kinds have none.

        Parameters
        ----------
        entries : array of float
            For each held-out item, the threshold at which it enters the set; infinite if none.
        owners : array of int
            The user of each entry, ``0 … n_users − 1``; each user has at least one.
        n_users : int
            Number of users.
        """
        if self.curve_by is None:
            raise InputError(f"The guarantee {self.name!r} is tested and has no risk curve.")
        return self.curve_by(entries, owners, n_users)

    def sentence(self, significance: float, future: str, users: str) -> str:
        """Return what is guaranteed, without the assumption and without a full stop.

        Parameters
        ----------
        significance : float
            ε.
        future : str
            The held-out interactions as text, such as "the next 5 items new to the user".
        users : str
            Who is covered.
        """
        percent = 100 * (1 - significance)
        return in_singular(self.claim.format(percent=percent, future=future, users=users))

    def title(self, future: str) -> str:
        """Return the label in audit reports, such as "recall"."""
        return self.label.format(future=future)

    def unknown(self, loss: float, lacking: str) -> str:
        """Return a clause about the loss that remains when every known item is in the set.

        Parameters
        ----------
        loss : float
            Mean loss over calibration users.
        lacking : str
            Why no set contains some items, such as "unknown to the model".
        """
        return self.lost.format(loss=loss, lacking=lacking)

    def headline(self, confidence: float) -> str:
        """Return a short description for lists of recommenders, without the assumption."""
        return self.summary.format(name=self.name, confidence=confidence)


class Recall(GuaranteeKind):
    """Mean recall over users of at least 1 − ε.

    Examples
    --------
    >>> Recall().sentence(0.1, "the next 5 items", "users")
    'Recall of at least 90% on average over users: the set contains at least 90% of the next 5
    items'
    >>> Recall().unknown(0.12, "unknown to the model")
    'on average over calibration users, 12.0% of what a user consumed next was unknown to the
    model'
    """

    name = "recall"
    prefix = "recall"
    horizon = 0.4
    by_group = True
    audited = ("rank", "score")
    curve_by = RiskCurve.of_shares
    claim = (
        "Recall of at least {percent:.6g}% on average over {users}: the set contains at least "
        "{percent:.6g}% of {future}"
    )
    lost = (
        "on average over calibration users, {loss:.1%} of what a user consumed next was {lacking}"
    )
    summary = "contains {confidence:.0%} of the new items a user consumes next, on average"
    label = "recall"


class Hit(GuaranteeKind):
    """At least one of the next items is in the set, with probability at least 1 − ε over users.

    Examples
    --------
    >>> Hit().sentence(0.1, "the next 5 items", "users")
    'With probability at least 90% over users, the set contains at least one of the next 5 items'
    >>> Hit().sentence(0.1, "the next item new to the user", "users")
    'With probability at least 90% over users, the set contains the next item new to the user'
    >>> Hit().unknown(0.12, "unknown to the model")
    'for 12.0% of calibration users, everything they consumed next was unknown to the model'
    """

    name = "hit"
    prefix = "hit"
    horizon = 5
    curve_by = RiskCurve.of_first
    claim = (
        "With probability at least {percent:.6g}% over {users}, the set contains at least one of "
        "{future}"
    )
    lost = "for {loss:.1%} of calibration users, everything they consumed next was {lacking}"
    summary = "contains a new item that the user consumes next, for {confidence:.0%} of users"
    label = "hit in the {future}"


class Precision(GuaranteeKind):
    """Mean share of consumed items among those shown, over users who are shown any.

    Its loss may grow with the list, so it is tested rather than controlled; see
    :class:`surerec.conformal.ServedPrecision`.

    Examples
    --------
    >>> Precision().sentence(0.6, "the next 5 items", "users")
    'At least 40% of the shown items are among the next 5 items, on average over users who are
    shown any'
    """

    name = "precision"
    prefix = "precision"
    horizon = 0.4
    monotone = False
    tested = True
    claim = (
        "At least {percent:.6g}% of the shown items are among {future}, on average over {users} "
        "who are shown any"
    )
    summary = "shows a short list of new items, of which a stated share is consumed"
    label = "precision"


GUARANTEE_KINDS: dict[str, GuaranteeKind] = {
    guarantee.name: guarantee for guarantee in (Recall(), Hit(), Precision())
}
"""All kinds of guarantees by name. A new row makes a kind available on every surface."""


def in_singular(text: str) -> str:
    """Return a text without words that are for several next items, if it is about one.

    Examples
    --------
    >>> in_singular("the item is among the next item new to the user")
    'the item is the next item new to the user'
    >>> in_singular("it contains at least one of the next item")
    'it contains the next item'
    >>> in_singular("it contains at least one of the items of a list among the next item")
    'it contains at least one of the items of a list among the next item'
    """
    return re.sub(r"(at least one of|(?<=\bis )among) (?=the next item\b)", "", text)


def find_guarantee(guarantee: str | GuaranteeKind) -> GuaranteeKind:
    """Return the kind of guarantee with this name; a kind is returned as it is.

    Examples
    --------
    >>> find_guarantee("hit").horizon
    5
    """
    if isinstance(guarantee, GuaranteeKind):
        return guarantee
    return GUARANTEE_KINDS[check_choice("guarantee", guarantee, GUARANTEE_KINDS)]
