"""Results: recommendation sets and short lists, for users and for groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from surerec._columns import Columns, frame_of, json_number, json_rows, json_texts, json_values
from surerec._notebook import distinct_labels, html_card

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany, Guarantee
    from surerec.conformal import CalibratedProbability


_PRINTED: Final = 5


class Hits(NamedTuple):
    """Probabilities that items of a list are consumed."""

    probabilities: tuple[float, ...] = ()
    """Probabilities of at least one, two and three hits; NaN if not calibrated."""
    interval: tuple[float, float] | None = None
    """The two Venn–Abers probabilities of at least one hit."""
    about: str = ""
    """The meaning of the probability of at least one hit, or the reason for its absence."""


@dataclass(frozen=True, repr=False, eq=False)
class RecommendationSet:
    """The items recommended to a user, best first, with their guarantee.

    Returned by ``recommend``. It is a sequence of item ids: ``len(picks)``, ``picks[0]``,
    ``picks[:5]``, ``item in picks`` and ``for item in picks``. ``print(picks)`` shows the first
    items.

    Attributes
    ----------
    significance : float or None
        ε; None for short lists and for models without a confidence.
    guarantee : Guarantee
        The guarantee with its assumptions; ``str(guarantee)`` states it.
    full_size : int
        Number of items before truncation to `k` and before exclusions.
    n_candidates : int
        Number of items that could be recommended.
    highest_confidence : float
        The highest confidence at which any item can be left out.
    everything_qualifies : bool
        Whether the confidence exceeds `highest_confidence`, so that the set holds every item.
    ignored : tuple
        Ids of the history that are not in the data.
    recommender : str
        Name of the recommender, such as "icrs12".
    about_probability : str
        Meaning of the probabilities, or the reason for their absence.
    precision : float or None
        The nominal precision, for models that guarantee precision.
    hit_probability : float or None
        Probability that at least one item of a short list is consumed.
    hit_probabilities : tuple of float
        Probabilities that at least one, two and three items are consumed.
    expected_hits : float or None
        Expected number of consumed items.
    about_hit_probability : str
        Meaning of these probabilities, or the reason for their absence.
    unknown_items : tuple
        Ids of `items` that were skipped as unknown.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> picks = sr.PopulationConformal("CM12").fit(films).recommend(user=7, k=5)
    >>> len(picks), picks[0] in picks, picks[:2] == picks.items[:2]
    (5, True, True)
    """

    find_columns: Callable[[], Mapping[str, NDArray[Any]]] = field(repr=False)
    """Computes :attr:`columns`."""
    size: int
    """Number of items."""
    catalogue: pl.Series = field(repr=False)
    """The ids of all items of the model, by code; :attr:`items` has the recommended ones."""
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
        """The columns of the frame with items as codes, computed on first access."""
        return self.find_columns()

    @cached_property
    def hits(self) -> Hits:
        """The probabilities of hits, computed on first access."""
        return Hits() if self.find_hits is None else self.find_hits()

    @property
    def hit_probability(self) -> float | None:
        """The probability that at least one of the items is consumed.

        Calibrated by Venn–Abers predictors: of the users with this probability, that share
        consumes one of their k best items. If it is None, :attr:`about_hit_probability` has the
        reason.
        """
        return self.hits.probabilities[0] if self.hits.probabilities else None

    @property
    def hit_interval(self) -> tuple[float, float] | None:
        """The two Venn–Abers probabilities between which :attr:`hit_probability` lies."""
        return self.hits.interval

    @property
    def hit_probabilities(self) -> tuple[float | None, ...]:
        """The probabilities that at least one, two and three items are consumed."""
        return tuple(None if np.isnan(each) else each for each in self.hits.probabilities)

    @property
    def expected_hits(self) -> float | None:
        """The expected number of consumed items: the sum of the probabilities."""
        if not self.hits.probabilities or Columns.Probability not in self.columns:
            return None
        found = float(self.columns[Columns.Probability].sum())
        return None if np.isnan(found) else found

    @property
    def about_hit_probability(self) -> str:
        """The meaning of :attr:`hit_probability`, or the reason for its absence."""
        return self.hits.about

    def __getstate__(self) -> dict[str, Any]:
        """Return the computed values instead of the functions that compute them."""
        found = {"columns": self.columns, "hits": self.hits}
        return {**self.__dict__, **found, "find_columns": None, "find_hits": None}

    @cached_property
    def used(self) -> tuple[Any, ...]:
        """The known ids of the history, in order."""
        return tuple(self.catalogue.gather(self.history).to_list())

    @property
    def confidence(self) -> float | None:
        """1 − ε."""
        return None if self.significance is None else round(1 - self.significance, 12)

    def to_frame(self) -> pl.DataFrame:
        """Return ``item_id``, ``rank``, ``score``, ``p_value``, ``entry_confidence``, ``title``.

        User-level calibrations have no ``p_value``. Instead they have ``probability`` (that the
        item is consumed within the horizon) with ``probability_low`` and ``probability_high``.
        """
        return self._frame

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Return the dictionary that ``--json`` and HTTP responses contain.

        Parameters
        ----------
        n : int, optional
            Number of items to include; by default all.
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
        """The item ids, best first."""
        return self._frame[Columns.Item].to_list()

    def _shares(self) -> str:
        """Return the column to show: probability, p-value or score."""
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
        """Return the HTML that notebooks show."""
        shares = self._shares()
        names = distinct_labels(self._titles().to_list(), self.items)
        columns = [Columns.Rank, pl.Series("item", names, dtype=pl.String)]
        columns.append(self._frame[shares].alias(shares.replace("_", " ")))
        if self.confidence is not None:
            columns.append(self._frame[Columns.EntryConfidence].alias("entry confidence"))
        bar = None if shares == Columns.Score else shares.replace("_", " ")
        hit = self.hit_probability
        title = self._title() if hit is None else f"{self._title()}; {hit:.1%} for at least one hit"
        return html_card(title, self._frame.select(columns), self.guarantee.labelled, bar=bar)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self.items

    def __getitem__(self, rank: int | slice) -> Any:
        return self.items[rank]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        shares = self._shares()
        values = self._frame[shares].head(_PRINTED).fill_null(float("nan")).to_list()
        lines = [
            f"{rank:>2}. {title}  ({shares.replace('_', '-')} {value:.3g})"
            for rank, (title, value) in enumerate(zip(self._titles(), values, strict=False), 1)
        ]
        more = [f"    and {len(self) - _PRINTED:,} more"] if len(self) > _PRINTED else []
        return "\n".join([self._title(), *lines, *more])

    def __repr__(self) -> str:
        at = "" if self.confidence is None else f" at confidence {self.confidence:g}"
        full = "" if len(self) == self.full_size else f", truncated from {self.full_size:,}"
        return f"{type(self).__name__}({len(self):,} of {self.n_candidates:,} items{at}{full})"


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class GroupSet(RecommendationSet):
    """The items recommended to a group; see :class:`RecommendationSet` for other attributes.

    Attributes
    ----------
    members : tuple
        The members: user ids, the given names, or "member 2".
    satisfaction : tuple of float
        For each member, the share of their own n best items that is in the set of n items: 1 if
        they would receive the same set alone. NaN if the set is empty.
    group_guarantee : str
        Name of the guarantee.
    formed : str
        The groups that the guarantee covers.
    """

    members: tuple[Any, ...]
    satisfaction: tuple[float, ...]
    group_guarantee: str
    formed: str
    values: NDArray[np.float64] = field(repr=False)
    """The value of each item to each member, members × items: from 1 (best) to 0."""
    member_ranks: NDArray[np.float64] = field(repr=False)
    """The rank of each item for each member, members × items."""

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
        """Return the dictionary of the base class, with the members and their satisfaction."""
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

        ``rank`` is the item's rank for that member alone, among all items that no member has
        consumed. ``value`` is a logarithmic scale of the rank, from 1 (best) to 0.
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
        return f"{super().__repr__()[:-1]}, for {len(self.members)} members)"


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
    """Return the columns of results for many users, with items as codes."""
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
    """Return the column of p-values, or no column if there are none."""
    return {} if p_values is None else {Columns.PValue: p_values}


def _probability_columns(probabilities: CalibratedProbability | None) -> dict[str, NDArray[Any]]:
    names = (Columns.Probability, Columns.ProbabilityLow, Columns.ProbabilityHigh)
    return {} if probabilities is None else dict(zip(names, probabilities, strict=True))


def result_frame(
    columns: Mapping[str, NDArray[Any]], item_ids: pl.Series, titles: pl.Series | None = None
) -> pl.DataFrame:
    """Build the frame of a result with item ids and titles; missing numbers are null."""
    codes = columns[Columns.Item]
    frame = frame_of({**columns, Columns.Item: item_ids.gather(codes)})
    if titles is None:
        return frame
    return frame.with_columns(titles.gather(codes).alias(Columns.Title))


def stacked(
    parts: Sequence[Mapping[str, NDArray[Any]]],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Concatenate the columns of several results, and return the owner of each row."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, np.repeat(np.arange(len(parts)), [len(part[Columns.Item]) for part in parts])
