"""Coverage by history length, by segment, and for groups of users."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec.audit._profiles import Finding
from surerec.audit._verdicts import (
    FEWEST_USERS,
    HEADLINE,
    LEVEL,
    falls_short,
    interval_over_users,
    of_row,
    percent,
    with_interval,
)
from surerec.calibration import LengthSegments
from surerec.conformal import users_needed
from surerec.errors import InputError
from surerec.evaluation import CHECKED_EPSILONS, measure_curve
from surerec.interactions import Segmentation, read_user_segments
from surerec.recommenders import (
    GROUP_GUARANTEE_KINDS,
    find_aggregation,
    form_groups,
    observe_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases
    from surerec.evaluation import MeasuredSets
    from surerec.interactions import IdMap
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

_FINDING_KINDS: Final = ("recall-score", "recall-rank", "item-time")
"""The kinds that findings report for a subject without its own kind; the first measured one."""

_SIZES: Final = (2, 4, 8)  # of groups


class Partition(NamedTuple):
    """Users divided into segments."""

    by: str
    segment_of: NDArray[np.int64]
    names: tuple[str, ...]
    level: float = LEVEL
    """Confidence level of each interval."""


def by_history_length(n_known: NDArray[np.int64], n_segments: int) -> Partition:
    """Divide users by the number of known items.

    Examples
    --------
    >>> by_history_length(np.array([5, 6, 20, 30]), 2).names
    ('fewer than 20 items', '20 items or more')
    """
    segments = LengthSegments.equal(n_known, n_segments)
    edges = segments.edges.tolist()
    names: tuple[str, ...] = ("any number of items",)
    if edges:
        between = [f"{low:,} to {high - 1:,} items" for low, high in pairwise(edges)]
        names = f"fewer than {edges[0]:,} items", *between, f"{edges[-1]:,} items or more"
    return Partition("known items", segments.of(n_known), names)


def finding_segments(
    findings: Iterable[Finding], users: NDArray[np.int64], audited: NDArray[np.int64]
) -> Iterator[Partition]:
    """Yield two segments, without and with it, for each finding on 20 or more audited users.

    Parameters
    ----------
    findings : iterable of Finding
        Findings of the audit.
    users : array of int
        The users to divide, by code.
    audited : array of int
        All audited users, by code.
    """
    for each in findings:
        if each.users is None:
            continue
        n_with = int(np.isin(audited, each.users).sum())
        if min(n_with, len(audited) - n_with) >= FEWEST_USERS:
            segments = np.isin(users, each.users).astype(np.int64)
            yield Partition(f"{each.about}s", segments, (f"no {each.about}", each.about))


def _observed(
    measured: MeasuredSets, at: int, chosen: NDArray[np.bool_], level: float = LEVEL
) -> dict[str, Any]:
    """Return the observed level of some users at one ε, with interval, set size and floor."""
    interval = interval_over_users(measured.losses[at, chosen], level)
    found = *interval, *measured.size_and_floor(at, chosen)
    return dict(zip(("observed", "low", "high", "size", "floor"), found, strict=True))


def segment_rows(
    kind: str, measured: MeasuredSets, partition: Partition
) -> Iterator[dict[str, Any]]:
    """Yield the observed level, with its interval, for each segment and ε."""
    for segment, name in enumerate(partition.names):
        chosen = partition.segment_of == segment
        for at, epsilon in enumerate(CHECKED_EPSILONS if chosen.any() else ()):
            yield {
                "kind": kind,
                "by": partition.by,
                "segment": name,
                "epsilon": epsilon,
                "nominal": 1 - epsilon,
                **_observed(measured, at, chosen, partition.level),
                "n_users": int(chosen.sum()),
            }


def read_segments(
    segments: str | Segmentation | None,
    user_segments: Any,
    users: IdMap,
    fitted: Segmentation | None,
) -> Segmentation | None:
    """Return the segment of each user, or None if there are no segments.

    Parameters
    ----------
    segments : str, Segmentation or None
        The name of a column, or the segments.
    user_segments : mapping, pandas Series, frame, path or None
        The data with that column.
    users : IdMap
        The users of the data.
    fitted : Segmentation or None
        The segments that the recommender was fitted with.
    """
    if isinstance(segments, str):
        if user_segments is not None:
            return read_user_segments(user_segments, segments, users)
        if fitted is not None and fitted.column == segments:
            return fitted
        raise InputError(
            f"segments={segments!r} names a column, but user_segments= is missing. Pass a mapping, "
            "a Series, a frame or a file (--user-segments on the command line)."
        )
    if user_segments is not None or not isinstance(segments, Segmentation | None):
        raise InputError(
            "segments must be the name of a column of user_segments. Pass, for example, "
            'segments="country", user_segments="users.csv".'
        )
    return fitted if segments is None else segments


@dataclass(frozen=True)
class Segments:
    """The segments of an audit; segments with too few audited users are pooled.

    Attributes
    ----------
    users : Segmentation
        The segment of each user of the data.
    audited : array of int
        The audited users, by code.
    fitted : Segmentation or None
        The segments in which the recommender is calibrated; None for one threshold for all.
    """

    users: Segmentation
    audited: NDArray[np.int64]
    fitted: Segmentation | None = None

    @property
    def per_segment(self) -> bool:
        """Whether the guarantee of the recommender holds per segment."""
        return self.fitted is not None and self.fitted.column == self.users.column

    @property
    def pooled(self) -> Segmentation:
        """The segments of the table, with small ones pooled."""
        return self.users.pooled(FEWEST_USERS, self.audited)

    def thresholds(self, users: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the segment that calibrates each user; None for one threshold for all."""
        if self.fitted is None:
            return None
        codes = self.fitted.pooled(FEWEST_USERS, self.audited).codes[users]
        return codes.astype(np.int64)

    def partition(self, users: NDArray[np.int64]) -> Partition:
        """Divide users by segment; intervals hold jointly over segments and levels (Bonferroni)."""
        pooled = self.pooled
        codes, names = pooled.codes[users].astype(np.int64), pooled.names
        if not self.per_segment and (codes < 0).any():
            codes, names = np.where(codes < 0, len(names), codes), (*names, f"no {pooled.column}")
        n_cells = len(CHECKED_EPSILONS) * max(len(np.unique(codes[codes >= 0])), 1)
        return Partition(pooled.column, codes, names, 1 - 0.05 / n_cells)

    def findings(self, rows: Sequence[dict[str, Any]], own_kind: str) -> list[Finding]:
        """Return a finding on the segments whose whole interval is below the nominal level.

        It reports the recommender's own kind of guarantee, else the first kind that was measured.
        """
        rows = [row for row in rows if row["by"] == self.users.column and row["size"] is not None]
        kinds = [row["kind"] for row in rows]
        first = next((kind for kind in (own_kind, *_FINDING_KINDS) if kind in kinds), "")
        below = [row for row in rows if row["kind"] == first and falls_short(row)]
        if not below:
            return []
        # Each segment is named once, at the headline level or at its largest shortfall.
        below.sort(key=lambda row: (row["epsilon"] == HEADLINE, row["nominal"] - row["observed"]))
        named = {row["segment"]: row for row in below}
        column, names = self.users.column, ", ".join(map(self._label, named))
        listed = "; ".join(
            f"{self._label(name)} has {with_interval(row)} at "
            f"{percent(row['nominal'])} nominal ({row['n_users']:,} users)"
            for name, row in named.items()
        )
        found = f"Segments below nominal (intervals hold jointly over segments): {listed}."
        if self.per_segment:
            return [Finding(f"{found} The guarantee per {column} does not hold there.", names)]
        over_all = f"The guarantee is over all users, not per {column}."
        return [Finding(f"{found} {over_all} {_how_to_fit(column)}")]

    def _label(self, segment: str) -> str:
        column = self.users.column
        if segment in (f"no {column}", self.pooled.other(self.users)):
            return segment
        return f"{column} {segment!r}"

    def notes(self) -> list[str]:
        """Return notes on the scope of the guarantee and on the pooled segments."""
        column, counts = self.users.column, self.users.counts(self.audited)
        over = "per" if self.per_segment else "over all users, not per"
        notes = [f"The guarantee is {over} {column}."]
        missing = int((self.users.codes[self.audited] < 0).sum())
        if missing and self.per_segment:
            notes.append(
                f"{missing:,} audited {'user has' if missing == 1 else 'users have'} no {column}: "
                f"the guarantee per {column} does not cover them."
            )
        few = ", ".join(f"{name} ({n})" for name, n in counts.items() if 0 < n < FEWEST_USERS)
        if not few:
            return notes
        why = (
            f"Segments with fewer than {FEWEST_USERS} audited users are pooled as "
            f"'{self.pooled.other(self.users)}': {few}. Audit more users with --users (n_users=)."
        )
        if self.per_segment:
            why += (
                " The recommender does not pool them: the set of a segment with fewer than "
                f"{users_needed(HEADLINE)} calibration users contains every item at "
                f"{percent(1 - HEADLINE)}. {_how_to_fit(column)}"
            )
        return [*notes, why]


def _how_to_fit(column: str) -> str:
    return (
        f"For a guarantee per {column} with small ones pooled, use surerec fit … --segments "
        f"{column} --user-segments users.csv --pool-below {FEWEST_USERS}, or in Python "
        f"segments={column!r} and fit(…, "
        f"user_segments=pool_segments(users, {column!r}, min_users={FEWEST_USERS}))."
    )


def group_guarantee_rows(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, random_state: int
) -> Iterator[dict[str, Any]]:
    """Yield the observed level of random groups of users, by size, guarantee and ε.

    Parameters
    ----------
    scorer : Scorer
        A scorer that can leave all members of a group out of its scores.
    statistics : PrecedenceStatistics
        Counts of the known interactions.
    cases : Cases
        Known and held-out parts of the audited users' histories.
    random_state : int
        Seed of the groups and of the halves.
    """
    for size in _SIZES:
        groups = form_groups(cases, size, "random", scorer.fold_of(cases.users), random_state)
        if len(groups) < FEWEST_USERS:
            continue
        found = observe_groups(scorer, statistics, cases, groups, find_aggregation("average"))
        for guarantee in GROUP_GUARANTEE_KINDS.values():
            curve, units = guarantee.curve_of(found)
            if size > guarantee.largest or len(units) < FEWEST_USERS:
                continue
            candidates = found.n_candidates[units].astype(np.float64)
            measured = measure_curve(
                curve, partial(_at_most, candidates), random_state=random_state
            )
            for at, epsilon in enumerate(CHECKED_EPSILONS):
                observed = _observed(measured, at, np.ones(len(units), dtype=bool))
                word = of_row(1 - epsilon, observed["low"], observed["high"])
                yield {
                    "members": size,
                    "guarantee": guarantee.name,
                    "epsilon": epsilon,
                    "nominal": 1 - epsilon,
                    **observed,
                    "verdict": word if users_needed(epsilon) <= len(units) // 2 else "cannot tell",
                    "n_groups": len(units),
                }


def _at_most(n: NDArray[np.float64], units: NDArray[np.intp], at: float) -> NDArray[np.float64]:
    return np.minimum(n[units], at)
