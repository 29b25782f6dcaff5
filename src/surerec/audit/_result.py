"""What an audit found: sentences, tables, a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from surerec._notebook import html_card
from surerec.audit._findings import Findings
from surerec.audit._report import to_html, write
from surerec.audit._verdicts import at_headline
from surerec.errors import InputError
from surerec.reports import require_plots

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Audit(Findings):
    """What an audit found.

    Attributes
    ----------
    data, subject : str
        What was audited.
    overall : str
        Which guarantee to use, in one or two sentences.
    verdicts : list of Verdict
        One for each kind, with its sentence.
    coverage : polars.DataFrame
        For each kind and ε what was promised and delivered, with intervals, and set sizes. Kinds
        that begin with "new-" are of the new-user test: they come first and decide.
    drift : polars.DataFrame
        Tests whether later items conform as earlier ones did.
    groups : polars.DataFrame
        What was delivered by known items, popularity of the item and when people began.
    mondrian : polars.DataFrame
        A common threshold beside one for each group by known items.
    calendar : polars.DataFrame or None
        Window by window, models of several ages.
    skipped : list of str
        What could not be audited, and why.
    settings : dict
        Of this audit.
    probabilities : polars.DataFrame or None
        The probability of each item, said and happened: for all, the 10 best, by known items,
        popularity and rank, with the calibration error and the log loss.
    reliability : polars.DataFrame or None
        The same in 15 bins of equal mass: the reliability diagram.
    together : polars.DataFrame or None
        What random groups of two, four and eight were delivered, for each promise to groups and ε;
        and what their members got of their own, on average and the one who got least.
    segments : polars.DataFrame or None
        Nominal and observed level, interval, set sizes and users of each segment, for each kind
        and ε; the recommender's own guarantee first. Intervals hold together over segments and
        levels with 95%; ``below`` marks those below nominal.
    support : polars.DataFrame or None
        Miss at ε = 0.1 by the number of other users who consumed the item, calibration users beside
        new users; see :func:`surerec.evaluation.miss_by_support`.
    ranking : polars.DataFrame or None
        Precision@10 of calibration users and new users, and where calibration users' items that
        nobody else consumed were ranked, split by split.
    known : list of str
        What the data are like: counts, lengths, ties in time and repeats, in sentences.
    notes : list of str
        What was known to what scored people, and how it was counted.
    findings : list of str
        What speaks against the guarantee's assumptions: a false declaration of the scorer,
        near-duplicate users, bots. Empty if nothing was found.
    """

    def plot(self) -> Any:
        """Give the report's figure, promised against delivered; this needs surerec[plots]."""
        require_plots()
        if not self.verdicts:
            raise InputError(f"There is nothing to draw. {self.overall}")
        from surerec.audit._figure import figure  # noqa: PLC0415  # an extra

        return figure(self)

    def _repr_html_(self) -> str:
        """Give what a notebook shows: the verdict, and what was delivered of 90 %."""
        if not self.verdicts:
            told = pl.DataFrame({"what is known": [*self.known, *self.skipped]})
            return html_card(f"{self.subject} on {self.data}", told, self.overall)
        names = {verdict.kind: verdict.name for verdict in self.verdicts}
        columns = ("what is promised", "promised", "delivered", "low", "high", "verdict")
        named = pl.col("kind").replace(names).alias(columns[0])
        frame = at_headline(self.coverage).with_columns(named).select(columns)
        title = f"{self.subject} on {self.data}"
        return html_card(title, frame, self.overall, bar="delivered", n_shown=len(frame))

    def to_html(self) -> str:
        """Give the report as one page that needs no other file; this needs surerec[plots]."""
        return to_html(self)

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write report, figure and tables into a folder, which appears when it is complete.

        Parameters
        ----------
        folder : path-like
            A new folder.
        overwrite : bool, default=False
            Replace an earlier audit.
        """
        write(self, folder, overwrite=overwrite)
