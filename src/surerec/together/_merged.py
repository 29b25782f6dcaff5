"""The paper's way for a group: every member's p-value of an item, merged into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._arguments import check_choice
from surerec.calibration import Assessment, Guarantee, level_of
from surerec.conformal import MERGERS, TOLERANCE, Merger, merge_p_values
from surerec.together._assessment import OfMembers
from surerec.together._calibration import folds_gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import ItemCalibration
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.together._company import Company


@dataclass(frozen=True, kw_only=True)
class MergedAssessment(OfMembers, Assessment):
    """Every candidate's merged p-value."""

    merged: NDArray[np.float64]
    lowest: float
    """The smallest p-value that so few calibration items can give."""

    @property
    def key(self) -> NDArray[np.float64]:
        """What ranks the candidates: the p-value."""
        return self.merged

    @property
    def p_values(self) -> NDArray[np.float64]:
        """The p-value of each candidate."""
        return self.merged

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        return 1 - self.merged

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out."""
        return 1 - self.lowest

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Tell which candidates are in the set."""
        return self.merged > significance + TOLERANCE

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Give the places of the candidates in the set (or of all), best first.

        By p-value, then the members' mean rank, then popularity.
        """
        order = np.lexsort((self.popularity[self.candidates], -self.score, -self.merged))
        return order if significance is None else order[self.included(significance)[order]]


@dataclass(frozen=True)
class MergedPValues:
    """Merges members' p-values by a rule that is valid whatever the dependence between them.

    Parameters
    ----------
    rule : Merger
        One of :data:`surerec.conformal.MERGERS`.
    calibration : ItemCalibration
        What gives each member's.
    """

    rule: Merger
    calibration: ItemCalibration

    @property
    def together(self) -> str:
        """What it is called."""
        return self.rule.name

    @property
    def people(self) -> str:
        """Whom it is about, in words."""
        return "this group"

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        company: Company,
        candidates: NDArray[np.int64],
        names: Sequence[str],  # noqa: ARG002  # as of other groups
    ) -> MergedAssessment:
        """Give every candidate's merged p-value; ties come by the members' mean rank."""
        found = [
            self.calibration.assess(scorer, statistics, company.asked(member), candidates)
            for member in range(len(company))
        ]
        ranks = np.empty((len(company), len(candidates)))
        for row, each in zip(ranks, found, strict=True):
            keys = (statistics.popularity[candidates], -each.score, -each.p_values)
            row[np.lexsort(keys)] = np.arange(1, len(candidates) + 1)
        p_values = np.stack([each.p_values for each in found])
        least = [1 / (each.n_calibration + 1) for each in found]
        merged = merge_p_values(p_values, self.rule.name)
        return MergedAssessment(
            candidates=candidates,
            score=-np.log(ranks).mean(axis=0),
            shown=merged.__getitem__,
            popularity=statistics.popularity,
            n_calibration=min(each.n_calibration for each in found),
            gap=next((each.gap for each in found if each.gap), "") or folds_gap(scorer, company),
            member_ranks=ranks,
            merged=merged,
            lowest=float(merge_p_values(least, self.rule.name)[0]),
        )

    def guarantee(
        self, significance: float, assessment: MergedAssessment | None = None
    ) -> Guarantee:
        """Return what the confidence guarantees, to a group or to every covered one."""
        group, members = "a group", "the members"
        if assessment is not None:
            group, members = "this group", f"{len(assessment.member_ranks)} members"
        whose = "everyone in" if self.rule.of == "everyone" else "someone of"
        return Guarantee(
            kind="item",
            level=level_of(significance),
            claim=(
                f"An item new to every member that {whose} {group} will take is left out with "
                f"probability at most {significance:.4g} ({self.rule.words} of the p-values of "
                f"{members}, valid whatever the dependence between them)"
            ),
            horizon="items new to every member",
            n_calibration=None if assessment is None else assessment.n_calibration,
            covers=group,
            assumptions=(
                "Assumes that each member's calibration and next items are exchangeable.",
                "It holds less well the more the members' tastes drift.",
            ),
        )

    def beyond(self, significance: float, assessment: MergedAssessment) -> str:
        """Return why a confidence cannot be supported, so that every item qualifies."""
        return (
            f"with {assessment.n_calibration} calibration items of the member of whom least is "
            f"known, {self.rule.words} supports a confidence of at most "
            f"{assessment.highest_confidence:.4g}, not {1 - significance:.4g}, so every item "
            "qualifies"
        )


def find_merger(together: str | None) -> Merger:
    """Look a rule up by name; twice the mean if nothing is said."""
    return MERGERS[check_choice("together", "mean" if together is None else together, MERGERS)]
