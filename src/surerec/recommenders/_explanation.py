"""Why an item is recommended, in counts and words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns, json_number
from surerec._notebook import as_pandas, bar_figure, distinct_labels, html_card
from surerec.measures import Contribution, ProfileRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Assessment
    from surerec.measures import Query
    from surerec.precedence import Direction
    from surerec.recommenders._parts import ModelParts

_IN_WORDS = 5
_Z = 1.959963984540054  # the normal quantile of 97.5 %


@dataclass(frozen=True, repr=False)
class Explanation:
    """Which earlier items speak for an item.

    Attributes
    ----------
    item : id
        The item explained.
    title : str
        Its title, or its id.
    score, p_value, entry_confidence : float
        Its score, p-value and where it enters the set; NaN where it has no p-values, or no sets.
    n_calibration : int
        Number of calibration items, or of calibration users.
    contributions : tuple of (str, float, float)
        For a scorer that can tell, such as the learned one: each feature in words, its value, and
        how far it moved the score of this item, the strongest first.
    unit : str
        What that score is, in words.
    recommender : str
        Whose answer it is, by name.
    learned : str
        How what scored it was learned, in a sentence; empty where it was not.
    ignored : tuple
        Ids of the history that nobody in the data has consumed.
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
        """Return each training item with its counts, the one that says most first.

        That is the highest share that is sure: by the lower end of its 95 % Wilson interval.

        ``item_id``, ``title``, ``support`` (other users who took it), ``later`` (of them, took the
        explained item later), ``earlier`` (took it before), ``share`` (later / support).
        """
        return self.frame

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the explanation as the command line's JSON and HTTP have it.

        Parameters
        ----------
        n : int, optional
            How many earlier items to list, those that say most; by default all.
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
        """Return the counts of the first n earlier items, in words and as rows, for JSON."""
        rows = self.frame.head(len(self.frame) if n is None else n)
        return {"sentences": self.sentences(len(rows)), "because": rows.to_dicts()}

    def sentences(self, n: int = _IN_WORDS) -> list[str]:
        """Return the strongest of them in words."""
        return [
            f"{row['later']:,} of {row['support']:,} users who took {row[Columns.Title]} "
            f"later took {self.title}, {row['earlier']:,} had taken it before"
            for row in self.frame.head(n).iter_rows(named=True)
        ]

    @property
    def entry(self) -> str:
        """In which sets the item is, in words; empty where there are no sets."""
        if np.isnan(self.entry_confidence):
            return ""
        inside = f"in the set at every confidence above {self.entry_confidence:.3f}"
        if np.isnan(self.p_value):
            return f"Calibrated on {self.n_calibration:,} users: {inside}."
        items = f"{self.n_calibration:,} calibration item{'' if self.n_calibration == 1 else 's'}"
        return f"p-value {self.p_value:.3f} from {items}: {inside}."

    @property
    def strongest(self) -> str:
        """What moved the score most, in words; empty where the scorer cannot tell."""
        if not self.contributions:
            return ""
        words = (f"{what} ({value:.3g}): {by:+.2f}" for what, value, by in self.contributions[:3])
        return f"What moved its {self.unit} most: {'; '.join(words)}."

    def __str__(self) -> str:
        counts = "; ".join(self.sentences(3)) or "nothing was counted between it and the profile"
        lines = [f"{self.title}: {counts}."]
        if self.contributions:
            lines.append(self.strongest)
        if self.learned:
            lines.append(self.learned)
        return "\n".join([*lines, self.entry] if self.entry else lines)

    def to_pandas(self) -> Any:
        """Return :meth:`to_frame` as a pandas frame, which needs pandas."""
        return as_pandas(self.frame)

    def plot(self, n: int = 10) -> Any:
        """Draw of how many who took each earlier item the share that took this one later.

        Gives a figure of matplotlib, the extra ``plots``.
        """
        some = self.frame.head(n)
        return bar_figure(
            some[Columns.Title].to_list(),
            some[Columns.Item].to_list(),
            some["share"].to_list(),
            f"{self.title}, by {self.recommender}",
            "share who took it later",
            behind=[f"({n:,})" for n in some["support"]],
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        columns = {"title": "who took", "later": "took it later", "support": "of", "share": "share"}
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
    """Why an item is in a group's set, member by member.

    Attributes
    ----------
    item, title
        The item explained.
    rank : int
        Its rank for the group.
    n_candidates : int
        Among how many items.
    entry_confidence : float
        The confidence above which it is in the set.
    members : tuple
        The members, as in :class:`GroupSet`.
    ranks : tuple of int
        Its rank for each of them.
    reasons : tuple of Explanation
        What speaks for it, for each of them; every member is left out of all counts.
    recommender : str
        Whose answer it is, by name.
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
        """Return the explanation as the command line's JSON and HTTP have it.

        Parameters
        ----------
        n : int, optional
            How many earlier items of each member to list; by default all.
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
            f"{self.title}: {self.rank:,} of {self.n_candidates:,} for the group, in the set at "
            f"every confidence above {self.entry_confidence:.3f}."
        )
        lines = [first]
        for name, rank, why in zip(self.members, self.ranks, self.reasons, strict=True):
            counts = "; ".join(why.sentences(2)) or "nothing was counted between it and the profile"
            lines.append(f"{name}: {rank:,} of {self.n_candidates:,}. {counts}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"GroupExplanation({self.item!r}, {len(self.members)} members)"


def explain(model: ModelParts, scored: Query, code: int, assessment: Assessment) -> Explanation:
    """Gather the counts between the items that scored it and one item, without the user's own."""
    statistics, items, scorer = model.statistics, model.items, model.scorer
    training = scored.history
    if not statistics.rows.has_counts:
        training = training[:0]  # what was not counted is no reason
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
        frame=frame[np.argsort(-_surely(frame), kind="stable")],
        contributions=scorer.contributions(scored, code),
        unit=scorer.unit,
        recommender=model.name,
        learned=scorer.about(scored),
        ignored=scored.ignored,
    )


def _surely(frame: pl.DataFrame) -> NDArray[np.float64]:
    """Return the lower end of each share's 95 % Wilson interval: 1 of 1 says less than 40 of 90."""
    n, share, z = frame["support"].to_numpy(), frame["share"].to_numpy(), _Z
    n = np.maximum(n, 1)
    spread = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.asarray((share + z * z / (2 * n) - spread) / (1 + z * z / n))
