"""``measure="auto"``: the measure with the smallest sets, chosen by users who do not calibrate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
import polars as pl

from surerec._progress import COMPILING, LOGGER, stage
from surerec._state import ArraySchema, State, check_arrays
from surerec._words import in_seconds
from surerec.calibration import COMPARED, codes_in, find_guarantee, level_of, observe
from surerec.errors import InputError
from surerec.precedence import count_like
from surerec.recommenders._estimator import fit_scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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
_FITTED: Final = 2000, 200_000
"""Users and interactions of a fit that is only tried, the larger of both; rare items need rows."""
_MOST_SHARES: Final = 2**25  # of the choosing users' candidates, which are held in memory
_EQUAL: Final = 1.01  # times the smallest sets, up to which a faster measure is kept
_COLUMNS: Final[dict[str, Any]] = {
    "measure": pl.String,
    "mean_size": pl.Float64,
    "sizes": pl.List(pl.Float64),
    "seconds": pl.Float64,
    "kept": pl.Boolean,
    "note": pl.String,
}
_SCHEMAS: Final = {"users": ArraySchema("int64", (None,), low=0, below="n_users")}


@dataclass(frozen=True, eq=False)
class MeasureChoice:
    """The measures that were tried, and the users who chose.

    Attributes
    ----------
    table : polars.DataFrame
        One row per measure; see :attr:`PopulationConformal.choice_`.
    users : polars.Series
        The ids of the choosing users.
    """

    table: pl.DataFrame
    users: pl.Series

    @property
    def kept(self) -> str:
        """The name of the kept measure."""
        return str(self.table.row(by_predicate=pl.col("kept"), named=True)["measure"])

    def state(self, users: IdMap) -> State:
        """Return the saved state, with the codes of the choosing users that are known."""
        codes = users.codes(self.users)
        return State({"users": codes[codes >= 0]}, {"table": json.dumps(self.table.rows())})

    @classmethod
    def from_state(cls, state: State, users: IdMap) -> Self:
        """Restore a choice; raise KeyError or ValueError if the state is invalid."""
        check_arrays("the choice", _SCHEMAS, state.arrays, n_users=len(users))
        try:
            table = pl.DataFrame(json.loads(state.texts["table"]), schema=_COLUMNS, orient="row")
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise ValueError(f"the table of the choice is damaged: {error}") from error
        return cls(table, users.ids.gather(state.arrays["users"]))


def choice_lines(table: pl.DataFrame) -> list[str]:
    """Return a line of text per measure of `choice_`: what it gave and what it cost."""
    width = max(map(len, CANDIDATES))
    return [
        f"{row['measure']:<{width}}  {row['note'] or _in_words(row)}"
        for row in table.iter_rows(named=True)
    ]


def _in_words(row: dict[str, Any]) -> str:
    sizes = ", ".join(f"{size:,.0f}" for size in row["sizes"])
    kept = ", kept" if row["kept"] else ""
    return f"mean set size {row['mean_size']:,.0f} ({sizes}), {in_seconds(row['seconds'])}{kept}"


class Chosen(NamedTuple):
    """A choice, and what remains for the calibration."""

    choice: MeasureChoice
    cases: Cases
    """The cases of users who did not choose."""
    scorer: Scorer | None
    """The kept measure's scorer, if it was fitted on all users."""


def choose_measure(
    past: PrecedenceStatistics,
    cases: Cases,
    settings: UserLevel,
    named: Callable[[str], Measure],
    max_seconds: float | None,
) -> Chosen:
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
    """
    if len(cases) < _FEWEST:
        raise InputError(
            f'measure="auto" needs at least {_FEWEST} users with held-out items; the data have '
            f'{len(cases)}. Name a measure, such as "CM12".'
        )
    begin = _clock()
    most = min(_MOST_CHOOSING, max(_FEWEST, _MOST_SHARES // past.n_items))
    choosing = cases.sample(min(most, len(cases) // 4), settings.random_state)
    some = _some_users(past, choosing, settings.random_state)
    rows: list[dict[str, Any]] = []
    scorers: dict[str, Scorer] = {}
    with stage("choosing the measure"):
        for name, library in CANDIDATES.items():
            started = _clock()
            row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"measure": name, "kept": False}
            rows.append(row)
            if library and find_spec(library) is None:
                row["note"] = f"not tried, as {library} is not installed"
                continue
            if scorers and max_seconds is not None and started - begin >= max_seconds:
                row["note"] = f"not tried, as max_seconds={max_seconds:g} had passed"
                continue
            try:
                scorers[name] = fit_scorer(named(name), some)
            except InputError as error:  # such as too few users to train on
                if not scorers:
                    raise
                row["note"] = f"not tried. {error}"
                continue
            sizes = _sizes(scorers[name], some, choosing, settings, None if some is past else 2)
            row["sizes"], row["mean_size"] = sizes.tolist(), float(np.exp(np.log(sizes).mean()))
            row["seconds"] = _clock() - started
    tried = [row for row in rows if row["sizes"]]
    smallest = min(row["mean_size"] for row in tried)
    next(row for row in tried if row["mean_size"] <= _EQUAL * smallest)["kept"] = True
    users = cases.interactions.users.ids.gather(choosing.users)
    choice = MeasureChoice(pl.DataFrame(rows, schema=_COLUMNS), users)
    for line in choice_lines(choice.table):
        LOGGER.info(line)
    others = cases[~np.isin(cases.users, choosing.users)]
    return Chosen(choice, others, scorers[choice.kept] if some is past else None)


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
    min_support: int | None,
) -> NDArray[np.float64]:
    """Return the mean set sizes of the choosing users, at equal risk for every measure.

    In a sample of users, many items have no other consumers. They are neither candidates nor
    expected of a set, by `min_support`.
    """
    kind, levels = find_guarantee(settings.guarantee), list(COMPARED)
    if kind.tested:  # a better ranking needs fewer items for the same recall, in its upper part
        kind, levels = find_guarantee("recall"), [level_of(each) for each in COMPARED]
    unit: ThresholdUnit = "score" if settings.threshold == "score" else "rank"
    allowed = None if min_support is None else np.flatnonzero(some.support >= min_support)
    found = observe(scorer, some, choosing, keep_candidates=unit == "score", allowed=allowed)
    curve = kind.curve(found.entries(unit), found.owners, len(found))
    thresholds = (curve.threshold(level) for level in levels)
    users = np.arange(len(found))
    sizes = [
        (found.n_candidates if at == np.inf else found.sizes(users, unit, at)).mean()
        for at in thresholds
    ]
    return np.maximum(sizes, 1.0)
