"""What each segment of the users received: nominal beside observed, with set sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._shown import shown
from surerec.audit._audited import FEWEST_USERS
from surerec.audit._measured import interval_over_users
from surerec.audit._profiles import Finding
from surerec.audit._verdicts import HEADLINE, percent, with_interval
from surerec.conformal import users_needed
from surerec.errors import InputError
from surerec.evaluation import CHECKED_EPSILONS
from surerec.interactions import UserGroups, read_user_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.audit._measured import Measured
    from surerec.interactions import IdMap

_NAMED: Final = 8
OF_SEGMENTS: Final = ("miss-score", "miss-rank", "item-time")
"""The kinds that a table of segments begins with, for a subject without a kind of its own."""


def read_segments(
    segments: Any, user_segments: Any, users: IdMap, fitted: UserGroups | None
) -> UserGroups | None:
    """Return the segment of each user, or None if there are no segments.

    Parameters
    ----------
    segments : str, mapping, pandas Series, frame, UserGroups or None
        The name of a column; or the segments themselves, by user.
    user_segments : mapping, pandas Series, frame, path or None
        Where that column is.
    users : IdMap
        The users of the data.
    fitted : UserGroups or None
        The segments that the recommender was fitted with.
    """
    if segments is None:
        if user_segments is not None:
            raise InputError('user_segments needs the name of its column, as segments="country".')
        return fitted
    if isinstance(segments, str):
        if user_segments is not None:
            return read_user_groups(user_segments, segments, users)
        if fitted is not None and fitted.column == segments:
            return fitted
        raise InputError(
            f"segments={segments!r} names a column, and the segments of users are missing: pass "
            "user_segments= with a mapping, a Series, a frame or a file (--segments-file on the "
            "command line)."
        )
    if user_segments is not None:
        raise InputError(
            'segments and user_segments both have data: name the column, as segments="country".'
        )
    if isinstance(segments, UserGroups):
        return segments
    return read_user_groups(segments, _column_of(segments), users)


def _column_of(source: Any) -> str:
    """Return the name of segments that come without one."""
    columns = getattr(source, "columns", None)
    if columns is None:
        name = getattr(source, "name", None)
        return name if isinstance(name, str) and name else "segment"
    names = list(columns)
    if len(names) != 2:  # noqa: PLR2004  # users, and their segments
        raise InputError(
            f"segments is a frame with the columns {shown(names)}: name the one to use, as "
            f'segments="country", user_segments=frame.'
        )
    return str(names[1])


@dataclass(frozen=True)
class Segments:
    """The segments of an audit; those with too few audited users are pooled.

    Attributes
    ----------
    groups : UserGroups
        The segment of each user of the data.
    audited : array of int
        The audited users, by code.
    fitted : UserGroups or None
        The segments in which the recommender is calibrated; None for one threshold for all.
    sampled : bool
        Whether more users of the data could be audited.
    """

    groups: UserGroups
    audited: NDArray[np.int64]
    fitted: UserGroups | None = None
    sampled: bool = False

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
    def pooled(self) -> UserGroups:
        """The segments as the table has them."""
        return self.groups.pooled(FEWEST_USERS, self.audited)

    def thresholds(self, users: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return in which group each of some users is calibrated; None for one threshold."""
        if self.fitted is None:
            return None
        codes = self.fitted.pooled(FEWEST_USERS, self.audited).codes[users]
        return codes.astype(np.int64)

    def rows(self, kind: str, measured: Measured) -> Iterator[dict[str, Any]]:
        """Yield nominal and observed for each segment and ε.

        Intervals hold together over segments and levels (Bonferroni).
        """
        pooled = self.pooled
        codes = pooled.codes[measured.users]
        named = [(name, codes == code) for code, name in enumerate(pooled.names)]
        if not self.per_segment:  # without a segment there is no guarantee per segment
            named.append((_without(pooled.column), codes < 0))
        named = [(name, chosen) for name, chosen in named if chosen.any()]
        level = 1 - 0.05 / (len(CHECKED_EPSILONS) * max(len(named), 1))
        small = len(self.small)
        for name, chosen in named:
            for at, epsilon in enumerate(CHECKED_EPSILONS):
                observed, low, high = interval_over_users(measured.losses[at, chosen], level)
                size, floor = measured.size_and_floor(at, chosen)
                median = None if size is None else float(np.median(measured.sizes[at, chosen]))
                yield {
                    "kind": kind,
                    "column": pooled.column,
                    "segment": name,
                    "epsilon": epsilon,
                    "nominal": 1 - epsilon,
                    "observed": observed,
                    "low": low,
                    "high": high,
                    "mean_size": size,
                    "median_size": median,
                    "floor": floor,
                    "n_users": int(chosen.sum()),
                    "n_pooled": small if name == pooled.other(self.groups) else 0,
                    "guaranteed": self.per_segment and name != pooled.other(self.groups),
                    "below": size is not None and high < 1 - epsilon,
                }

    def findings(self, rows: Sequence[dict[str, Any]]) -> list[Finding]:
        """Return the finding that names the segments whose intervals lie below nominal."""
        below = [row for row in rows if row["below"]]
        if not below:
            return []
        # A segment is named once: at the headline's level, or where it falls short most.
        below.sort(key=lambda row: (row["epsilon"] != HEADLINE, row["observed"] - row["nominal"]))
        first: dict[str, dict[str, Any]] = {}
        for row in below:
            first.setdefault(row["segment"], row)
        column, names = self.groups.column, ", ".join(map(self._in_words, first))
        told = "; ".join(
            f"{self._in_words(name)} has {with_interval(delivered(row))} of "
            f"{percent(row['nominal'])} ({row['n_users']:,} users)"
            for name, row in first.items()
        )
        n = len({row["segment"] for row in rows})
        said = f"Below nominal, with intervals that hold together over {n} segments: {told}."
        if self.per_segment:
            return [Finding(f"{said} The guarantee per {column} does not hold there.", names)]
        over_all = f"The guarantee is over all users, not per {column}."
        return [Finding(f"{said} {over_all} {_how_to_fit(column)}")]

    def _in_words(self, segment: str) -> str:
        column = self.groups.column
        if segment in (_without(column), self.pooled.other(self.groups)):
            return segment
        return f"{column} {segment!r}"

    def notes(self) -> list[str]:
        """Return which segments are pooled, why, and what to type."""
        column, small, said = self.groups.column, self.small, []
        missing = int((self.groups.codes[self.audited] < 0).sum())
        if missing and self.per_segment:
            said.append(
                f"{missing:,} audited {'user has' if missing == 1 else 'users have'} no {column}: "
                f"the guarantee per {column} does not cover them."
            )
        if not small:
            return said
        most = sorted(small.items(), key=lambda item: -item[1])
        few = ", ".join(f"{name} ({n})" for name, n in most[:_NAMED])
        if len(most) > _NAMED:
            few += f" and {len(most) - _NAMED:,} others"
        needed = users_needed(HEADLINE)
        halves = f" (half of them calibrate, which takes {needed})" if self.per_segment else ""
        why = (
            f"Segments with fewer than {FEWEST_USERS} audited users, too few for "
            f"{percent(1 - HEADLINE)}{halves}: {few}. They are pooled as "
            f"'{self.pooled.other(self.groups)}'."
        )
        if self.sampled:
            why += " Audit more users with --users (n_users=)."
        if self.per_segment:
            why += (
                f" The recommender does not pool them: with fewer than {needed} calibration users "
                f"a segment gets every item. {_how_to_fit(column)}"
            )
        return [*said, why]


def delivered(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the names that the older tables have."""
    return row | {"promised": row["nominal"], "delivered": row["observed"]}


def _without(column: str) -> str:
    """Return the name of the row of users without a segment."""
    return f"no {column}"


def _how_to_fit(column: str) -> str:
    return (
        f"To guarantee each {column} and pool small ones, type surerec fit … --groups {column} "
        f"--groups-file users.csv --pool-below {FEWEST_USERS}, or in Python groups={column!r} and "
        f"fit(…, user_groups=pool_segments(users, {column!r}, min_users={FEWEST_USERS}))."
    )
