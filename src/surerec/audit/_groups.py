"""What some users receive: by known items, by segment, and in groups who choose together."""

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

_OF_SEGMENTS: Final = ("miss-score", "miss-rank", "item-time")
"""The kinds that findings are about, for a subject without a kind of its own."""

_SIZES: Final = (2, 4, 8)  # of groups who choose together


class Grouping(NamedTuple):
    """Users in groups."""

    by: str
    group_of: NDArray[np.int64]
    names: tuple[str, ...]
    level: float = LEVEL
    """Of each interval."""


def by_known_items(n_known: NDArray[np.int64], n_groups: int) -> Grouping:
    """Group users by the number of known items.

    Examples
    --------
    >>> by_known_items(np.array([5, 6, 20, 30]), 2).names
    ('fewer than 20 items', '20 items or more')
    """
    groups = LengthSegments.equal(n_known, n_groups)
    edges = groups.edges.tolist()
    names: tuple[str, ...] = ("any number of items",)
    if edges:
        between = [f"{low:,} to {high - 1:,} items" for low, high in pairwise(edges)]
        names = f"fewer than {edges[0]:,} items", *between, f"{edges[-1]:,} items or more"
    return Grouping("known items", groups.of(n_known), names)


def finding_groups(
    findings: Iterable[Finding], users: NDArray[np.int64], audited: NDArray[np.int64]
) -> Iterator[Grouping]:
    """Yield users in two groups for each finding of 20 or more audited users: without and with it.

    Parameters
    ----------
    findings : iterable of Finding
        What was found.
    users : array of int
        The users to group, by code.
    audited : array of int
        All audited users, by code.
    """
    for each in findings:
        if each.users is None:
            continue
        n_with = int(np.isin(audited, each.users).sum())
        if min(n_with, len(audited) - n_with) >= FEWEST_USERS:
            groups = np.isin(users, each.users).astype(np.int64)
            yield Grouping(f"{each.about}s", groups, (f"no {each.about}", each.about))


def _received(
    measured: MeasuredSets, at: int, chosen: NDArray[np.bool_], level: float = LEVEL
) -> dict[str, Any]:
    """Return what some users were delivered at one ε, with its interval, set size and floor."""
    interval = interval_over_users(measured.losses[at, chosen], level)
    found = *interval, *measured.size_and_floor(at, chosen)
    return dict(zip(("observed", "low", "high", "size", "floor"), found, strict=True))


def group_rows(kind: str, measured: MeasuredSets, grouping: Grouping) -> Iterator[dict[str, Any]]:
    """Yield what is delivered in each group, with its interval: a row for each group and ε."""
    for group, name in enumerate(grouping.names):
        chosen = grouping.group_of == group
        for at, epsilon in enumerate(CHECKED_EPSILONS if chosen.any() else ()):
            yield {
                "kind": kind,
                "by": grouping.by,
                "group": name,
                "epsilon": epsilon,
                "nominal": 1 - epsilon,
                **_received(measured, at, chosen, grouping.level),
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
        The name of a column, or the segments themselves.
    user_segments : mapping, pandas Series, frame, path or None
        Where that column is.
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
            f"segments={segments!r} names a column, and the segments of users are missing: pass "
            "user_segments= with a mapping, a Series, a frame or a file (--user-segments on the "
            "command line)."
        )
    if user_segments is not None or not isinstance(segments, Segmentation | None):
        raise InputError(
            "segments must be the name of a column, and user_segments what has it: pass "
            'segments="country", user_segments=….'
        )
    return fitted if segments is None else segments


@dataclass(frozen=True)
class Segments:
    """The segments of an audit; those with too few audited users are pooled.

    Attributes
    ----------
    groups : Segmentation
        The segment of each user of the data.
    audited : array of int
        The audited users, by code.
    fitted : Segmentation or None
        The segments in which the recommender is calibrated; None for one threshold for all.
    """

    groups: Segmentation
    audited: NDArray[np.int64]
    fitted: Segmentation | None = None

    @property
    def per_segment(self) -> bool:
        """Whether the recommender guarantees something in each of these segments."""
        return self.fitted is not None and self.fitted.column == self.groups.column

    @property
    def small(self) -> dict[str, int]:
        """The segments with too few audited users, and how many they have."""
        counts = self.groups.counts(self.audited)
        return {name: n for name, n in counts.items() if 0 < n < FEWEST_USERS}

    @property
    def pooled(self) -> Segmentation:
        """The segments as the table has them."""
        return self.groups.pooled(FEWEST_USERS, self.audited)

    def thresholds(self, users: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return in which group each of some users is calibrated; None for one threshold."""
        if self.fitted is None:
            return None
        codes = self.fitted.pooled(FEWEST_USERS, self.audited).codes[users]
        return codes.astype(np.int64)

    def grouping(self, users: NDArray[np.int64]) -> Grouping:
        """Group users by segment; intervals hold together over segments and levels (Bonferroni)."""
        pooled = self.pooled
        codes, names = pooled.codes[users].astype(np.int64), pooled.names
        if not self.per_segment and (codes < 0).any():  # there is no guarantee per segment
            codes, names = np.where(codes < 0, len(names), codes), (*names, f"no {pooled.column}")
        n_cells = len(CHECKED_EPSILONS) * max(len(np.unique(codes[codes >= 0])), 1)
        return Grouping(pooled.column, codes, names, 1 - 0.05 / n_cells)

    def findings(self, rows: Sequence[dict[str, Any]], own_kind: str) -> list[Finding]:
        """Return the finding that names the segments whose intervals lie below nominal.

        Under the recommender's own kind of guarantee, or the first of several that was measured.
        """
        rows = [row for row in rows if row["by"] == self.groups.column and row["size"] is not None]
        kinds = [row["kind"] for row in rows]
        first = next((kind for kind in (own_kind, *_OF_SEGMENTS) if kind in kinds), "")
        below = [row for row in rows if row["kind"] == first and falls_short(row)]
        if not below:
            return []
        # A segment is named once: at the headline's level, or where it falls short most.
        below.sort(key=lambda row: (row["epsilon"] == HEADLINE, row["nominal"] - row["observed"]))
        named = {row["group"]: row for row in below}
        column, names = self.groups.column, ", ".join(map(self._in_words, named))
        told = "; ".join(
            f"{self._in_words(name)} has {with_interval(row)} of "
            f"{percent(row['nominal'])} ({row['n_users']:,} users)"
            for name, row in named.items()
        )
        said = f"Below nominal, with intervals that hold together over segments: {told}."
        if self.per_segment:
            return [Finding(f"{said} The guarantee per {column} does not hold there.", names)]
        over_all = f"The guarantee is over all users, not per {column}."
        return [Finding(f"{said} {over_all} {_how_to_fit(column)}")]

    def _in_words(self, segment: str) -> str:
        column = self.groups.column
        if segment in (f"no {column}", self.pooled.other(self.groups)):
            return segment
        return f"{column} {segment!r}"

    def notes(self) -> list[str]:
        """Return what is guaranteed to segments, which are pooled, why, and what to type."""
        column, small = self.groups.column, self.small
        over = "in each" if self.per_segment else "over all users, not in each"
        said = [f"The guarantee is {over} {column}."]
        missing = int((self.groups.codes[self.audited] < 0).sum())
        if missing and self.per_segment:
            said.append(
                f"{missing:,} audited {'user has' if missing == 1 else 'users have'} no {column}: "
                f"the guarantee per {column} does not cover them."
            )
        if not small:
            return said
        few = ", ".join(f"{name} ({n})" for name, n in small.items())
        why = (
            f"Segments with fewer than {FEWEST_USERS} audited users, too few for "
            f"{percent(1 - HEADLINE)}: {few}. They are pooled as "
            f"'{self.pooled.other(self.groups)}'; audit more users with --users (n_users=)."
        )
        if self.per_segment:
            why += (
                f" The recommender does not pool them: with fewer than {users_needed(HEADLINE)} "
                f"calibration users a segment gets every item. {_how_to_fit(column)}"
            )
        return [*said, why]


def _how_to_fit(column: str) -> str:
    return (
        f"To guarantee each {column} and pool small ones, type surerec fit … --segments {column} "
        f"--user-segments users.csv --pool-below {FEWEST_USERS}, or in Python "
        f"segments={column!r} and fit(…, "
        f"user_segments=pool_segments(users, {column!r}, min_users={FEWEST_USERS}))."
    )


def together_rows(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, random_state: int
) -> Iterator[dict[str, Any]]:
    """Yield what random groups who choose together are delivered, by size, guarantee and ε.

    Parameters
    ----------
    scorer : Scorer
        What scores, and leaves members out together.
    statistics : PrecedenceStatistics
        What is known.
    cases : Cases
        Known and held-out parts of the audited users' histories.
    random_state : int
        Of the groups, and of the halves.
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
                received = _received(measured, at, np.ones(len(units), dtype=bool))
                word = of_row(1 - epsilon, received["low"], received["high"])
                yield {
                    "members": size,
                    "guarantee": guarantee.name,
                    "epsilon": epsilon,
                    "nominal": 1 - epsilon,
                    **received,
                    "verdict": word if users_needed(epsilon) <= len(units) // 2 else "cannot tell",
                    "n_groups": len(units),
                }


def _at_most(n: NDArray[np.float64], units: NDArray[np.intp], at: float) -> NDArray[np.float64]:
    return np.minimum(n[units], at)
