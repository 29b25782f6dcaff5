"""Explanations: the counts and contributions behind a recommendation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns, json_number
from surerec._notebook import distinct_labels, html_card
from surerec.measures import Contribution, ProfileRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Assessment
    from surerec.measures import Query
    from surerec.precedence import Direction
    from surerec.recommenders._parts import ModelParts

_SENTENCES = 5
_NO_COUNTS = "there are no counts between it and the history"
_Z = 1.959963984540054  # the normal quantile of 97.5%


@dataclass(frozen=True, repr=False)
class Explanation:
    """Which items of the history support an item.

    Attributes
    ----------
    item : id
        The explained item.
    title : str
        Its title, or its id.
    score, p_value, entry_confidence : float
        Its score, p-value, and the confidence above which it is in the set; NaN if undefined.
    n_calibration : int
        Number of calibration items, or of calibration users.
    contributions : tuple of (str, float, float)
        For scorers with features, such as the learned one: description, value and effect on the
        score of each feature, largest effect first.
    unit : str
        Description of the score.
    recommender : str
        Name of the recommender.
    learned : str
        How the scorer was trained; empty for a formula.
    ignored : tuple
        Ids of the history that are not in the data.
    """

    item: Any
    title: str
    score: float
    p_value: float
    entry_confidence: float
    n_calibration: int
    frame: pl.DataFrame
    contributions: tuple[Contribution, ...] = ()
    unit: str = "score"
    recommender: str = ""
    learned: str = ""
    ignored: tuple[Any, ...] = ()

    def to_frame(self) -> pl.DataFrame:
        """Return each training item with its counts, strongest evidence first.

        Rows are ordered by the lower limit of the 95% Wilson interval of ``share``.

        ``item_id``, ``title``, ``support`` (other users who consumed it), ``later`` (of them,
        consumed the explained item later), ``earlier`` (before), ``share`` (later / support).
        """
        return self.frame

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the dictionary that ``--json`` and HTTP responses contain.

        Parameters
        ----------
        n : int, optional
            Number of history items to include; by default all.
        """
        return {
            "recommender": self.recommender,
            "item_id": self.item,
            "title": self.title,
            "score": json_number(self.score),
            "p_value": json_number(self.p_value),
            "entry_confidence": json_number(self.entry_confidence),
            "n_calibration": self.n_calibration,
            "ignored": list(self.ignored),
            **self.counts(n),
        }

    def counts(self, n: int | None = None) -> dict[str, Any]:
        """Return the counts of the first n history items as sentences and as rows."""
        rows = self.frame.head(len(self.frame) if n is None else n)
        return {"sentences": self.sentences(len(rows)), "because": rows.to_dicts()}

    def sentences(self, n: int = _SENTENCES) -> list[str]:
        """Return a sentence for each of the first n history items."""
        return [
            f"{row['later']:,} of {row['support']:,} users who consumed {row[Columns.Title]} "
            f"later consumed {self.title}, {row['earlier']:,} had consumed it before"
            for row in self.frame.head(n).iter_rows(named=True)
        ]

    @property
    def entry(self) -> str:
        """A sentence on the sets that contain the item; empty if there are no sets."""
        if np.isnan(self.entry_confidence):
            return ""
        inside = f"in the set at every confidence above {self.entry_confidence:.3f}"
        if np.isnan(self.p_value):
            return f"Calibrated on {self.n_calibration:,} users: {inside}."
        items = f"{self.n_calibration:,} calibration item{'' if self.n_calibration == 1 else 's'}"
        return f"p-value {self.p_value:.3f} from {items}: {inside}."

    @property
    def strongest(self) -> str:
        """A sentence on the largest contributions; empty if there are none."""
        if not self.contributions:
            return ""
        words = (f"{what} ({value:.3g}): {by:+.2f}" for what, value, by in self.contributions[:3])
        return f"Largest effects on its {self.unit}: {'; '.join(words)}."

    def __str__(self) -> str:
        counts = "; ".join(self.sentences(3)) or _NO_COUNTS
        lines = (f"{self.title}: {counts}.", self.strongest, self.learned, self.entry)
        return "\n".join(filter(None, lines))

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        columns = {"title": "consumers of", "later": "later", "support": "of", "share": "share"}
        names = distinct_labels(
            self.frame[Columns.Title].to_list(), self.frame[Columns.Item].to_list()
        )
        frame = self.frame.with_columns(pl.Series(Columns.Title, names, dtype=pl.String)).select(
            pl.col(name).alias(words) for name, words in columns.items()
        )
        note = " ".join(part for part in (self.strongest, self.learned, self.entry) if part)
        return html_card(f"{self.title}, by {self.recommender}", frame, note, bar="share")

    def __repr__(self) -> str:
        if not np.isnan(self.p_value):
            return f"Explanation({self.item!r}, p_value={self.p_value:.4g})"
        if np.isnan(self.entry_confidence):
            return f"Explanation({self.item!r})"
        return f"Explanation({self.item!r}, entry_confidence={self.entry_confidence:.4g})"


@dataclass(frozen=True, repr=False)
class GroupExplanation:
    """Which items of each member's history support an item for a group.

    Attributes
    ----------
    item, title
        The explained item.
    rank : int
        Its rank for the group.
    n_candidates : int
        Number of ranked items.
    entry_confidence : float
        The confidence above which it is in the set.
    members : tuple
        The members, as in :class:`GroupSet`.
    ranks : tuple of int
        Its rank for each member.
    reasons : tuple of Explanation
        The explanation for each member; all members are left out of the counts.
    recommender : str
        Name of the recommender.
    """

    item: Any
    title: str
    rank: int
    n_candidates: int
    entry_confidence: float
    members: tuple[Any, ...]
    ranks: tuple[int, ...]
    reasons: tuple[Explanation, ...]
    recommender: str

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the dictionary that ``--json`` and HTTP responses contain.

        Parameters
        ----------
        n : int, optional
            Number of history items of each member to include; by default all.
        """
        each = zip(self.members, self.ranks, self.reasons, strict=True)
        return {
            "recommender": self.recommender,
            "item_id": self.item,
            "title": self.title,
            "rank": self.rank,
            "n_candidates": self.n_candidates,
            "entry_confidence": json_number(self.entry_confidence),
            "members": [
                {"member": member, "rank": rank, **reason.counts(n)}
                for member, rank, reason in each
            ],
        }

    def __str__(self) -> str:
        first = (
            f"{self.title}: rank {self.rank:,} of {self.n_candidates:,} for the group, in the set "
            f"at every confidence above {self.entry_confidence:.3f}."
        )
        lines = [first]
        for name, rank, why in zip(self.members, self.ranks, self.reasons, strict=True):
            counts = "; ".join(why.sentences(2)) or _NO_COUNTS
            lines.append(f"{name}: rank {rank:,} of {self.n_candidates:,}. {counts}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"GroupExplanation({self.item!r}, {len(self.members)} members)"


def explain(model: ModelParts, scored: Query, code: int, assessment: Assessment) -> Explanation:
    """Return the explanation of one item, with the user left out of the counts."""
    statistics, items, scorer = model.statistics, model.items, model.scorer
    training = scored.history
    if not statistics.rows.has_counts:
        training = training[:0]  # there are no counts to show
    directions: tuple[Direction, ...] = ("followers", "predecessors")
    support: NDArray[np.integer] = np.empty(0, dtype=np.int64)
    later, earlier = support, support
    if len(training):
        rows = ProfileRows(statistics, training, scored.users)
        support = rows.support
        later, earlier = (
            rows.columns(direction, np.array([code]))[:, 0] for direction in directions
        )
    title = statistics.interactions.title
    frame = pl.DataFrame(
        {
            Columns.Item: items.ids.gather(training),
            Columns.Title: pl.Series([title(int(n)) for n in training], dtype=pl.String),
            "support": support,
            "later": later.astype(np.int64),
            "earlier": earlier.astype(np.int64),
            "share": later / np.maximum(support, 1),
        }
    )
    return Explanation(
        item=items[code],
        title=title(code),
        score=float(assessment.shown(np.zeros(1, dtype=np.intp))[0]),
        p_value=math.nan if assessment.p_values is None else float(assessment.p_values[0]),
        entry_confidence=float(assessment.entry_confidences[0]),
        n_calibration=assessment.n_calibration,
        frame=frame[np.argsort(-_lower_limits(frame), kind="stable")],
        contributions=scorer.contributions(scored, code),
        unit=scorer.unit,
        recommender=model.name,
        learned=scorer.about(scored),
        ignored=scored.ignored,
    )


def _lower_limits(frame: pl.DataFrame) -> NDArray[np.float64]:
    """Return the lower limit of each share's 95% Wilson interval; 40 of 90 exceeds 1 of 1."""
    n, share, z = frame["support"].to_numpy(), frame["share"].to_numpy(), _Z
    n = np.maximum(n, 1)
    spread = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.asarray((share + z * z / (2 * n) - spread) / (1 + z * z / n))
