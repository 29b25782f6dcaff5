"""The tables of promises over users, each made of what was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import polars as pl

from surerec.errors import InputError
from surerec.evaluation import Calendar
from surerec.experiments.guarantees import (
    Observed,
    calendar_table,
    chosen_cases,
    hits_table,
    item_reliabilities,
    lists_table,
    misses_table,
    new_users_table,
    observe_all,
    per_user_sizes,
    precision_calendar_table,
    precision_table,
    sizes_table,
    slate_reliability,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from surerec.calibration import Horizon
    from surerec.interactions import Interactions

_PER_USER: Final = "CM12"
_MOST_FITS: Final = 3
"""Splits of the new-user test, each of which fits the measure again."""
_MOST_KEPT: Final = 3 << 30
"""Bytes of what scorers made of futures, for the tables that ask for it again."""


class View(StrEnum):
    """What scores users: counts up to the moment of their question, or of all of the data."""

    as_of = "point-in-time"
    hindsight = "hindsight"


_HINDSIGHT: Final = (
    "Hindsight: counted from all of the data, so scores also used what other users did later."
)


class Tables(StrEnum):
    """The tables that can be asked for."""

    new_users = "new-users"
    misses = "misses"
    sizes = "sizes"
    hits = "hits"
    calendar = "calendar"
    slates = "slates"
    probabilities = "probabilities"
    precision = "precision"
    precision_calendar = "precision-calendar"
    lists = "lists"


HEADINGS: Final = {
    Tables.new_users: "Share missed and items in the set at each ε, by users who were not in the "
    "fit: this decides",
    Tables.misses: "Share missed and items in the set at each ε, on users who did not calibrate",
    Tables.sizes: "Items in the set at equal mean miss rates",
    Tables.hits: "Hits among the next 5 items, promised with 1 − ε, and the length of the list",
    Tables.calendar: "Share missed at each ε as the calendar moves on; unknown: new to the model, "
    "mean over users",
    Tables.slates: "Probability that one of the 10 best is among the next 5: said and happened",
    Tables.probabilities: "Probability of each item: said and happened, on other users",
    Tables.precision: "Precision promised with confidence 0.9, and delivered to other users",
    Tables.precision_calendar: "Precision promised with 0.9, and delivered in the next window",
    Tables.lists: "Share missed at each ε of the listed items that people took, on other users",
}

_BY_PROFILE: Final = (
    Tables.misses,
    Tables.sizes,
    Tables.hits,
    Tables.slates,
    Tables.precision,
)
"""Those that are about the last part of profiles, and have every view."""


def views_of(as_of: bool | None) -> tuple[View, ...]:  # noqa: FBT001  # a flag of the command
    """Return the views to show, point-in-time first: both unless one was asked for."""
    if as_of is None:
        return tuple(View)
    return (View.as_of,) if as_of else (View.hindsight,)


def tables_wanted(given: list[Tables] | None, *, as_of: bool | None) -> list[Tables]:
    """Return the tables to make: those named, else all that there are."""
    every = list(Tables if as_of is None else _BY_PROFILE)
    wanted = given or every
    if others := [kind for kind in wanted if kind not in every]:
        raise InputError(
            f"--as-of and --hindsight are for tables by profile ({', '.join(_BY_PROFILE)}), not "
            f"for {others[0]}: leave one of the two out."
        )
    return wanted


@dataclass
class Asked:
    """What tables are made of, on one data set."""

    interactions: Interactions
    scorers: list[str]
    users: int
    splits: int
    window: float
    windows: int | None
    views: tuple[View, ...] = tuple(View)
    _view: View = View.hindsight
    _said: list[str] = field(default_factory=list)
    _kept: dict[tuple[str, Horizon, View], Observed] = field(default_factory=dict)

    def table(self, kind: Tables) -> pl.DataFrame:
        """Make a table; one by profile holds every view, point-in-time first."""
        self._said.clear()
        if kind not in _BY_PROFILE:
            return _TABLES[kind](self)
        parts: list[pl.DataFrame] = []
        for view in self.views:
            self._view = view
            try:
                found = _TABLES[kind](self)
            except InputError as error:
                if view is self.views[-1] and not parts:
                    raise
                self._said.append(f"{view.capitalize()} is left out: {error}")
                continue
            parts.append(found.select(pl.lit(view.value).alias("view"), pl.all()))
        return pl.concat(parts)

    def about(self) -> list[str]:
        """Describe what scored users in the last table, and how it was counted."""
        return list(dict.fromkeys(self._said))

    def observed(self, scorers: Iterable[str], horizon: Horizon = 0.4) -> Iterator[Observed]:
        """Let each scorer rank futures; what there is room for is kept for the next table."""
        wanted, view = list(dict.fromkeys(scorers)), self._view
        others = observe_all(
            self.interactions,
            [scorer for scorer in wanted if (scorer, horizon, view) not in self._kept],
            horizon=horizon,
            n_users=self.users,
            as_of=view is View.as_of,
        )
        for scorer in wanted:
            key = scorer, horizon, view
            one = self._kept.get(key) or next(others)
            kept = sum(each.outcomes.nbytes for each in self._kept.values())
            if kept + one.outcomes.nbytes <= _MOST_KEPT:
                self._kept[key] = one
            said = _HINDSIGHT if one.as_of is None else f"Point-in-time: {one.as_of.in_words()}"
            self._said.append(said)
            yield one

    def per_user_sizes(self) -> pl.DataFrame:
        """Compute the sizes of the paper's per-user p-values: they have the hindsight view only."""
        if self._view is not View.hindsight:
            return pl.DataFrame()
        found = per_user_sizes(chosen_cases(self.interactions, 0.4, self.users), _PER_USER)
        return pl.DataFrame([{"scorer": _PER_USER, "cut": "per-user p-values"} | found])

    def calendar(self) -> Calendar:
        """Give the windows."""
        return Calendar(self.window, n_users=self.users)


def _new_users(asked: Asked) -> pl.DataFrame:
    found = new_users_table(
        asked.interactions,
        dict.fromkeys(asked.scorers),
        n_users=asked.users,
        n_splits=min(asked.splits, _MOST_FITS),
    )
    return found.rename({"observed": "miss rate", "size": "items"}).pivot(
        on="epsilon",
        index=["scorer", "floor", "unknown", "precision@10"],
        values=["miss rate", "items"],
    )


def _misses(asked: Asked) -> pl.DataFrame:
    found = misses_table(asked.observed(asked.scorers), n_splits=asked.splits)
    return found.rename({"loss": "miss rate", "size": "items"}).pivot(
        on="epsilon", index=["scorer", "cut", "floor"], values=["miss rate", "items"]
    )


def _sizes(asked: Asked) -> pl.DataFrame:
    table = sizes_table(asked.observed(asked.scorers)).drop("data")
    return pl.concat([asked.per_user_sizes(), table], how="diagonal").select(table.columns)


def _hits(asked: Asked) -> pl.DataFrame:
    observed = asked.observed([*asked.scorers, "popularity"], horizon=5)
    return (
        hits_table(observed, n_splits=asked.splits)
        .drop("data")
        .pivot(on="epsilon", index=["scorer", "floor"], values=["hit_rate", "length"])
    )


def _calendar(asked: Asked) -> pl.DataFrame:
    parts = []
    for scorer in asked.scorers:
        found = calendar_table(
            asked.interactions, scorer, asked.calendar(), n_windows=asked.windows
        )
        parts.append(
            found.select(pl.lit(scorer).alias("scorer"), pl.all()).pivot(
                on="epsilon",
                index=["scorer", "model", "floor", "unknown", "n_test", "n_windows"],
                values=["loss", "size"],
            )
        )
    return pl.concat(parts)


def _slates(asked: Asked) -> pl.DataFrame:
    rows = []
    for one in asked.observed(asked.scorers, horizon=5):
        found = slate_reliability(one.outcomes)
        head = {"scorer": one.scorer, "calibration error": found.calibration_error}
        rows += [head | bin_ for bin_ in found.bins.to_dicts()]
    return pl.DataFrame(rows)


def _probabilities(asked: Asked) -> pl.DataFrame:
    found = item_reliabilities(asked.interactions, asked.scorers, n_users=asked.users)
    return pl.concat(
        one.groups.select(pl.lit(name).alias("scorer"), pl.all()) for name, one in found
    )


def _precision(asked: Asked) -> pl.DataFrame:
    return precision_table(asked.observed(asked.scorers), n_splits=asked.splits)


def _precision_calendar(asked: Asked) -> pl.DataFrame:
    return pl.concat(
        precision_calendar_table(
            asked.interactions, scorer, asked.calendar(), n_windows=asked.windows
        ).select(pl.lit(scorer).alias("scorer"), pl.all())
        for scorer in asked.scorers
    )


def _lists(asked: Asked) -> pl.DataFrame:
    return lists_table(
        asked.interactions, asked.scorers, n_users=asked.users, n_splits=asked.splits
    )


_TABLES: Final[dict[Tables, Callable[[Asked], pl.DataFrame]]] = {
    Tables.new_users: _new_users,
    Tables.misses: _misses,
    Tables.sizes: _sizes,
    Tables.hits: _hits,
    Tables.calendar: _calendar,
    Tables.slates: _slates,
    Tables.probabilities: _probabilities,
    Tables.precision: _precision,
    Tables.precision_calendar: _precision_calendar,
    Tables.lists: _lists,
}
