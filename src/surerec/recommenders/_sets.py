"""A recommendation set: items with their p-values, and what is guaranteed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from surerec._columns import Columns, frame_of, json_number, json_rows, json_texts, json_values
from surerec._notebook import as_pandas, bar_figure, distinct_labels, html_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany, Guarantee
    from surerec.conformal import CalibratedProbability


class Hits(NamedTuple):
    """How likely some items of a list are consumed."""

    probabilities: tuple[float, ...] = ()
    """Of at least one, two and three hits; NaN for what is not calibrated."""
    interval: tuple[float, float] | None = None
    """The two Venn–Abers probabilities of at least one hit."""
    about: str = ""
    """What the probability of at least one means, or why there is none."""


@dataclass(frozen=True, repr=False)
class RecommendationSet:
    """The items recommended to a user, with what is guaranteed: a set, or a short list.

    Made by the recommenders' ``recommend``.

    Attributes
    ----------
    significance : float or None
        ε; None where no confidence was asked for.
    guarantee : Guarantee
        What is guaranteed, and under which assumptions; ``str()`` of it is a sentence.
    full_size : int
        Items in the set, or for a short list in the ranking, before it was cut to ``k`` or some
        were excluded.
    n_candidates : int
        Items that were up for recommendation.
    highest_confidence : float
        The highest confidence at which this profile can leave anything out.
    everything_qualifies : bool
        Whether the confidence is beyond that, so that every item with a score is in the set.
    ignored : tuple
        Ids of the history that nobody in the data has taken.
    recommender : str
        Whose answer it is: the name in the model folder, or the paper's, such as "icrs12".
    about_probability : str
        What the probabilities mean, in words, or why there are none; empty for recommenders that
        have none.
    precision : float or None
        Where precision is promised: which share of what is shown.
    hit_probability : float or None
        Of a short list: the probability that at least one of its items is consumed.
    hit_probabilities : tuple of float
        The probabilities that at least one, two and three of them are.
    expected_hits : float or None
        How many of them are consumed on average.
    about_hits : str
        What these probabilities mean, or why a short list has none.
    unknown_items : tuple
        Ids of `items` that were skipped as unknown.
    """

    find_columns: Callable[[], Mapping[str, NDArray[Any]]] = field(repr=False)
    """Computes :attr:`columns`."""
    size: int
    """How many items are shown."""
    catalogue: pl.Series = field(repr=False)
    """The ids of all items of the model, by code; :attr:`items` are the recommended ones."""
    titles: pl.Series | None = field(repr=False)
    history: NDArray[np.int64] = field(repr=False)
    significance: float | None
    guarantee: Guarantee
    full_size: int
    n_candidates: int
    highest_confidence: float
    everything_qualifies: bool
    ignored: tuple[Any, ...]
    recommender: str
    about_probability: str = ""
    precision: float | None = None
    unknown_items: tuple[Any, ...] = ()
    find_hits: Callable[[], Hits] | None = field(default=None, repr=False, compare=False)
    """Computes :attr:`hits`."""

    @cached_property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns of the frame, with items as codes: ordering takes as long as scoring."""
        return self.find_columns()

    @cached_property
    def hits(self) -> Hits:
        """The probabilities of hits, computed when they are first looked at."""
        return Hits() if self.find_hits is None else self.find_hits()

    @property
    def hit_probability(self) -> float | None:
        """The probability that at least one of the items is consumed.

        Calibrated by Venn–Abers: of the users with such a probability, that share consumes one of
        their k best items. None without `k` or calibrated probabilities;
        :attr:`about_hit_probability` has the reason.
        """
        return self.hits.probabilities[0] if self.hits.probabilities else None

    @property
    def hit_interval(self) -> tuple[float, float] | None:
        """The two Venn–Abers probabilities between which :attr:`hit_probability` lies."""
        return self.hits.interval

    @property
    def hit_probabilities(self) -> tuple[float | None, ...]:
        """The probabilities that at least one, two, three of the items are consumed."""
        return tuple(None if np.isnan(each) else each for each in self.hits.probabilities)

    @property
    def expected_hits(self) -> float | None:
        """How many of the items are consumed on average: the sum of their probabilities."""
        if not self.hits.probabilities or Columns.Probability not in self.columns:
            return None
        found = float(self.columns[Columns.Probability].sum())
        return None if np.isnan(found) else found

    @property
    def about_hit_probability(self) -> str:
        """What :attr:`hit_probability` means, in words, or why there is none."""
        return self.hits.about

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy: the numbers instead of what computes them."""
        found = {"columns": self.columns, "hits": self.hits}
        return {**self.__dict__, **found, "find_columns": None, "find_hits": None}

    @cached_property
    def used(self) -> tuple[Any, ...]:
        """Ids of the history that counted, in order."""
        return tuple(self.catalogue.gather(self.history).to_list())

    @property
    def confidence(self) -> float | None:
        """1 − ε."""
        return None if self.significance is None else round(1 - self.significance, 12)

    def to_frame(self) -> pl.DataFrame:
        """Return ``item_id``, ``rank``, ``score``, ``p_value``, ``entry_confidence``, ``title``.

        ``p_value`` where there are p-values. With a calibration over users there are none: before
        the title stand ``probability`` (that the item is taken within the stated future), and its
        interval ``probability_low`` to ``probability_high``.
        """
        return self._frame

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the set as the command line's JSON and HTTP have it.

        Parameters
        ----------
        n : int, optional
            How many of the items to list; by default all.
        """
        return {
            "recommender": self.recommender,
            "confidence": self.confidence,
            "significance": None if self.significance is None else round(self.significance, 12),
            "precision": self.precision,
            "guarantee": self.guarantee.to_dict(),
            "about_probability": self.about_probability,
            "hit_probability": self.hit_probability,
            "hit_interval": None if self.hit_interval is None else list(self.hit_interval),
            "hit_probabilities": list(self.hit_probabilities),
            "expected_hits": self.expected_hits,
            "about_hit_probability": self.about_hit_probability,
            "full_size": self.full_size,
            "n_candidates": self.n_candidates,
            "highest_confidence": self.highest_confidence,
            "everything_qualifies": self.everything_qualifies,
            "ignored": list(self.ignored),
            "unknown_items": list(self.unknown_items),
            "items": [] if n == 0 else json_rows(self._row_columns(n)),
        }

    def _row_columns(self, n: int | None) -> dict[str, list[Any]]:
        """Return the columns of the first n rows of :meth:`to_dict`."""
        columns = {name: values[:n] for name, values in self.columns.items()}
        codes = columns.pop(Columns.Item)
        return {
            Columns.Item: self.catalogue.gather(codes).to_list(),
            **{name: json_values(values) for name, values in columns.items()},
            Columns.Title: json_texts(self.titles, codes),
        }

    @cached_property
    def _frame(self) -> pl.DataFrame:
        return result_frame(self.columns, self.catalogue, self.titles)

    @property
    def items(self) -> list[Any]:
        """The ids, best first."""
        return self._frame[Columns.Item].to_list()

    def to_pandas(self) -> Any:
        """Return :meth:`to_frame` as a pandas frame, which needs pandas."""
        return as_pandas(self._frame)

    def plot(self, n: int = 15) -> Any:
        """Draw the best items as bars: their probability, or else their p-value or score.

        Gives a figure of matplotlib, the extra ``plots``.
        """
        shares = self._shares()
        return bar_figure(
            self._titles().head(n).to_list(),
            self.items[:n],
            self._frame[shares].head(n).fill_null(float("nan")).to_list(),
            self._title(),
            shares.replace("_", "-" if shares == Columns.PValue else " "),
        )

    def _shares(self) -> str:
        """Return the name of the column to show: probability, p-value or score."""
        for name in (Columns.Probability, Columns.PValue):
            if name in self._frame.columns and self._frame[name].is_finite().any():
                return name
        return Columns.Score

    def _titles(self) -> pl.Series:
        """Return the title of each item, or its id where it has none."""
        item = pl.col(Columns.Item).cast(pl.String)
        if self.titles is not None:
            item = pl.coalesce(pl.col(Columns.Title), item)
        return self._frame.select(item.alias("item"))["item"]

    def _title(self) -> str:
        at = "" if self.confidence is None else f" at confidence {self.confidence:g}"
        return f"{len(self):,} of {self.n_candidates:,} items{at}, by {self.recommender}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        shares = self._shares()
        names = distinct_labels(self._titles().to_list(), self.items)
        columns = [Columns.Rank, pl.Series("item", names, dtype=pl.String)]
        columns.append(self._frame[shares].alias(shares.replace("_", " ")))
        if self.confidence is not None:
            columns.append(self._frame[Columns.EntryConfidence].alias("comes in above"))
        bar = None if shares == Columns.Score else shares.replace("_", " ")
        hit = self.hit_probability
        title = self._title() if hit is None else f"{self._title()}; {hit:.1%} for at least one hit"
        return html_card(title, self._frame.select(columns), self.guarantee.labelled, bar=bar)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        at = "" if self.confidence is None else f" at confidence {self.confidence:g}"
        threshold = "" if len(self) == self.full_size else f", cut from {self.full_size:,}"
        return f"RecommendationSet({len(self):,} of {self.n_candidates:,} items{at}{threshold})"


@dataclass(frozen=True, repr=False, kw_only=True)
class GroupSet(RecommendationSet):
    """The items recommended to a group; see :class:`RecommendationSet` for what else it has.

    Attributes
    ----------
    members : tuple
        The members: ids of users, names that were given, or "member 2".
    satisfaction : tuple of float
        For each member the share of their own best items, as many as there are in the set, that is
        in it: 1 for who would have got the same alone. NaN if the set is empty.
    group_guarantee : str
        What is promised to the group, by name.
    formed : str
        Which groups the promise is about, in words.
    """

    members: tuple[Any, ...]
    satisfaction: tuple[float, ...]
    group_guarantee: str
    formed: str
    values: NDArray[np.float64] = field(repr=False)
    """What each item is worth to each member, members × items: from 1 for their best, down to 0."""
    member_ranks: NDArray[np.float64] = field(repr=False)
    """Its rank for each member."""

    @property
    def covered(self) -> bool:
        """Whether the guarantee of the full set covers this group."""
        return (self.guarantee.full or self.guarantee).holds

    @property
    def least_served(self) -> Any:
        """The member with the smallest satisfaction; None if the set is empty."""
        found = np.array(self.satisfaction)
        return None if np.isnan(found).all() else self.members[int(np.nanargmin(found))]

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the set as the command line's JSON and HTTP have it; see the base class."""
        served = zip(self.members, self.satisfaction, strict=True)
        return {
            **super().to_dict(n),
            "group_guarantee": self.group_guarantee,
            "formed": self.formed,
            "covered": self.covered,
            "members": [
                {"member": name, "satisfaction": json_number(share)} for name, share in served
            ],
            "least_served": self.least_served,
        }

    def _row_columns(self, n: int | None) -> dict[str, list[Any]]:
        return {
            **super()._row_columns(n),
            "member_ranks": self.member_ranks[:, :n].T.astype(int).tolist(),
            "member_values": self.values[:, :n].T.tolist(),
        }

    def by_member(self) -> pl.DataFrame:
        """Return ``item_id``, ``member``, ``rank`` and ``value`` of every item for every member.

        ``rank`` is its place among all items that no member has taken, for that member alone, and
        ``value`` the same from 1 for the best down to 0.
        """
        n, m = len(self), len(self.members)
        return pl.DataFrame(
            {
                Columns.Item: self.catalogue.gather(np.repeat(self.columns[Columns.Item], m)),
                "member": pl.Series([str(name) for name in self.members] * n, dtype=pl.String),
                Columns.Rank: self.member_ranks.T.ravel().astype(np.int64),
                "value": self.values.T.ravel(),
            }
        )

    def __repr__(self) -> str:
        whom = f", for {len(self.members)} members"
        return f"GroupSet{super().__repr__().removeprefix('RecommendationSet')[:-1]}{whom})"


def result_columns(assessment: Assessment, order: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Return the columns of a result, with items as codes."""
    p_values = assessment.p_values
    return {
        Columns.Item: assessment.candidates[order],
        Columns.Rank: np.arange(1, len(order) + 1),
        Columns.Score: assessment.shown(order),
        **p_value_column(None if p_values is None else p_values[order]),
        Columns.EntryConfidence: assessment.entry_confidences[order],
        **_probability_columns(
            None if assessment.probabilities is None else assessment.probabilities(order)
        ),
    }


def batch_columns(best: BestOfMany) -> dict[str, NDArray[Any]]:
    """Return the columns of a result for many users, with items as codes."""
    return {
        Columns.Item: best.items,
        Columns.Rank: best.ranks,
        Columns.Score: best.scores,
        **p_value_column(best.p_values),
        Columns.EntryConfidence: best.entry_confidences,
        **_probability_columns(best.probabilities),
        Columns.Covered: best.covered[best.owners],
    }


def p_value_column(p_values: NDArray[np.float64] | None) -> dict[str, NDArray[Any]]:
    """Return the column of p-values; no column where there are none."""
    return {} if p_values is None else {Columns.PValue: p_values}


def _probability_columns(probabilities: CalibratedProbability | None) -> dict[str, NDArray[Any]]:
    names = (Columns.Probability, Columns.ProbabilityLow, Columns.ProbabilityHigh)
    return {} if probabilities is None else dict(zip(names, probabilities, strict=True))


def result_frame(
    columns: Mapping[str, NDArray[Any]], item_ids: pl.Series, titles: pl.Series | None = None
) -> pl.DataFrame:
    """Build the frame of a result, with the items' own ids; missing numbers are null."""
    codes = columns[Columns.Item]
    frame = frame_of({**columns, Columns.Item: item_ids.gather(codes)})
    if titles is None:
        return frame
    return frame.with_columns(titles.gather(codes).alias(Columns.Title))


def stacked(
    parts: Sequence[Mapping[str, NDArray[Any]]],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the columns of several results as one, and whose each row is."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, np.repeat(np.arange(len(parts)), [len(part[Columns.Item]) for part in parts])
