"""What some users receive: by known items, by segment, and in groups who choose together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec._words import DAY, day_of, shown
from surerec.audit._profiles import Finding
from surerec.audit._verdicts import (
    FEWEST_USERS,
    HEADLINE,
    LEVEL,
    interval_over_users,
    of_row,
    percent,
    with_interval,
)
from surerec.calibration import LengthGroups
from surerec.conformal import TOLERANCE, users_needed
from surerec.errors import InputError
from surerec.evaluation import CHECKED_EPSILONS, N_SPLITS, halves
from surerec.interactions import UserGroups, read_user_groups
from surerec.recommenders import GROUP_PROMISES, find_aggregation, form_groups, observe_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases
    from surerec.evaluation import MeasuredSets
    from surerec.interactions import IdMap
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import GroupOutcomes, GroupPromise

OF_SEGMENTS: Final = ("miss-score", "miss-rank", "item-time")
"""The kinds that a table of segments begins with, for a subject without a kind of its own."""

_SIZES: Final = (2, 4, 8)  # of groups who choose together


class Grouping(NamedTuple):
    """Users, or their held-out items, in groups."""

    by: str
    group_of: NDArray[np.int64]
    """The group of each user, or of each held-out item."""
    names: tuple[str, ...]
    of_items: bool = False


def groupings(
    measured: MeasuredSets, statistics: PrecedenceStatistics, n_groups: int
) -> list[Grouping]:
    """Group users by known items and by when they began, and held-out items by popularity."""
    interactions = statistics.interactions
    support = np.where(measured.items >= 0, statistics.support[measured.items], 0)
    days = interactions.times[interactions.offsets[measured.users]] // DAY
    known, popular, began = (
        LengthGroups.equal(values, n_groups) for values in (measured.n_known, support, days)
    )
    edges = [day_of(day * DAY) for day in began.edges.tolist()]
    dated = [f"from {low}, before {high}" for low, high in pairwise(edges)]
    dates = (f"before {edges[0]}", *dated, f"from {edges[-1]}") if edges else ("any day",)
    return [
        Grouping("known items", known.of(measured.n_known), _counted(known, "items")),
        Grouping("popularity of the item", popular.of(support), _counted(popular, "takers"), True),
        Grouping("when they began", began.of(days), dates),
    ]


def _counted(groups: LengthGroups, unit: str) -> tuple[str, ...]:
    edges = groups.edges.tolist()
    if not edges:
        return (f"any number of {unit}",)
    between = [f"{low:,} to {high - 1:,} {unit}" for low, high in pairwise(edges)]
    return f"fewer than {edges[0]:,} {unit}", *between, f"{edges[-1]:,} {unit} or more"


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
) -> dict[str, float | None]:
    """Return what some users were delivered at one ε, with its interval, set size and floor."""
    interval = interval_over_users(measured.losses[at, chosen], level)
    found = *interval, *measured.size_and_floor(at, chosen)
    return dict(zip(("delivered", "low", "high", "size", "floor"), found, strict=True))


def group_rows(kind: str, measured: MeasuredSets, grouping: Grouping) -> Iterator[dict[str, Any]]:
    """Yield what is delivered in each group, with its interval: a row for each group and ε."""
    n_users = len(measured.users)
    for group, name in enumerate(grouping.names):
        chosen = grouping.group_of == group
        owners = measured.owners[chosen] if grouping.of_items else measured.owners
        counts = np.bincount(owners, minlength=n_users)
        for at, epsilon in enumerate(CHECKED_EPSILONS):
            row = {"kind": kind, "by": grouping.by, "place": group, "group": name}
            row |= {"epsilon": epsilon, "promised": 1 - epsilon}
            if grouping.of_items:
                sums = np.bincount(owners, measured.missed[at, chosen], n_users)
                interval = interval_over_users(sums[counts > 0] / counts[counts > 0])
                row |= dict(zip(("delivered", "low", "high"), interval, strict=True))
                row |= {"size": None, "floor": None}
                of = int((counts > 0).sum()), int(chosen.sum())
            else:
                row |= _received(measured, at, chosen)
                of = int(chosen.sum()), int(chosen[owners].sum())
            yield row | {"n_users": of[0], "n_items": of[1]}


def mondrian_rows(
    kind: str, common: MeasuredSets, own: MeasuredSets, grouping: Grouping
) -> Iterator[dict[str, Any]]:
    """Compare one threshold for everyone with one for each group; the last group is everyone."""
    members = [grouping.group_of == group for group in range(len(grouping.names))]
    members.append(np.ones(len(grouping.group_of), dtype=bool))
    for name, chosen in zip((*grouping.names, "everyone"), members, strict=True):
        for at, epsilon in enumerate(CHECKED_EPSILONS):
            row: dict[str, Any] = {"kind": kind, "group": name, "epsilon": epsilon}
            row |= {"promised": 1 - epsilon, "n_users": int(chosen.sum())}
            for which, measured in (("common", common), ("own", own)):
                found = _received(measured, at, chosen)
                row |= {f"{which}_{key}": value for key, value in found.items()}
            yield row


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
    """

    groups: UserGroups
    audited: NDArray[np.int64]
    fitted: UserGroups | None = None

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

    def rows(self, kind: str, measured: MeasuredSets) -> Iterator[dict[str, Any]]:
        """Yield nominal and observed for each segment and ε.

        Intervals hold together over segments and levels (Bonferroni).
        """
        pooled = self.pooled
        codes = pooled.codes[measured.users]
        named = [(name, codes == code) for code, name in enumerate(pooled.names)]
        if not self.per_segment:  # without a segment there is no guarantee per segment
            named.append((f"no {pooled.column}", codes < 0))
        named = [(name, chosen) for name, chosen in named if chosen.any()]
        level = 1 - 0.05 / (len(CHECKED_EPSILONS) * max(len(named), 1))
        small = len(self.small)
        for name, chosen in named:
            pooled_here = name == pooled.other(self.groups)
            for at, epsilon in enumerate(CHECKED_EPSILONS):
                found = _received(measured, at, chosen, level)
                size, high = found["size"], found["high"]
                median = None if size is None else float(np.median(measured.sizes[at, chosen]))
                yield {
                    "kind": kind,
                    "column": pooled.column,
                    "segment": name,
                    "epsilon": epsilon,
                    "nominal": 1 - epsilon,
                    "observed": found["delivered"],
                    "low": found["low"],
                    "high": high,
                    "mean_size": size,
                    "median_size": median,
                    "floor": found["floor"],
                    "n_users": int(chosen.sum()),
                    "n_pooled": small if pooled_here else 0,
                    "guaranteed": self.per_segment and not pooled_here,
                    "below": size is not None and high is not None and high < 1 - epsilon,
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
            f"{self._in_words(name)} has {with_interval(row)} of "
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
        if segment in (f"no {column}", self.pooled.other(self.groups)):
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
        f"To guarantee each {column} and pool small ones, type surerec fit … --groups {column} "
        f"--groups-file users.csv --pool-below {FEWEST_USERS}, or in Python groups={column!r} and "
        f"fit(…, user_groups=pool_segments(users, {column!r}, min_users={FEWEST_USERS}))."
    )


def together_rows(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield what random groups who choose together are delivered, by size, guarantee and ε.

    Beside what is guaranteed to the group, what its members get of their own: on average, and the
    one who gets least.

    Parameters
    ----------
    scorer : Scorer
        What scores, and leaves members out together.
    statistics : PrecedenceStatistics
        What is known.
    cases : Cases
        Known and held-out parts of the audited users' histories.
    seed : int
        Of the groups, and of the halves.
    """
    for size in _SIZES:
        groups = form_groups(cases, size, "random", scorer.fold_of(cases.users), seed)
        if len(groups) < FEWEST_USERS:
            continue
        found = observe_groups(scorer, statistics, cases, groups, find_aggregation("average"))
        for promise in GROUP_PROMISES.values():
            if size <= promise.largest:
                yield from _together(found, promise, size, seed)


def _together(
    found: GroupOutcomes, promise: GroupPromise, size: int, seed: int
) -> Iterator[dict[str, Any]]:
    curve, units = promise.curve_of(found)
    n = len(units)
    if n < FEWEST_USERS:
        return
    kept = np.flatnonzero(np.isin(found.owners, units))
    group_of = np.searchsorted(units, found.owners[kept])
    # Members who consumed something, and whose each item is.
    keys = np.stack((group_of, found.places[kept]))
    (owners, _), member = np.unique(keys, axis=1, return_inverse=True)
    member = member.reshape(-1)
    for epsilon in CHECKED_EPSILONS:
        losses, cuts, floor = np.zeros(n), np.zeros(n), 0.0
        for tests in halves(n, seed=seed):
            calibrates = curve.of_owners(~tests)
            cut, floor = calibrates.cut(epsilon), max(floor, calibrates.lowest_level())
            left = np.where(curve.entries > cut, curve.losses, 0.0)
            losses[tests] += np.bincount(curve.owners, left, n)[tests]
            cuts[tests] += np.minimum(cut, found.n_candidates[units[tests]])
        losses, cuts = losses / N_SPLITS, cuts / N_SPLITS
        # By member with the mean cut of their group, as what they get is not guaranteed.
        missed = found.ranks[kept] > cuts[group_of]
        shares = 1 - np.bincount(member, missed) / np.bincount(member)
        least = np.full(n, np.inf)
        np.minimum.at(least, owners, shares)
        delivered, low, high = interval_over_users(losses)
        supported = users_needed(epsilon) <= n // 2
        yield {
            "size": size,
            "promise": promise.name,
            "epsilon": epsilon,
            "promised": 1 - epsilon,
            "delivered": delivered,
            "low": low,
            "high": high,
            "verdict": of_row(1 - epsilon, low, high) if supported else "cannot tell",
            "items": float(cuts.mean()) if epsilon + TOLERANCE >= floor else None,
            "floor": floor,
            "n_groups": n,
            "n_without": len(found) - n,
            "members": float(shares.mean()),
            "least_served": float(least.mean()),
        }
