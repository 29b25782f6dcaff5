"""Request options: what a caller asks for, checked once against what the model offers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

import numpy as np

from surerec._arguments import check_flag, check_number, check_text, check_whole, is_number
from surerec._words import counted
from surerec.calibration import LIST_MOST
from surerec.conformal import significance_of
from surerec.errors import NoConfidenceError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, Calibration
    from surerec.measures import Query


class RequestOptions(TypedDict, total=False):
    """The request options as keywords of Python; :meth:`FittedModel.recommend` documents them."""

    confidence: float | None
    significance: float | None
    k: int | None
    exclude: Iterable[Any]
    min_probability: float | None
    precision: float | None
    items: Iterable[Any] | None
    item_list: str | None
    unknown: str
    hits: bool


@dataclass(frozen=True, eq=False)
class RecommendOptions:
    """What is asked for, of one user or of many; made by ``FittedModel.options``."""

    significance: float | None = None
    """ε of the set, and of the guarantee; None for a model that only ranks."""
    k: int | None = None
    """The k best items only."""
    short: bool = False
    """Whether k alone was given: the k best of the ranking, whatever their level."""
    min_probability: float | None = None
    """Only items with at least this probability."""
    precision: float | None = None
    """The share of the shown items that is consumed, where the model guarantees precision."""
    item_list: str | None = None
    """The name of a calibrated item list."""
    items: NDArray[np.int64] | None = None
    """The only items that may be recommended, by code; they carry no guarantee."""
    exclude: NDArray[np.int64] | None = None
    """Items to leave out, by code."""
    hits: bool = False
    """Whether rows of many users have the probabilities of one, two and three hits."""

    @property
    def level(self) -> float | None:
        """The ε that was asked for; None for a short list and for a model that only ranks."""
        return None if self.short else self.significance

    @property
    def is_plain(self) -> bool:
        """Whether sets of all items are asked for, or the best of them, and nothing else."""
        more = (self.min_probability, self.precision, self.item_list, self.items, self.exclude)
        return all(each is None for each in more) and not self.hits

    def left_out(self, n_shown: int | None = None, full_size: int | None = None) -> str:
        """Return why a list is not the full set; empty if it is.

        Without the sizes: why lists are not full sets, of users in general.
        """
        reasons = [] if self.items is None else ["only the given items could be recommended"]
        if self.short:
            return ", and ".join([f"this is a list of the {self.k:,} best items", *reasons])
        if n_shown is None or n_shown != full_size:
            if self.min_probability is not None:
                reasons.append(f"items less probable than {self.min_probability:g} were left out")
            if self.exclude is not None:
                reasons.append("excluded items were left out")
            if self.k is not None and n_shown in (None, self.k):
                reasons.append(f"the set was truncated to {counted(self.k, 'items')}")
        return ", and ".join(reasons)

    def hits_length(self, n_shown: int) -> int:
        """Return the length of list that hits are calibrated for: k of a short list."""
        return self.k if self.short and self.k and n_shown else n_shown

    def limited(self, query: Query) -> Query:
        """Return a query that only the allowed items may answer."""
        if self.items is None:
            return query
        already = query.allowed
        both = self.items if already is None else np.intersect1d(self.items, already)
        return replace(query, allowed=both)

    def sizes(self, assessment: Assessment) -> tuple[int, int] | None:
        """Return how many items are shown, and how many the whole set has, without their order.

        None where that takes the order, or where it could not be found later.
        """
        filters = self.min_probability is not None or self.exclude is not None
        if filters or self.significance is None or not assessment.lasts:
            return None
        full_size = len(assessment.candidates) if self.short else assessment.size(self.significance)
        return (full_size if self.k is None else min(self.k, full_size)), full_size

    def shown(self, assessment: Assessment) -> tuple[NDArray[np.intp], int]:
        """Return the places of the items to show, best first, and the size of the whole set."""
        order = assessment.ranked() if self.short else assessment.ordered(self.significance)
        full_size = len(order)
        if self.min_probability is not None and assessment.probabilities is not None:
            # A user without probabilities is shown nothing.
            order = order[assessment.probabilities(order).probability >= self.min_probability]
        if self.exclude is not None:
            order = order[~np.isin(assessment.candidates[order], self.exclude)]
        return order[: self.k], full_size


_HOW: Final = {
    "confidence": (
        "{kind} ranks items and has no p-values; for a confidence use InductiveConformal or "
        "TransductiveConformal."
    ),
    "probability": "{kind} has no probabilities of items; PopulationConformal has.",
    "precision": "This recommender does not guarantee precision. Use "
    'PopulationConformal(guarantee="precision") (on the command line, precision-cm12).',
    "levels": "A promise of precision has no level for an item: ask recommend.",
    "hits": "{kind} has no probabilities of hits; PopulationConformal has.",
    "item_lists": (
        "{kind} has no item lists; PopulationConformal has (model.allow). items= restricts any set."
    ),
    "groups": "{kind} has no sets for groups; PopulationConformal and InductiveConformal have.",
    "period": "{kind} is not calibrated on users; PopulationConformal is.",
    "segments": "This {kind} has no segments: ask without segment= (--segment).",
}
"""How to get what a model lacks, by feature."""


def how_to_get(feature: str, kind: str) -> str:
    """Return the sentence that says which recommender has a feature."""
    return _HOW[feature].format(kind=kind)


def require(calibration: Calibration, feature: str, kind: str) -> None:
    """Raise NotSupportedError if a calibration lacks a feature, with the way to get it."""
    if feature in calibration.features:
        return
    reason = calibration.reasons.get(feature) or how_to_get(feature, kind)
    raise (NoConfidenceError if feature == "confidence" else NotSupportedError)(reason)


def check_options(
    calibration: Calibration,
    item_lists: Mapping[str, Calibration],
    kind: str,
    given: RequestOptions,
) -> RecommendOptions:
    """Return valid options; the caller looks up the codes of `items` and `exclude`."""
    k, item_list, precision = given.get("k"), given.get("item_list"), given.get("precision")
    level = given.get("confidence"), given.get("significance")
    has_level = any(each is not None for each in level)
    short = k is not None and precision is None and not has_level
    if item_list is not None:
        require(calibration, "item_lists", kind)
        check_item_list(item_lists, item_list)
    has_levels = "confidence" in calibration.features
    if precision is not None:
        require(calibration, "precision", kind)
        precision = check_fraction("precision", precision)
    elif "precision" in calibration.features:
        has_levels = False
        if not short:
            raise NotSupportedError(
                "This recommender promises precision: say which share of what is shown must be "
                "taken, such as precision=0.5 (--precision 0.5)."
            )
    if (min_probability := given.get("min_probability")) is not None:
        chosen = calibration if item_list is None else item_lists[item_list]
        require(chosen, "probability", kind)
        require(chosen, "min_probability", kind)
        min_probability = check_fraction("min_probability", min_probability)
    if has_level:
        require(calibration, "confidence", kind)
    found = RecommendOptions(
        significance=significance_of(*level) if has_levels else None,
        k=None if k is None else check_whole("k", k),
        short=short,
        min_probability=min_probability,
        precision=precision,
        item_list=item_list,
        hits=check_flag("hits", given.get("hits", False)),
    )
    if found.hits:
        require(calibration, "hits", kind)
    return found


def without_hits(options: RecommendOptions, calibration: Calibration, kind: str) -> str:
    """Return why lists have no probability of a hit; empty if they have."""
    if "hits" not in calibration.features:
        return how_to_get("hits", kind)
    if options.k is None or options.k > LIST_MOST:
        return f"The probability of a hit is that of a list of up to {LIST_MOST} items: give k."
    chosen = (options.items, options.exclude, options.min_probability)
    if any(each is not None for each in chosen):
        return (
            "The probability of a hit is that of a user's best items: ask without items=, exclude= "
            "and min_probability=, or with a calibrated item_list=."
        )
    return ""


def check_item_list(item_lists: Mapping[str, Calibration], name: str) -> None:
    """Refuse the name of an item list that the model does not have."""
    if check_text("item_list", name) not in item_lists:
        known = ", ".join(map(repr, item_lists)) or "none yet; name one by model.add_item_list(…)"
        raise NotSupportedError(f"There is no list {name!r}; there is {known}.")


def check_fraction(name: str, value: object) -> float:
    """Return a number between 0 and 1, both excluded, or refuse it by its name.

    Examples
    --------
    >>> check_fraction("min_probability", 0.2)
    0.2
    """
    percent = float(cast("float", value)) if is_number(value) else 0.0
    hint = f" (did you mean {percent / 100:g}?)" if 1 < percent < 100 else ""  # noqa: PLR2004
    return check_number(name, value, 0, 1, f"a number between 0 and 1{hint}")
