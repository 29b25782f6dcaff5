"""The third extension point: what a confidence level means, and the kinds of it in a table."""

from __future__ import annotations

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
"""Where sets are cut: at the same rank for everyone, or at the same share of a user's scores."""

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
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
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


def level_of(significance: float) -> float:
    """Return 1 − ε, without the noise of binary fractions."""
    return round(1 - significance, 12)


class GuaranteeKind(ABC):
    """What is guaranteed to users like the calibration users, at a confidence of 1 − ε.

    A new kind is a subclass in this file and a row in
    :data:`surerec.calibration.GUARANTEE_KINDS`. Its sentences are templates; a subclass may
    override the methods that fill them.

    Attributes
    ----------
    name : str
        As the parameter ``promise`` of :class:`surerec.PopulationConformal`, and model folders,
        have it.
    prefix : str
        What the names of recommenders begin with.
    horizon : float or int
        The future that it is about where nothing else is said: a share of the profile, or a number
        of next items.
    monotone : bool
        Whether a user's loss never grows as the set does, which risk control needs.
    tested : bool
        Whether it is a precision, which is asked for by its level and tested over served users.
    kind : str
        What audits call it in their tables.
    audited : tuple of {"rank", "score"}
        The cuts with which an audit measures it.
    curve_by : callable or None
        Makes the risk curve of entries, owners and the number of users; None of what is tested.
    claim, lost, few_words, report : str
        Templates of :meth:`sentence`, :meth:`unknown`, :meth:`headline` and :meth:`title`.
    by_group : bool
        Whether an audit also looks at groups of users, and at a threshold for each.
    """

    name: str
    prefix: str
    horizon: ClassVar[Horizon]
    monotone: ClassVar[bool] = True
    tested: ClassVar[bool] = False
    kind: str
    audited: ClassVar[tuple[ThresholdUnit, ...]] = ("rank",)
    by_group: ClassVar[bool] = False
    curve_by: ClassVar[Callable[..., RiskCurve] | None] = None
    claim: ClassVar[str]
    lost: ClassVar[str] = (
        "calibration users lose {loss:.1%} on average whatever the set, as some of what they "
        "consumed next was {lacking}"
    )
    few_words: ClassVar[str] = "{name} at {confidence:.0%}, of items new to the user"
    report: ClassVar[str]

    def curve(
        self, entries: NDArray[np.float64], owners: NDArray[np.int64], n_users: int
    ) -> RiskCurve:
        """Return what calibration users lose as sets grow; what is tested has no such curve.

        Parameters
        ----------
        entries : array of float
            For each future item the cut that lets it in; infinite where none does.
        owners : array of int
            Whose it is, ``0 … n_users − 1``; everybody has at least one.
        n_users : int
            How many users there are.
        """
        if self.curve_by is None:
            raise InputError(f"The promise {self.name!r} has no risk curve.")
        return self.curve_by(entries, owners, n_users)

    def sentence(self, significance: float, future: str, people: str) -> str:
        """Return what is guaranteed, without the assumption and without a full stop.

        Parameters
        ----------
        significance : float
            ε.
        future : str
            The future in words, such as "the next 5 items new to the user".
        people : str
            Whom it is about.
        """
        return self.claim.format(
            percent=100 * significance,
            kept=100 * (1 - significance),
            confidence=1 - significance,
            future=future,
            people=people,
        )

    def title(self, future: str) -> str:
        """Return a few words for the reports of audits, such as "recall"."""
        return self.report.format(future=future)

    def unknown(self, loss: float, lacking: str) -> str:
        """Describe the loss that remains with every known item in the set, as a clause.

        Parameters
        ----------
        loss : float
            Mean over calibration users.
        lacking : str
            Why no set holds some items, such as "unknown to the model".
        """
        return self.lost.format(loss=loss, lacking=lacking)

    @property
    def guarantees(self) -> str:
        """The kind of :class:`surerec.Guarantee`: by default the name."""
        return self.name

    def headline(self, confidence: float) -> str:
        """Return a few words to choose among promises by, without the assumption."""
        return self.few_words.format(name=self.name, confidence=confidence)


class Recall(GuaranteeKind):
    """Of what users consume next, on average at most a share ε is left out.

    Examples
    --------
    >>> Recall().sentence(0.1, "the next 5 items", "users")
    'Of the next 5 items, at most 10% is left out on average over users'
    >>> Recall().unknown(0.12, "unknown to the model")
    'on average over calibration users, 12.0% of what a user consumed next was unknown to the
    model'
    """

    name = "recall"
    prefix = "recall"
    horizon = 0.4
    kind = "recall"
    guarantees = "recall"
    by_group = True
    audited = ("rank", "score")
    curve_by = RiskCurve.of_shares
    claim = "Of {future}, at most {percent:.4g}% is left out on average over {people}"
    lost = (
        "on average over calibration users, {loss:.1%} of what a user consumed next was {lacking}"
    )
    few_words = "keeps {confidence:.0%} of items new to the user that they will consume"
    report = "recall"


class Hit(GuaranteeKind):
    """With probability at least 1 − ε one of the next items is in the set.

    Examples
    --------
    >>> Hit().sentence(0.1, "the next 5 items", "users")
    'At least one of the next 5 items is in this set with probability at least 0.9, over users'
    >>> Hit().unknown(0.12, "unknown to the model")
    'for 12.0% of calibration users all that they consumed next was unknown to the model'
    """

    name = "hit"
    prefix = "hit"
    horizon = 5
    kind = "hit"
    curve_by = RiskCurve.of_first
    claim = (
        "At least one of {future} is in this set with probability at least {confidence:.4g}, over "
        "{people}"
    )
    lost = "for {loss:.1%} of calibration users all that they consumed next was {lacking}"
    few_words = "has at least one hit among items new to the user, for {confidence:.0%} of users"
    report = "hit in the {future}"


class Precision(GuaranteeKind):
    """Of what is shown to a user who is shown anything, on average a stated share is consumed.

    A loss that may grow with the list, so that it is tested, not controlled: see
    :class:`surerec.conformal.ServedPrecision`.

    Examples
    --------
    >>> Precision().sentence(0.6, "the next 5 items", "users")
    'Of what is shown, at least 40% is among the next 5 items on average over users who are shown
    anything'
    """

    name = "precision"
    prefix = "precision"
    horizon = 0.4
    kind = "precision"
    monotone = False
    tested = True
    claim = (
        "Of what is shown, at least {kept:.4g}% is among {future} on average over {people} who are "
        "shown anything"
    )
    few_words = "shows few items new to the user, of which a stated share is consumed"
    report = "precision"


GUARANTEE_KINDS: dict[str, GuaranteeKind] = {
    guarantee.name: guarantee for guarantee in (Recall(), Hit(), Precision())
}
"""The promises by name; a row more is a promise more, everywhere."""


def find_guarantee(guarantee: str | GuaranteeKind) -> GuaranteeKind:
    """Look a promise up by name, or take it as it is.

    Examples
    --------
    >>> find_guarantee("hit").horizon
    5
    """
    if isinstance(guarantee, GuaranteeKind):
        return guarantee
    return GUARANTEE_KINDS[check_choice("guarantee", guarantee, GUARANTEE_KINDS)]
