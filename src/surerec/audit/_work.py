"""An audit while it is made: what each kind of guarantee delivered, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._progress import stage
from surerec.audit._as_of import KNEW_LATER, as_of_rows
from surerec.audit._audited import FEWEST_USERS, choose_audited
from surerec.audit._calendar import age_rows, default_window, over_the_calendar
from surerec.audit._drift import drift_rows
from surerec.audit._groups import group_rows, groupings, mondrian_rows
from surerec.audit._items import observe_items
from surerec.audit._known import known_of
from surerec.audit._measured import coverage_rows
from surerec.audit._new_users import is_guaranteed, leak_findings, new_user_rows
from surerec.audit._profiles import Finding, finding_groups, profile_findings
from surerec.audit._result import Audit
from surerec.audit._segments import OF_SEGMENTS, Segments
from surerec.audit._together import together_rows
from surerec.audit._users import N_SPLITS, cross_tested, with_threshold_of
from surerec.audit._verdicts import of_kind, of_row, overall
from surerec.calibration import PROMISES, find_promise, observe, profile_cases
from surerec.errors import InputError
from surerec.evaluation import item_reliability, new_user_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.audit._measured import Measured
    from surerec.audit._subject import Subject
    from surerec.calibration import Cut, Horizon, Outcomes, Promise
    from surerec.evaluation import ItemReliability, NewUserTest
    from surerec.interactions import UserGroups
    from surerec.precedence import PrecedenceStatistics

_MOST_SHARES: Final = 1 << 30  # bytes for all candidates' scores, which a cut by score needs


@dataclass
class Work:
    """An audit while it is made."""

    subject: Subject
    statistics: PrecedenceStatistics
    n_users: int
    seed: int
    as_of: bool = False
    groups_by: UserGroups | None = None
    """The segment of each user, if coverage is reported by segment."""
    coverage: list[dict[str, Any]] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    mondrian: list[dict[str, Any]] = field(default_factory=list)
    windows: pl.DataFrame | None = None
    reliability: ItemReliability | None = None
    together: list[dict[str, Any]] = field(default_factory=list)
    by_segment: list[dict[str, Any]] = field(default_factory=list)
    tests: dict[str, NewUserTest] = field(default_factory=dict)
    """What new users received, by kind."""
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interactions = self.statistics.interactions
        self.audited = choose_audited(self.subject, self.statistics, self.n_users, self.seed)
        self.segments = None
        if self.groups_by is not None:
            users = self.audited.users
            sampled = len(users) >= self.n_users
            self.segments = Segments(self.groups_by, users, self.subject.segments, sampled)
            self.notes += self.segments.notes()
        self.skipped = list(self.audited.skipped)
        self.findings = [*self._declaration(), *profile_findings(self.interactions, self.seed)]

    def _declaration(self) -> list[Finding]:
        """Return the finding that the scorer's declaration is false, if it is."""
        if not self.audited.false:
            return []
        learned = f"users whom {self.subject.name} learned from"
        said = f"{self.audited.false}. Guarantees do not hold as declared."
        return [Finding(said, learned if len(self.audited.learned_from) else "")]

    @stage("new users")
    def new_users(self) -> None:
        """Fit on half of the users, and measure what the others receive: this decides."""
        subject = self.subject
        if reason := self._untestable():
            self.skipped.append(f"New users are left out: {reason}.")
            return
        for promise in PROMISES.values():
            if not promise.monotone:
                continue
            cut: Cut = "score" if subject.comparable and "score" in promise.audited else "rank"
            kind, horizon = f"{promise.kind}-{cut}", subject.horizon(promise)
            try:
                self.tests[kind] = new_user_test(
                    self.interactions,
                    subject.recipe,
                    promise=promise,
                    horizon=horizon,
                    cut=cut,
                    max_users=self.n_users,
                    min_known=subject.min_known,
                    ties=self.statistics.ties,
                    diagnose=promise.by_group,
                    seed=self.seed,
                )
            except InputError as error:
                self.skipped.append(f"New users are left out ({promise.name}): {error}")
                continue
            name = f"{promise.title(_in_words(horizon))}, cut by {cut}"
            self.coverage += new_user_rows(kind, name, self.tests[kind])

    def _untestable(self) -> str:
        """Return why new users cannot be tested; nothing if they can."""
        subject = self.subject
        if not subject.recipe.refits:
            return f"{subject.name} comes fitted, and may have learned from them"
        if subject.judge is not None:
            return f"{subject.name} guarantees p-values of items, which are tested below"
        if subject.of_the_fit:
            return f"{subject.name} guarantees something to users of its fit alone"
        return ""

    @stage("item-level p-values")
    def item_level(self) -> None:
        """See what p-values of items deliver, in time order and in random order."""
        if not self.subject.item_level:
            self.skipped.append(
                f"{self.subject.name} has no p-values: item-level guarantees are left out."
            )
            return
        orders = {"time": "in time order", "random": "in random order"}
        for order, words in orders.items():
            if order == "time" and not self.audited.has_times:
                continue
            found = observe_items(
                self.subject,
                self.audited.scorer,
                self.statistics,
                self.audited.users,
                order=order,  # type: ignore[arg-type]  # one of the two
                seed=self.seed,
            )
            self.coverage += coverage_rows(
                f"item-{order}", f"Item-level p-values, {words}", found.measured
            )
            if order == "time":
                self._add_groups("item-time", found.measured)
                if self.segments is not None:
                    self.by_segment += self.segments.rows("item-time", found.measured)
            if found.p_values is not None:
                self.drift += drift_rows(words, found.p_values, self.seed)
        if self.subject.judge is not None:
            self.skipped.append(
                f"{self.subject.name} scores no calibration items: no test of drift is made."
            )

    @stage("user-level guarantees")
    def user_level(self) -> None:
        """See what sets calibrated over users deliver to other users."""
        subject = self.subject
        room = 4 * len(self.audited.users) * self.statistics.n_items
        by_score = subject.comparable and room <= _MOST_SHARES
        if not by_score:
            why = (
                "its scores do not compare between people"
                if not subject.comparable
                else f"{len(self.audited.users):,} users × {self.statistics.n_items:,} items need "
                "too much memory; audit fewer users"
            )
            self.skipped.append(f"The cut by score is left out: {why}.")
        for promise in PROMISES.values():
            if promise.monotone:
                cuts = [cut for cut in promise.audited if by_score or cut != "score"]
                if self.as_of:
                    self._as_of(promise, cuts)
                self._promise(promise, cuts)
        if self.audited.has_times:
            self.notes.append(KNEW_LATER)

    def _as_of(self, promise: Promise, cuts: Sequence[Cut]) -> None:
        if not self.audited.has_times or not self.audited.scorer.leaves_users_out:
            self.skipped.append(
                f"{self.subject.name} is not counted as of then: "
                + ("it may know these futures." if self.audited.has_times else "nothing has times.")
            )
            return
        found = as_of_rows(
            self.subject, self.statistics, self.audited.users, promise, cuts, self.seed
        )
        self.coverage += found.rows
        (self.notes if found.rows else self.skipped).append(found.said)

    @stage("item probabilities")
    def item_probabilities(self) -> None:
        """See whether items are taken as often as is said of them."""
        horizon = self.subject.horizon(find_promise("miss-rate"))
        try:
            cases = profile_cases(self.interactions, horizon, min_known=self.subject.min_known)
            cases = cases[np.isin(cases.users, self.audited.users)]
            self.reliability = item_reliability(
                self.audited.scorer, self.audited.fitted_on, cases, seed=self.seed
            )
        except InputError as error:
            self.skipped.append(f"Probabilities of items are left out: {error}")

    @stage("groups")
    def groups_together(self) -> None:
        """See what promises to groups of people who choose together deliver."""
        scorer = self.audited.scorer
        if scorer.leaves_users_out is not True:
            self.skipped.append(
                f"Groups of people are left out: nobody can be left out of {self.subject.name}."
            )
            return
        horizon = self.subject.horizon(find_promise("miss-rate"))
        try:
            cases = profile_cases(self.interactions, horizon, min_known=self.subject.min_known)
        except InputError as error:
            self.skipped.append(f"Groups of people are left out: {error}")
            return
        cases = cases[np.isin(cases.users, self.audited.users)]
        self.together += together_rows(scorer, self.audited.fitted_on, cases, self.seed)
        if not self.together:
            self.skipped.append("Groups of people are left out: too few can be formed.")

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
        scorer, fitted_on = self.audited.scorer, self.audited.fitted_on
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
        outcomes = self._futures(horizon, self.audited.users, keep_candidates="score" in cuts)
        if outcomes is None:
            return
        seen = None
        if len(self.audited.learned_from):
            seen = self._futures(horizon, self.audited.learned_from)
        for cut in cuts:
            kind = f"{promise.kind}-{cut}"
            found = cross_tested(outcomes, cut, promise, seed=self.seed)
            name = f"User-level {promise.title(_in_words(horizon))}, cut by {cut}"
            self.coverage += coverage_rows(kind, name, found)
            if seen is not None:
                used = with_threshold_of(seen, outcomes, cut, promise)
                self.coverage += coverage_rows(
                    f"{kind}-as-used", f"{name}, calibrated on people it learned from", used
                )
            self._add_segments(kind, found, outcomes, cut, promise)
            by_length = self._add_groups(kind, found) if promise.by_group else None
            if by_length is None or len(by_length.names) == 1:
                continue
            own = cross_tested(outcomes, cut, promise, groups=by_length.group_of, seed=self.seed)
            self.mondrian += mondrian_rows(kind, found, own, by_length)

    def _add_segments(
        self, kind: str, common: Measured, outcomes: Outcomes, cut: Cut, promise: Promise
    ) -> None:
        """Add what each segment received, with the thresholds that the recommender has."""
        if self.segments is None:
            return
        groups = self.segments.thresholds(outcomes.cases.users)
        if groups is not None:
            common = cross_tested(outcomes, cut, promise, groups=groups, seed=self.seed)
        self.by_segment += self.segments.rows(kind, common)

    def _segment_findings(self) -> pl.DataFrame | None:
        """Add what the guarantee's own kind shows; return the table, that kind first."""
        if self.segments is None or not self.by_segment:
            return None
        kinds = {row["kind"] for row in self.by_segment}
        first = next(
            kind for kind in (self.subject.kind, *OF_SEGMENTS, *sorted(kinds)) if kind in kinds
        )
        self.by_segment.sort(key=lambda row: row["kind"] != first)
        own = [row for row in self.by_segment if row["kind"] == first]
        self.findings += self.segments.findings(own)
        return _frame(self.by_segment)

    @stage("calendar")
    def calendar(self, window: float | None) -> float | None:
        """Test models of several ages, or say why not; give the length of a window."""
        if not self.audited.has_times:
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
        by_segment = self._segment_findings()
        # Point-in-time comes before hindsight.
        self.coverage.sort(key=lambda row: not row["kind"].endswith("-as-of"))
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in filter(is_guaranteed, self.coverage):
            rows.setdefault(row["kind"], []).append(row)
        said = self.audited.false.partition(":")[0]
        # What learned from half of the users is tested on the others, whatever it declares.
        false = "" if len(self.audited.learned_from) else said
        limits = " or ".join(each.limits for each in self.findings if each.limits)
        verdicts = [of_kind(found, self.audited.unsure, false, limits) for found in rows.values()]
        judged = [
            row
            | {
                "verdict": "cannot tell"
                if self.audited.unsure
                else "does not hold"
                if false
                else of_row(row["promised"], row["low"], row["high"])
            }
            for row in self.coverage
        ]
        data = self.interactions.name or "data without a name"
        return Audit(
            data=data,
            subject=self.subject.name,
            overall=overall(verdicts, days, said, limits),
            verdicts=verdicts,
            coverage=_frame(judged),
            drift=_frame(self.drift),
            groups=_frame(self.groups),
            mondrian=_frame(self.mondrian),
            calendar=self.windows,
            skipped=self.skipped,
            settings={
                "n_users": len(self.audited.users),
                "n_splits": N_SPLITS,
                "horizon": self.subject.horizon(find_promise("miss-rate")),
                "hit_horizon": self.subject.horizon(find_promise("hit")),
                "window": days,
                "as_of": self.as_of,
                "seed": self.seed,
            },
            probabilities=None if self.reliability is None else self.reliability.groups,
            reliability=None if self.reliability is None else self.reliability.bins,
            together=_frame(self.together) if self.together else None,
            segments=by_segment,
            support=next((each.support for each in self.tests.values()), None),
            ranking=next((each.ranking for each in self.tests.values()), None),
            known=known_of(self.interactions),
            notes=self.notes,
            findings=[
                *(each.sentence for each in self.findings),
                *(sentence for test in self.tests.values() for sentence in leak_findings(test)),
            ],
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
        for grouping in finding_groups(self.findings, measured.users, self.audited.users):
            self.groups += group_rows(kind, measured, grouping)
        return found[0]


def _in_words(horizon: Horizon) -> str:
    return f"next {horizon}" if isinstance(horizon, int) else f"last {horizon:.0%}"


def _frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)
