"""Every kind of guarantee, measured on real futures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import check_number, check_optional_text, check_seed
from surerec._checks import check_whole
from surerec._shown import shown
from surerec.audit._calendar import age_rows, default_window, over_the_calendar
from surerec.audit._drift import drift_rows
from surerec.audit._groups import group_rows, groupings, mondrian_rows
from surerec.audit._items import observe_items
from surerec.audit._measured import interval_over_users
from surerec.audit._result import Audit
from surerec.audit._subject import Subject, of_recipe, of_recommender
from surerec.audit._users import N_SPLITS, cross_tested, with_threshold_of
from surerec.audit._verdicts import of_kind, of_row, overall
from surerec.calibration import PROMISES, find_promise
from surerec.errors import InputError
from surerec.evaluation import CHECKED_EPSILONS, choose_users, item_reliability
from surerec.futures import observe, profile_cases
from surerec.interactions import Interactions
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders import Recommender

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.audit._measured import Measured
    from surerec.calibration import Cut, Promise
    from surerec.evaluation import ItemReliability
    from surerec.futures import Horizon, Outcomes
    from surerec.measures import RecipeLike, Scorer


_MOST_DAYS = 1_000_000
FEWEST_USERS = 20
"""With fewer nothing can be said."""

_MOST_SHARES = 1 << 30  # bytes for all candidates' scores, which a cut by score needs


def audit(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: RecipeLike = "CM12",
    *,
    make_scorer: RecipeLike | None = None,
    name: str | None = None,
    n_users: int = 1000,
    window: float | None = None,
    seed: int = 0,
) -> Audit:
    """Measure whether each kind of guarantee holds on these data.

    Parameters
    ----------
    data : Interactions, PrecedenceStatistics or Recommender
        Profiles, counts made of them, or a fitted recommender, which is audited with its own
        settings on its own profiles.
    measure : str or object, default="CM12"
        The measure to audit, if `data` is no recommender; or anything that
        :func:`surerec.measures.as_recipe` takes. Over the calendar it is fitted anew for each date,
        on the counts up to it; what comes fitted is not audited there.
    make_scorer : callable, optional
        The same: makes a scorer (:class:`surerec.measures.Scorer`) from statistics.
    name : str, optional
        What the report calls what is audited.
    n_users : int, default=1000
        Random users with 10 items or more; at most so many calibrate, and are tested, in each
        window of the calendar too.
    window : float, optional
        Length of the calendar's windows in days; by default a usual length of which the data have
        six or more.
    seed : int, default=0
        Of everything that is drawn.

    Returns
    -------
    Audit
        Sentences and tables.

    Raises
    ------
    InputError
        If too few users have profiles that are long enough.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.audit import audit
    >>> films = sr.datasets.synthetic(n_users=300, n_items=80, n_rows=9000, sequels=0, seed=1)
    >>> found = audit(films, n_users=200)
    >>> {verdict.kind: verdict.kept for verdict in found.verdicts}["miss-score"]
    True
    """
    check_whole("n_users", n_users, lowest=FEWEST_USERS)
    check_seed(seed)
    check_optional_text("name", name)
    if window is not None:
        must = f"a number of days, from 1 to {_MOST_DAYS:,}"
        check_number("window", window, 1, _MOST_DAYS, must, ends=(True, True))
    statistics, subject = _subject(data, measure, make_scorer, name)
    work = _Work(subject, statistics, n_users, seed)
    work.item_level()
    work.user_level()
    work.item_probabilities()
    days = work.calendar(window or subject.window)
    return work.result(days)


def _subject(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: RecipeLike,
    make_scorer: RecipeLike | None,
    name: str | None,
) -> tuple[PrecedenceStatistics, Subject]:
    if isinstance(data, Recommender):
        data.require_fit()  # its counts are audited
        return _with_profiles(data.statistics_), of_recommender(name or data.default_name(), data)
    if make_scorer is None:
        subject = of_recipe(measure, name)
    else:
        subject = of_recipe(make_scorer, name or "this scorer")
    if isinstance(data, Interactions):
        data = count_precedence(data)
    if not isinstance(data, PrecedenceStatistics):
        raise InputError(
            f"audit takes Interactions (see read_interactions), counts or a fitted recommender, "
            f"not {shown(data)}."
        )
    return _with_profiles(data), subject


def _with_profiles(statistics: PrecedenceStatistics) -> PrecedenceStatistics:
    if statistics.interactions is None:
        raise InputError("These counts were given without profiles: there is nobody to audit.")
    return statistics


@dataclass
class _Work:
    """An audit while it is made."""

    subject: Subject
    statistics: PrecedenceStatistics
    n_users: int
    seed: int
    skipped: list[str] = field(default_factory=list)
    coverage: list[dict[str, Any]] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    mondrian: list[dict[str, Any]] = field(default_factory=list)
    windows: pl.DataFrame | None = None
    reliability: ItemReliability | None = None

    def __post_init__(self) -> None:
        assert self.statistics.interactions is not None  # noqa: S101  # was checked
        self.interactions: Interactions = self.statistics.interactions
        shortest = self.subject.min_length
        self.users: NDArray[np.int64] = choose_users(
            self.interactions, self.n_users, min_length=shortest, seed=self.seed
        )
        if len(self.users) < FEWEST_USERS:
            raise InputError(
                f"{self.interactions.name or 'The data'}: only {len(self.users)} users took "
                f"{shortest} items or more; an audit needs at least {FEWEST_USERS}."
            )
        self._fit()
        self.has_times = _have_times(self.interactions, self.users)
        if not self.has_times:
            self.skipped.append(
                "No user's items have different times, so that their order is that of the file: "
                "nothing is said about time order, drift, or the calendar, and what follows in the "
                "file stands in for the future."
            )

    def _fit(self) -> None:
        """Fit what is audited; if nobody can be left out of it, only on people who are not audited.

        `learned_from` are then some whom it learned from, for what it delivers as it may be used.
        """
        recipe, scorer = self.subject.recipe, self.subject.scorer_on(self.statistics)
        self.scorer: Scorer = scorer
        self.fitted_on = self.statistics
        self.learned_from: NDArray[np.int64] = self.users[:0]
        self.unsure = ""
        if scorer.leaves_users_out:
            return
        says = "cannot leave users out"
        if scorer.leaves_users_out is None:
            says = "does not say whether it leaves users out"
        if not recipe.refits:
            self.unsure = f"the scorer comes fitted and {says}, so it may know these futures"
            self.skipped.append(f"Nothing can be told here: {self.unsure}.")
            return
        if self.subject.of_the_fit:
            self.skipped.append(
                f"People whom {self.subject.name} was not fitted on: for each promise a copy of it "
                "was fitted on what was known of everybody, and audited on what followed."
            )
            return
        fitted = np.random.default_rng((self.seed, 2)).random(self.interactions.n_users) < 0.5  # noqa: PLR2004
        self.learned_from, self.users = (
            self.users[fitted[self.users]],
            self.users[~fitted[self.users]],
        )
        if min(len(self.users), len(self.learned_from)) < FEWEST_USERS:
            raise InputError(
                f"{self.interactions.name or 'The data'}: {self.subject.name} {says}, so it is "
                f"audited on half of the users, and these are fewer than {FEWEST_USERS}."
            )
        others = self.interactions.without_users(np.flatnonzero(~fitted))
        self.fitted_on = recipe.count(others, self.statistics.ties)
        self.scorer = recipe.fit(self.fitted_on)
        self.skipped.append(
            f"People whom {self.subject.name} learned from, as it {says}: it was fitted on half of "
            "the users and audited on the others. What it delivers if it is calibrated on people "
            "whom it learned from stands beside."
        )

    def item_level(self) -> None:
        """See what p-values of items deliver, in time order and in random order."""
        if not self.subject.item_level:
            self.skipped.append(
                f"{self.subject.name} has no p-values: item-level guarantees are left out."
            )
            return
        orders = {"time": "in time order", "random": "in random order"}
        for order, words in orders.items():
            if order == "time" and not self.has_times:
                continue
            found = observe_items(
                self.subject,
                self.scorer,
                self.statistics,
                self.users,
                order=order,  # type: ignore[arg-type]  # one of the two
                seed=self.seed,
            )
            self._add(f"item-{order}", f"Item-level p-values, {words}", found.measured)
            if order == "time":
                self._add_groups("item-time", found.measured)
            if found.p_values is not None:
                self.drift += drift_rows(words, found.p_values, self.seed)
        if self.subject.judge is not None:
            self.skipped.append(
                f"{self.subject.name} scores no calibration items: no test of drift is made."
            )

    def user_level(self) -> None:
        """See what sets calibrated over users deliver to other users."""
        subject = self.subject
        room = 4 * len(self.users) * self.statistics.n_items
        by_score = subject.comparable and room <= _MOST_SHARES
        if not by_score:
            why = (
                "its scores do not compare between people"
                if not subject.comparable
                else f"{len(self.users):,} users × {self.statistics.n_items:,} items need too much "
                "memory; audit fewer users"
            )
            self.skipped.append(f"The cut by score is left out: {why}.")
        for promise in PROMISES.values():
            if promise.monotone:
                cuts = [cut for cut in promise.audited if by_score or cut != "score"]
                self._promise(promise, cuts)

    def item_probabilities(self) -> None:
        """See whether items are taken as often as is said of them."""
        horizon = self.subject.horizon(find_promise("miss-rate"))
        try:
            cases = profile_cases(self.interactions, horizon, min_known=self.subject.min_known)
            cases = cases[np.isin(cases.users, self.users)]
            self.reliability = item_reliability(self.scorer, self.fitted_on, cases, seed=self.seed)
        except InputError as error:
            self.skipped.append(f"Probabilities of items are left out: {error}")

    def _futures(
        self, horizon: Horizon, users: NDArray[np.int64], *, keep_candidates: bool = False
    ) -> Outcomes | None:
        try:
            cases = profile_cases(self.interactions, horizon, min_known=self.subject.min_known)
        except InputError as error:
            self.skipped.append(f"A user-level promise is left out: {error}")
            return None
        cases = cases[np.isin(cases.users, users)]
        if len(cases) < FEWEST_USERS:
            self.skipped.append(
                f"A user-level promise with a horizon of {horizon} is left out: only {len(cases)} "
                f"users have {self.subject.min_known} known items and such a future."
            )
            return None
        scorer, fitted_on = self.scorer, self.fitted_on
        if self.subject.of_the_fit and self.subject.recipe.refits:
            known = self.interactions.keeping(~cases.future_rows())
            fitted_on = self.subject.recipe.count(known)
            scorer = self.subject.recipe.fit(fitted_on)
        return observe(
            scorer,
            fitted_on,
            cases,
            keep_candidates=keep_candidates,
            doing=f"Futures, horizon {horizon}",
        )

    def _promise(self, promise: Promise, cuts: Sequence[Cut]) -> None:
        horizon = self.subject.horizon(promise)
        outcomes = self._futures(horizon, self.users, keep_candidates="score" in cuts)
        if outcomes is None:
            return
        seen = None
        if len(self.learned_from):
            seen = self._futures(horizon, self.learned_from)
        future = f"next {horizon}" if isinstance(horizon, int) else f"last {horizon:.0%}"
        for cut in cuts:
            kind = f"{promise.kind}-{cut}"
            found = cross_tested(outcomes, cut, promise, seed=self.seed)
            name = f"User-level {promise.title(future)}, cut by {cut}"
            self._add(kind, name, found)
            if seen is not None:
                used = with_threshold_of(seen, outcomes, cut, promise)
                self._add(f"{kind}-as-used", f"{name}, calibrated on people it learned from", used)
            by_length = self._add_groups(kind, found) if promise.by_group else None
            if by_length is None or len(by_length.names) == 1:
                continue
            own = cross_tested(outcomes, cut, promise, groups=by_length.group_of, seed=self.seed)
            self.mondrian += mondrian_rows(kind, found, own, by_length)

    def calendar(self, window: float | None) -> float | None:
        """Test models of several ages, or say why not; give the length of a window."""
        if not self.has_times:
            return None
        try:
            days = window or default_window(self.interactions)
            self.windows = over_the_calendar(
                self.subject,
                self.interactions,
                days,
                n_users=self.n_users,
                ties=self.statistics.ties,
                seed=self.seed,
            )
        except InputError as error:
            said = str(error).rstrip(".")
            self.skipped.append(f"The calendar is left out: {said[0].lower()}{said[1:]}.")
            return None
        self.coverage += age_rows(self.windows)
        return days

    def result(self, days: float | None) -> Audit:
        """Draw the conclusions."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in self.coverage:
            rows.setdefault(row["kind"], []).append(row)
        verdicts = [of_kind(found, self.unsure) for found in rows.values()]
        judged = [
            row
            | {
                "verdict": "cannot tell"
                if self.unsure
                else of_row(row["promised"], row["low"], row["high"])
            }
            for row in self.coverage
        ]
        data = self.interactions.name or "data without a name"
        return Audit(
            data=data,
            subject=self.subject.name,
            overall=overall(verdicts, days),
            verdicts=verdicts,
            coverage=_frame(judged),
            drift=_frame(self.drift),
            groups=_frame(self.groups),
            mondrian=_frame(self.mondrian),
            calendar=self.windows,
            skipped=self.skipped,
            settings={
                "n_users": len(self.users),
                "n_splits": N_SPLITS,
                "horizon": self.subject.horizon(find_promise("miss-rate")),
                "hit_horizon": self.subject.horizon(find_promise("hit")),
                "window": days,
                "seed": self.seed,
            },
            probabilities=None if self.reliability is None else self.reliability.groups,
            reliability=None if self.reliability is None else self.reliability.bins,
        )

    def _add(self, kind: str, name: str, measured: Measured) -> None:
        for at, epsilon in enumerate(CHECKED_EPSILONS):
            delivered, low, high = interval_over_users(measured.losses[at])
            self.coverage.append(
                {
                    "kind": kind,
                    "name": name,
                    "epsilon": epsilon,
                    "promised": 1 - epsilon,
                    "delivered": delivered,
                    "low": low,
                    "high": high,
                    "size": float(measured.sizes[at].mean()),
                    "n": len(measured.users),
                    "unit": "users",
                    "windows_below": None,
                }
            )

    def _add_groups(self, kind: str, measured: Measured) -> Any:
        found = groupings(measured, self.statistics, self.subject.groups)
        for grouping in found:
            if len(grouping.names) == 1:
                self.skipped.append(
                    f"{kind}: no groups by {grouping.by}, in which everything is alike."
                )
                continue
            self.groups += group_rows(kind, measured, grouping)
        return found[0]


def _have_times(interactions: Interactions, users: NDArray[np.int64]) -> bool:
    """Tell whether any of these users took things at different times."""
    first = interactions.times[interactions.offsets[users]]
    last = interactions.times[interactions.offsets[users + 1] - 1]
    return bool((last > first).any())


def _frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)
