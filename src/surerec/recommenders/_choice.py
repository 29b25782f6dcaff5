"""``measure="auto"``: the measure with the smallest sets, chosen by users who do not calibrate."""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._progress import COMPILING, LOGGER, progress, stage
from surerec._state import ArraySchema, State, check_arrays
from surerec._words import in_seconds
from surerec.calibration import COMPARED, codes_in, find_guarantee, level_of, observe
from surerec.errors import InputError, TooFewUsersError
from surerec.precedence import count_like
from surerec.recommenders._estimator import fit_scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from surerec.calibration import Cases, ThresholdUnit
    from surerec.interactions import IdMap
    from surerec.measures import Measure, Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._user_level import UserLevel

AUTO: Final = "auto"
"""The name of the choice, in place of a measure."""
CANDIDATES: Final = {"CM12": "", "als": "implicit", "learned": "lightgbm"}
"""The measures that are tried, the fastest first, and the library that trains each."""
_FEWEST: Final = 8  # users with held-out items, of whom a quarter choose
_MOST_CHOOSING: Final = 500
_FITTED: Final = 10_000, 2_000_000
"""Users and interactions of a fit that is only tried, the larger of both; smaller fits are kept."""
_MOST_SHARES: Final = 2**25  # of the choosing users' candidates, which are held in memory
_EQUAL: Final = 1.01  # times the smallest sets, up to which a faster measure is kept
_SCHEMAS: Final = {"users": ArraySchema("int64", (None,), low=0, below="n_users")}


class Tried(NamedTuple):
    """What a measure gave and what it cost; see :attr:`PopulationConformal.choice_`."""

    measure: str
    mean_size: float | None = None
    sizes: dict[float, float] | None = None
    seconds: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.sizes is None:
            return f"{self.measure}: {self.note}"
        sizes = ", ".join(f"{size:,.0f} at {level:.0%}" for level, size in self.sizes.items())
        return f"{self.measure}: mean set size {sizes}; tried in {in_seconds(self.seconds or 0.0)}"


class MeasureChoice(NamedTuple):
    """The measures that were tried, the kept one, and the ids of the users who chose."""

    tried: tuple[Tried, ...]
    kept: str
    users: pl.Series

    def state(self, users: IdMap) -> State:
        """Return what is saved: the codes of the choosing users, who must never calibrate."""
        codes = users.codes(self.users)
        return State({"users": codes[codes >= 0]})

    @classmethod
    def from_state(cls, state: State, kept: str, users: IdMap) -> MeasureChoice:
        """Restore a choice; raise KeyError or ValueError if the state is invalid."""
        check_arrays("the choice", _SCHEMAS, state.arrays, n_users=len(users))
        return cls((), kept, users.ids.gather(state.arrays["users"]))


def choose_measure(
    past: PrecedenceStatistics,
    cases: Cases,
    settings: UserLevel,
    named: Callable[[str], Measure],
    max_seconds: float | None,
) -> tuple[MeasureChoice, Cases, Scorer | None]:
    """Choose the measure with the smallest sets for a random part of the users.

    Parameters
    ----------
    past : PrecedenceStatistics
        The statistics that the measures are fitted on.
    cases : Cases
        All users with held-out interactions.
    settings : UserLevel
        The guarantee, the threshold and the random state.
    named : callable
        Returns the measure of a name.
    max_seconds : float or None
        No further measure is tried after this time.

    Returns
    -------
    MeasureChoice
        The choice.
    Cases
        The users who did not choose.
    Scorer or None
        The scorer of the kept measure, if it was fitted on all users.
    """
    if len(cases) < _FEWEST:
        raise InputError(
            f'measure="auto" needs at least {_FEWEST} users with held-out items; the data have '
            f'{len(cases)}. Name a measure, such as "CM12".'
        )
    begin, random_state = _clock(), settings.random_state
    most = min(_MOST_CHOOSING, max(_FEWEST, _MOST_SHARES // past.n_items))
    choosing = cases.sample(min(most, len(cases) // 4), random_state)
    some = _some_users(past, choosing, random_state)
    is_sample = some is not past
    tried: list[Tried] = []
    scorers: dict[str, Scorer] = {}
    with stage("choosing the measure"), progress("Trying measures", None) as trying:
        for name, library in CANDIDATES.items():
            started = _clock()
            if library and find_spec(library) is None:
                row = Tried(name, note=f"not tried, as {library} is not installed")
            elif scorers and max_seconds is not None and started - begin >= max_seconds:
                row = Tried(name, note=f"not tried, as max_seconds={max_seconds:g} had passed")
            else:
                trying.describe(f"Trying {name} ({len(tried) + 1} of {len(CANDIDATES)})")
                try:
                    scorers[name] = fit_scorer(named(name), some)
                    sizes = _sizes(scorers[name], some, choosing, settings, is_sample=is_sample)
                    mean_size = float(np.exp(np.log([*sizes.values()]).mean()))
                    row = Tried(name, mean_size, sizes, _clock() - started)
                except TooFewUsersError as error:
                    row = Tried(name, note=f"not tried. {error}")
            LOGGER.info(str(row))
            tried.append(row)
    by_size = {row.measure: row.mean_size for row in tried if row.mean_size is not None}
    kept = next(name for name in by_size if by_size[name] <= _EQUAL * min(by_size.values()))
    users = cases.interactions.users.ids.gather(choosing.users)
    others = cases[~np.isin(cases.users, choosing.users)]
    return MeasureChoice(tuple(tried), kept, users), others, None if is_sample else scorers[kept]


def _clock() -> float:
    """Return the time in seconds, without that of compiling kernels on first use."""
    return perf_counter() - COMPILING.seconds


def _some_users(
    past: PrecedenceStatistics, choosing: Cases, random_state: int
) -> PrecedenceStatistics:
    """Return statistics of the choosing users and a random sample of others."""
    n_users, n_rows = _FITTED
    n_users = max(n_users, n_rows * past.n_users // past.interactions.n_rows)
    if past.n_users <= n_users:
        return past
    users = codes_in(past, choosing.interactions)[0][choosing.users]
    others = np.setdiff1d(np.flatnonzero(np.diff(past.interactions.offsets)), users)
    left = np.random.default_rng(random_state).permutation(others)[n_users - len(users) :]
    return count_like(past, past.interactions.without_users(left))


def _sizes(
    scorer: Scorer,
    some: PrecedenceStatistics,
    choosing: Cases,
    settings: UserLevel,
    *,
    is_sample: bool,
) -> dict[float, float]:
    """Return the choosing users' mean set size by confidence, at equal risk for every measure.

    In a sample of users, many items have no other consumers. They are neither candidates nor
    expected of a set.
    """
    kind, levels = find_guarantee(settings.guarantee), [level_of(each) for each in COMPARED]
    if kind.tested:  # a better ranking needs fewer items for the same recall, in its upper part
        kind, levels = find_guarantee("recall"), list(COMPARED)
    unit: ThresholdUnit = "score" if settings.threshold == "score" else "rank"
    allowed = np.flatnonzero(some.support > 1) if is_sample else None
    doing, keep = "Scoring the users who choose", unit == "score"
    found = observe(scorer, some, choosing, keep_candidates=keep, allowed=allowed, doing=doing)
    curve = kind.curve(found.entries(unit), found.owners, len(found))
    whole = float(found.n_candidates.mean())
    sizes = found.mean_sizes(curve, unit, [level_of(each) for each in levels])
    return {
        level: max(whole if size is None else size, 1.0)
        for level, size in zip(levels, sizes, strict=True)
    }
