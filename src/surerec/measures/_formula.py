"""The paper's 17 measures and plain precedence mining, as scorers over precedence statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._arguments import check_flag, check_kind, check_whole
from surerec._state import State
from surerec._words import near, shown
from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows, aggregate, log_score, make_plan
from surerec.measures._many import score_many_profiles
from surerec.measures._scorer import Measure, Scorer
from surerec.precedence import PrecedenceStatistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.measures._aggregates import ScoringPlan
    from surerec.measures._query import Query
    from surerec.measures._tiles import Aggregate, Statistic

_LONGEST_NAME = 100

_AT_ONCE: Final = 512
"""Maximum number of queries in a batch, which share the rows of common items."""
_MOST_SCORES: Final = 1 << 22
"""Maximum number of scores in a batch (32 MB)."""


@dataclass(frozen=True)
class Formula:
    """One of the paper's measures of how well item h fits a profile T.

    Examples
    --------
    >>> MEASURES["CM12"].formula
    'mean over i in T of PC(i, h) / (Sup(i) − PC(h, i))'
    """

    name: str
    """The paper's name."""
    readable: str
    """Descriptive name."""
    statistic: Statistic
    aggregate: Aggregate
    formula: str

    @property
    def number(self) -> int:
        """The paper's number, 1 to 17."""
        return int(self.name.lstrip("NCM"))

    @property
    def is_nonconformity(self) -> bool:
        """Whether a higher value means a worse fit."""
        return self.statistic == "absent"


_SCORE = Formula(
    "CM1", "score", "score", "top", "Sup(h) / n_u · product of the top I of PC(i, h) / Sup(h)"
)
_AGGREGATES: tuple[Aggregate, ...] = ("minimum", "median", "mean", "maximum")
_STATISTICS: tuple[tuple[Statistic, str], ...] = (
    ("count", "PC(i, h)"),  # CM2–5: users who consumed h after i
    ("share", "PC(i, h) / Sup(i)"),  # CM6–9: their share of the consumers of i (paper.md 1)
    ("ratio", "PC(i, h) / (Sup(i) − PC(h, i))"),  # CM10–13: of those who had not consumed h before
    ("absent", "(Sup(i) − PC(i, h)) / n_u"),  # NCM14–17: consumed i and not h after it
)


def _all() -> dict[str, Formula]:
    measures = [_SCORE]
    for statistic, formula in _STATISTICS:
        for kind in _AGGREGATES:
            name = f"{'NCM' if statistic == 'absent' else 'CM'}{len(measures) + 1}"
            text = f"{kind} over i in T of {formula}"
            measures.append(Formula(name, f"{kind}-{statistic}", statistic, kind, text))
    return {measure.name: measure for measure in measures}


MEASURES: Mapping[str, Formula] = MappingProxyType(_all())
"""The 17 measures by the paper's name, in the paper's order."""


def find_measure(name: str | int) -> Formula:
    """Return a measure by the paper's name, its number, its ICRS name or its descriptive name.

    Examples
    --------
    >>> find_measure("icrs12").name, find_measure(3).name, find_measure("mean-share").name
    ('CM12', 'CM3', 'CM8')
    """
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise InputError(f"There is no measure {shown(name)}. Pass a name or a number.")
    key = (name if isinstance(name, str) else shown(name)).strip().lower()[:_LONGEST_NAME]
    for measure in MEASURES.values():
        number = str(measure.number)
        if key in (measure.name.lower(), measure.readable, number, f"icrs{number}"):
            return measure
    names = [measure.name for measure in MEASURES.values()]
    readable = [measure.readable for measure in MEASURES.values()]
    alike = near(key, [n.lower() for n in names] + readable)
    hint = f" (did you mean {' or '.join(alike)}?)" if alike else ""
    raise InputError(
        f"There is no measure {shown(name)}{hint}. Choose from {', '.join(names)}, by name or by "
        f"description ({', '.join(readable)}), or from 'learned' and 'als', which are trained."
    )


class _CountScorer(Scorer):
    """A scorer that needs only counts, from which any users can be left out."""

    leaves_users_out = True
    checked = True

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return one fold for all users, as any users can be left out together."""
        return np.zeros(len(users), dtype=np.int64)

    def state(self) -> State:
        """Return an empty state, as the statistics are saved with the model."""
        return State()


class MeasureScorer(_CountScorer):
    """One of the paper's 17 measures over precedence statistics.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        Precedence counts.
    measure : str, int or Formula
        For example "CM12"; see :data:`surerec.measures.MEASURES`.
    top : int, default=1
        Number of largest factors in the product of CM1.
    literal : bool, default=False
        Compute CM6–9 by the paper's formula instead of its text (paper.md 1).

    Examples
    --------
    >>> from surerec import Interactions, count_precedence
    >>> data = Interactions.from_profiles([0, 3, 6, 8], [0, 1, 2, 0, 2, 1, 0, 2])
    >>> scorer = MeasureScorer(count_precedence(data), "CM4")
    >>> scores = scorer.score(np.array([0]))
    >>> scorer.value(scores, history_length=1, n_users=3).tolist()
    [0.0, 3.0, 2.0]
    """

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        measure: str | int | Formula,
        *,
        top: int = 1,
        literal: bool = False,
    ) -> None:
        self.statistics = check_kind(
            "statistics", statistics, PrecedenceStatistics, "counts (see surerec.count_precedence)"
        )
        self.measure = measure if isinstance(measure, Formula) else find_measure(measure)
        self.top = check_whole("top", top)
        self.literal = check_flag("literal", literal)

    @property
    def name(self) -> str:
        """The paper's name."""
        return self.measure.name

    @cached_property
    def plan(self) -> ScoringPlan | None:  # type: ignore[override]  # computed on first use
        """Input of the fused kernels; None if some rows are not in memory, or for a product."""
        many_factors = self.measure.statistic == "score" and self.top > 1
        if many_factors or not self.statistics.rows.holds_all:
            return None
        return make_plan(
            self.statistics, self.measure.statistic, self.measure.aggregate, literal=self.literal
        )

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item; see :class:`Scorer`.

        Scores are in a unit that keeps ties exact: the sum instead of the mean, the sum of the two
        middle values instead of the median, and counts instead of shares of users.
        """
        query.within(self.statistics.n_items, self.statistics.n_user_codes)
        rows = ProfileRows(self.statistics, query.history, query.users)
        measure = self.measure
        if measure.statistic == "score" and self.top > 1:
            return log_score(rows, self.top)
        found = aggregate(rows, measure.statistic, measure.aggregate, literal=self.literal)
        return -found if measure.is_nonconformity else found

    @cached_property
    def at_once(self) -> int:  # type: ignore[override]  # it depends on the plan
        """Number of queries in a batch; 1 if some rows are not in memory."""
        if self.plan is None:
            return 1
        return max(1, min(_AT_ONCE, _MOST_SCORES // self.statistics.n_items))

    def score_candidates(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item outside each history, bit for bit as `score_query` does."""
        plan = self.plan
        if plan is None or any(len(query.users) > 1 for query in queries):
            return self.score_many(queries)
        for query in queries:
            query.within(self.statistics.n_items, self.statistics.n_user_codes)
        return score_many_profiles(plan, self.statistics, queries)

    def value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64], n_users: int
    ) -> NDArray[np.float64]:
        """Return the paper's values, where higher conforms more; nonconformity is negative."""
        measure = self.measure
        if measure.statistic == "score":
            return np.exp(scores) if self.top > 1 else scores / n_users
        units: dict[str, NDArray[np.float64]] = {
            "median": np.full(1, 2.0),
            "mean": np.asarray(history_length, dtype=np.float64),
        }
        unit = units.get(measure.aggregate, np.ones(1))
        return scores / (unit * n_users if measure.is_nonconformity else unit)

    def paper_value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64], n_users: int
    ) -> NDArray[np.float64]:
        """Return the paper's values with the paper's sign: for NCM14–17, higher conforms less."""
        values = self.value(scores, history_length, n_users)
        return -values if self.measure.is_nonconformity else values


class FormulaMeasure(Measure):
    """A measure of the paper, which needs no training.

    Parameters
    ----------
    measure, top, literal
        As in :class:`MeasureScorer`.
    """

    learns = False
    grows = True

    def __init__(
        self, measure: str | int | Formula, *, top: int = 1, literal: bool = False
    ) -> None:
        self.measure = measure if isinstance(measure, Formula) else find_measure(measure)
        self.top = check_whole("top", top)
        self.literal = check_flag("literal", literal)
        self.stored = self.measure.name

    @property
    def name(self) -> str:
        """The paper's name."""
        return self.measure.name

    @property
    def short_name(self) -> str:
        """The paper's number."""
        return str(self.measure.number)

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Return the scorer on these statistics."""
        return MeasureScorer(statistics, self.measure, top=self.top, literal=self.literal)


class PrecedenceScorer(_CountScorer):
    """The logarithm of ``Sup(h) / n_u · Π PC(i, h) / Sup(h)``, −∞ where that is 0.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        Precedence counts.
    top : int or None
        Number of largest factors in the product; None for all, with zeros.
    """

    def __init__(self, statistics: PrecedenceStatistics, top: int | None) -> None:
        self.statistics = statistics
        self.top = top

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item; see :class:`surerec.measures.Scorer`."""
        query.within(self.statistics.n_items, self.statistics.n_user_codes)
        return log_score(ProfileRows(self.statistics, query.history, query.users), self.top)


class PrecedenceMeasure(Measure):
    """Plain precedence mining, which needs no training.

    Parameters
    ----------
    top : int or None
        As in :class:`PrecedenceScorer`.
    """

    learns = False

    def __init__(self, top: int | None) -> None:
        self.top = top

    @property
    def name(self) -> str:
        """Name in reports."""
        return "precedence mining" if self.top is None else f"precedence mining, top {self.top}"

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Return the scorer on these statistics."""
        return PrecedenceScorer(statistics, self.top)
