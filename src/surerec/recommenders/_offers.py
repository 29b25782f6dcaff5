"""What a recommender offers, and what is wanted of it: checked once, refused in a sentence."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_flag, check_list
from surerec._checks import check_whole
from surerec.conformal import DEFAULT_CONFIDENCE, significance_of
from surerec.errors import InputError, LeftOutWarning, NoConfidence, NotOffered
from surerec.recommenders._fitted import Fitted
from surerec.recommenders._wanted import Wanted, check_fraction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.interactions import IdMap, UserGroups


def select_known(ids: IdMap, values: Iterable[Any], unknown: str) -> NDArray[np.int64]:
    """Return the codes of the known ids of a list, and warn of the others."""
    found = ids.select(values, unknown)
    if found.skipped:
        warnings.warn(found.message, LeftOutWarning, stacklevel=4)
    return found.codes


class Offers(Fitted):
    """Gives a recommender `wanted`; what it has none of, it refuses."""

    gives_confidence = True
    """Whether there are sets at a confidence."""
    gives_probabilities = False
    """Whether every item comes with the probability that it is taken."""
    warns_when_stale = False
    """Whether answers compare today's date with the window: those of a server do."""

    def headline(self, confidence: float = DEFAULT_CONFIDENCE) -> str:  # noqa: ARG002
        """Give what it promises in a few words, without the assumption: to choose one by.

        Examples
        --------
        >>> import surerec as sr
        >>> sr.PopulationConformal("CM12").headline(0.8)
        'keeps 80% of items new to the user that they will consume'
        >>> sr.PrecedenceMining().headline()
        'only ranks, and promises nothing'
        """
        return "only ranks, and promises nothing"

    def wanted(
        self,
        confidence: float | None = None,
        significance: float | None = None,
        *,
        k: int | None = None,
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
        chances: bool = False,
        unknown: str = "check",
    ) -> Wanted:
        """Give what is asked of everybody alike, checked; see :meth:`recommend`."""
        if among is not None:
            self._check_list(among)
        if precision is not None:
            precision = self._check_precision(precision)
            if confidence is None and significance is None:
                confidence = DEFAULT_CONFIDENCE
        elif self.promises_precision:
            raise NotOffered(
                "This recommender promises precision: say which share of what is shown must be "
                "taken, such as precision=0.5 (--precision 0.5)."
            )
        if min_probability is not None:
            self.require_probabilities(among)
            min_probability = check_fraction("min_probability", min_probability)
        if check_flag("chances", chances):
            self._check_chances(k, items)
        return Wanted(
            significance=self.significance(confidence, significance),
            limit=None if k is None else check_whole("k", k),
            min_probability=min_probability,
            precision=precision,
            among=among,
            allowed=None if items is None else self._codes_of(items, unknown),
            chances=chances,
        )

    def listed(self, among: str) -> Wanted:
        """Give what is wanted by somebody who asks for all of a named list, at any level."""
        self._check_list(among)
        return Wanted(among=among)

    def significance(self, confidence: float | None, significance: float | None) -> float | None:
        """Give ε from either way to say it; None for a recommender that has no confidence."""
        if confidence is not None or significance is not None:
            self.require_confidence()
        elif not self.gives_confidence:
            return None
        return significance_of(confidence, significance)

    @property
    def lists_(self) -> dict[str, list[Any]]:
        """The named lists, each with its items; only what is calibrated over users has any."""
        return {}

    @property
    def promises_precision(self) -> bool:
        """Whether a precision must be asked for."""
        return False

    def _check_precision(self, precision: float) -> float:  # noqa: ARG002
        raise NotOffered(
            "This recommender promises no precision: fit PopulationConformal(promise="
            '"precision"), on the command line precision-cm12.'
        )

    def _check_chances(self, k: object, items: object) -> None:  # noqa: ARG002
        raise NotOffered(f"{type(self).__name__} has no chances of lists; PopulationConformal has.")

    def _check_list(self, name: str) -> None:  # noqa: ARG002
        raise NotOffered(
            f"{type(self).__name__} has no named lists; PopulationConformal has (model.allow)."
        )

    def _codes_of(self, items: Iterable[Any], unknown: str) -> NDArray[np.int64]:
        """Return the codes of the known items, each once; refuse an empty list."""
        codes = np.unique(select_known(self.items_, items, unknown))
        if not len(codes):
            raise InputError("The list of items is empty: it needs at least one.")
        return codes

    def _leaving_out(self, wanted: Wanted, items: Iterable[Any]) -> Wanted:
        """Give what is wanted but for some items; ids that nobody took leave nothing out."""
        ids = check_list("exclude", items, "item ids")
        if not ids:
            return wanted
        self.require_fit()
        return replace(wanted, excluded=self.items_.codes(ids))

    def _user_groups(self) -> UserGroups | None:
        """Give the groups by a column of people's own that it was calibrated in."""
        return None

    def require_confidence(self) -> None:
        """Refuse a recommender that has no sets at a confidence."""
        if not self.gives_confidence:
            raise NoConfidence(
                f"{type(self).__name__} ranks items and has no p-values; for a confidence use "
                "InductiveConformal or TransductiveConformal."
            )

    def require_probabilities(self, among: str | None = None) -> None:  # noqa: ARG002
        """Refuse a recommender that has no probabilities of items, or none on a list."""
        if not self.gives_probabilities:
            raise NotOffered(
                f"{type(self).__name__} has no probabilities of items; PopulationConformal has "
                "(on the command line population-cm12, hit-cm12 and their like)."
            )
