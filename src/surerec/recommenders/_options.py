"""Request options, validated once against the features of the model."""

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
    """The request options as keyword arguments; see :meth:`FittedModel.recommend`."""

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
    """Validated request options; returned by ``FittedModel.options``."""

    significance: float | None = None
    """ε of the set and of the guarantee; None for models without a confidence."""
    k: int | None = None
    """The k best items only."""
    short: bool = False
    """Whether only k was given: the k best items of the whole ranking."""
    min_probability: float | None = None
    """Only items with at least this probability."""
    precision: float | None = None
    """The nominal precision, for models that guarantee precision."""
    item_list: str | None = None
    """The name of a calibrated item list."""
    items: NDArray[np.int64] | None = None
    """The items that may be recommended, by code, without a guarantee."""
    exclude: NDArray[np.int64] | None = None
    """Items to leave out, by code."""
    hits: bool = False
    """Whether batches include the probabilities of one, two and three hits."""

    @property
    def level(self) -> float | None:
        """ε of a set; None for short lists and for models without a confidence."""
        return None if self.short else self.significance

    @property
    def is_plain(self) -> bool:
        """Whether the request has a level and k at most, and no filters."""
        more = (self.min_probability, self.precision, self.item_list, self.items, self.exclude)
        return all(each is None for each in more) and not self.hits

    def left_out(self, n_shown: int | None = None, full_size: int | None = None) -> str:
        """Return why a list is not the full set; empty if it is.

        Without the sizes, return the reason for lists in general.
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
        """Return the list length that hit probabilities refer to: k for a short list."""
        return self.k if self.short and self.k and n_shown else n_shown

    def limited(self, query: Query) -> Query:
        """Return a query restricted to the allowed items."""
        if self.items is None:
            return query
        already = query.allowed
        both = self.items if already is None else np.intersect1d(self.items, already)
        return replace(query, allowed=both)

    def sizes(self, assessment: Assessment) -> tuple[int, int] | None:
        """Return the numbers of shown items and of items in the full set, without sorting.

        None if the numbers depend on the order, or if the order cannot be computed later.
        """
        filters = self.min_probability is not None or self.exclude is not None
        if filters or self.significance is None or not assessment.lasts:
            return None
        full_size = len(assessment.candidates) if self.short else assessment.size(self.significance)
        return (full_size if self.k is None else min(self.k, full_size)), full_size

    def shown(self, assessment: Assessment) -> tuple[NDArray[np.intp], int]:
        """Return the positions of the shown items, best first, and the size of the full set."""
        order = assessment.ranked() if self.short else assessment.ordered(self.significance)
        full_size = len(order)
        if self.min_probability is not None and assessment.probabilities is not None:
            # NaN probabilities pass no threshold: users without probabilities get an empty list.
            order = order[assessment.probabilities(order).probability >= self.min_probability]
        if self.exclude is not None:
            order = order[~np.isin(assessment.candidates[order], self.exclude)]
        return order[: self.k], full_size


_HOW: Final = {
    "confidence": (
        "{kind} ranks items without a confidence. Use InductiveConformal, TransductiveConformal or "
        "PopulationConformal."
    ),
    "probability": "{kind} has no probabilities of items. Use PopulationConformal.",
    "precision": "This recommender does not guarantee precision. Use "
    'PopulationConformal(guarantee="precision") (on the command line, precision-cm12).',
    "levels": "A precision guarantee has no entry confidences. Use recommend.",
    "hits": "{kind} has no probabilities of hits. Use PopulationConformal.",
    "item_lists": (
        "{kind} has no item lists. Use PopulationConformal with add_item_list, or items= for a "
        "list without a guarantee."
    ),
    "groups": "{kind} has no sets for groups. Use PopulationConformal or InductiveConformal.",
    "period": "{kind} is not calibrated on users. Use PopulationConformal.",
    "segments": "This {kind} has no segments. Omit segment=.",
}
"""Messages for missing features."""


def how_to_get(feature: str, kind: str) -> str:
    """Return the message for a missing feature, which names a recommender that has it."""
    return _HOW[feature].format(kind=kind)


def require(calibration: Calibration, feature: str, kind: str) -> None:
    """Raise NotSupportedError if a calibration lacks a feature."""
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
    """Return validated options, without `items` and `exclude`, which need the catalogue."""
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
                "This recommender guarantees precision. Pass the share of shown items that must be "
                "consumed, such as precision=0.5 (--precision 0.5)."
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
    """Return why lists have no probability of a hit; empty if they have one."""
    if "hits" not in calibration.features:
        return how_to_get("hits", kind)
    if options.k is None or options.k > LIST_MOST:
        return f"Hit probabilities exist for lists of up to {LIST_MOST} items. Pass k=."
    chosen = (options.items, options.exclude, options.min_probability)
    if any(each is not None for each in chosen):
        return (
            "Hit probabilities refer to a user's best items. Omit items=, exclude= and "
            "min_probability=, or use a calibrated item_list=."
        )
    return ""


def check_item_list(item_lists: Mapping[str, Calibration], name: str) -> None:
    """Raise NotSupportedError for an unknown item list."""
    if check_text("item_list", name) not in item_lists:
        names = ", ".join(map(repr, item_lists))
        fix = f"Use one of {names}." if names else "Add it with add_item_list."
        raise NotSupportedError(f"There is no item list {name!r}. {fix}")


def check_fraction(name: str, value: object) -> float:
    """Return a number between 0 and 1, both excluded; raise InputError otherwise.

    Examples
    --------
    >>> check_fraction("min_probability", 0.2)
    0.2
    """
    percent = float(cast("float", value)) if is_number(value) else 0.0
    hint = f" (did you mean {percent / 100:g}?)" if 1 < percent < 100 else ""  # noqa: PLR2004
    return check_number(name, value, 0, 1, f"a number between 0 and 1{hint}")
