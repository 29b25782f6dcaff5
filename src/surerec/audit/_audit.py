"""Every kind of guarantee, measured on held-out interactions, section by section."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy import stats

from surerec._arguments import (
    check_number,
    check_optional_text,
    check_random_state,
    check_whole,
)
from surerec._progress import stage
from surerec.audit._groups import (
    Segments,
    by_known_items,
    finding_groups,
    group_rows,
    read_segments,
    together_rows,
)
from surerec.audit._items import drift_row, observe_items
from surerec.audit._profiles import Finding, default_window, known_of, profile_findings
from surerec.audit._report import Audit
from surerec.audit._subject import (
    AuditedUsers,
    AuditSubject,
    choose_audited,
    subject_of,
)
from surerec.audit._verdicts import (
    FEWEST_USERS,
    LEVEL,
    coverage_row,
    coverage_rows,
    interval_over_windows,
    is_guaranteed,
    leak_findings,
    new_user_rows,
    of_kind,
    of_row,
    overall,
)
from surerec.calibration import GUARANTEE_KINDS, codes_in, find_guarantee, observe, profile_cases
from surerec.errors import InputError
from surerec.evaluation import (
    AGES,
    TemporalSplit,
    backtest,
    halves,
    item_reliability,
    measure_sets,
    new_user_test,
    risk_curve,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases, GuaranteeKind, Horizon, Outcomes, ThresholdUnit
    from surerec.evaluation import MeasuredSets, NewUserTest
    from surerec.interactions import Interactions, Segmentation
    from surerec.measures import MeasureLike
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

_MOST_DAYS: Final = 1_000_000
_MOST_SHARES: Final = 1 << 30  # bytes for all candidates' scores, which a cut by score needs
_MOST_WINDOWS: Final = 12
_KNEW_LATER: Final = (
    "User-level guarantees by profile: scores also used what other users did later, which makes "
    "sets smaller than anybody would have had at the time. Over the calendar, nothing does."
)
_ITEM_LEVEL, _USER_LEVEL = "item-level p-values", "user-level guarantees"


def audit(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: MeasureLike = "CM12",
    *,
    name: str | None = None,
    n_users: int = 1000,
    window: float | None = None,
    segments: str | Segmentation | None = None,
    user_segments: Any = None,
    random_state: int = 0,
) -> Audit:
    """Measure whether each kind of guarantee holds on these data.

    Parameters
    ----------
    data : Interactions, PrecedenceStatistics or Recommender
        Profiles, counts made of them, or a fitted recommender, which is audited with its own
        settings on its own profiles.
    measure : str or object, default="CM12"
        The measure to audit, if `data` is no recommender; or anything that
        :func:`surerec.measures.as_measure` accepts. Over time it is refitted at each date, on the
        counts up to it; a fitted scorer is not audited there.
    name : str, optional
        What the report calls what is audited.
    n_users : int, default=1000
        Random users with 10 items or more; at most so many calibrate, and are tested, in each
        window of the calendar too.
    window : float, optional
        Length of the calendar's windows in days; by default a usual length of which the data have
        six or more.
    segments : str or Segmentation, optional
        Report nominal and observed for each segment of the users: the name of a column of
        `user_segments`, or the segments themselves. By default the segments that the recommender
        was fitted with.
    user_segments : mapping, pandas Series, frame or path, optional
        Where the column `segments` is; see :func:`surerec.interactions.read_user_segments`.
    random_state : int, default=0
        Of everything that is drawn.

    Returns
    -------
    Audit
        Sentences and tables.

    Raises
    ------
    InputError
        If an argument is not what it must be, or fewer than 20 users have profiles that are long
        enough.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.audit import audit
    >>> films = sr.datasets.synthetic(
    ...     n_users=300, n_items=80, n_rows=9000, sequels=0, random_state=1
    ... )
    >>> found = audit(films, n_users=200)
    >>> {verdict.kind: verdict.kept for verdict in found.verdicts}["recall-score"]
    True
    """
    check_whole("n_users", n_users, lowest=FEWEST_USERS)
    check_random_state(random_state)
    check_optional_text("name", name)
    if window is not None:
        must = f"a number of days, from 1 to {_MOST_DAYS:,}"
        check_number("window", window, 1, _MOST_DAYS, must, ends=(True, True))
    statistics, subject = subject_of(data, measure, name)
    profiles = statistics.require_profiles("there is nobody to audit")
    groups = read_segments(segments, user_segments, profiles.users, subject.segments)
    audited = choose_audited(subject, statistics, n_users, random_state)
    by = None if groups is None else Segments(groups, audited.users, subject.segments)
    days = window or subject.window
    run = _Run(subject, statistics, audited, n_users, random_state, days, by)
    run.measure()
    return run.result()


class _LeftOutError(InputError):
    """A section of the audit cannot be measured here."""


@dataclass
class _Run:
    """An audit while it is made."""

    subject: AuditSubject
    statistics: PrecedenceStatistics
    audited: AuditedUsers
    n_users: int
    random_state: int
    window: float | None
    segments: Segments | None
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """Of each table."""
    calendar: pl.DataFrame | None = None
    days: float | None = None
    tests: list[NewUserTest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interactions = self.statistics.interactions
        self.notes = known_of(self.interactions)
        if self.audited.has_times:
            self.notes.append(_KNEW_LATER)
        if self.segments is not None:
            self.notes += self.segments.notes()
        self.skipped = list(self.audited.skipped)
        self.findings = profile_findings(self.interactions, self.random_state)
        if self.audited.false:
            learned = f"users whom {self.subject.name} learned from"
            said = f"{self.audited.false}. Guarantees do not hold as declared."
            limits = learned if len(self.audited.learned_from) else ""
            self.findings.insert(0, Finding(said, limits))

    def measure(self) -> None:
        """Measure every section; what cannot be measured is said."""
        # Those guarantees whose loss never grows with the set.
        promises = [guarantee for guarantee in GUARANTEE_KINDS.values() if guarantee.monotone]
        titles = [(self.subject.title(guarantee), guarantee) for guarantee in promises]
        sections: list[tuple[str, str, Callable[[], None]]] = [
            *(("new users", "New users are", partial(self.new_users, one)) for _, one in titles),
            (_ITEM_LEVEL, "Item-level guarantees are", self.item_level),
            *(
                (_USER_LEVEL, f"The user-level {title} is", partial(self.user_level, one))
                for title, one in titles
            ),
            ("item probabilities", "Probabilities of items are", self.probabilities),
            ("groups", "Groups of users are", self.group_guarantee),
            ("calendar", "The calendar is", self.over_time),
        ]
        for name, what, section in sections:
            # In these two, what a scorer does wrong is an error and no gap.
            expected = _LeftOutError if name in (_ITEM_LEVEL, _USER_LEVEL) else InputError
            with stage(name):
                try:
                    section()
                except expected as error:
                    self.leave_out(what, str(error))

    def leave_out(self, what: str, why: str) -> None:
        """Record once that something is left out, and why."""
        reason = f"the{why[3:]}" if why.startswith("The ") else why
        said = f"{what} left out: {reason.rstrip('.')}."
        if said not in self.skipped:
            self.skipped.append(said)

    def cases(self, horizon: Horizon, users: NDArray[np.int64]) -> Cases:
        """Return the known and held-out parts of some users' histories."""
        try:
            found = profile_cases(self.interactions, horizon, min_history=self.subject.min_history)
        except InputError as error:
            raise _LeftOutError(str(error)) from error
        return found[np.isin(found.users, users)]

    def new_users(self, guarantee: GuaranteeKind) -> None:
        """Fit on half of the users, and measure what the others receive: this decides."""
        subject = self.subject
        for is_so, why in (
            (not subject.recipe.refits, "comes fitted, and may have learned from them"),
            (subject.judge is not None, "guarantees p-values of items, which are tested below"),
            (subject.of_the_fit, "guarantees something to users of its fit alone"),
        ):
            if is_so:
                raise _LeftOutError(f"{subject.name} {why}")
        threshold: ThresholdUnit = (
            "score" if subject.comparable and "score" in guarantee.audited else "rank"
        )
        test = new_user_test(
            self.interactions,
            subject.recipe,
            guarantee=guarantee,
            horizon=subject.horizon(guarantee),
            threshold=threshold,
            max_users=self.n_users,
            min_history=subject.min_history,
            ties=self.statistics.ties,
            diagnose=guarantee.by_group,
            random_state=self.random_state,
        )
        name = f"{subject.title(guarantee)}, cut by {threshold}"
        self.tests.append(test)
        self.rows["coverage"] += new_user_rows(f"{guarantee.name}-{threshold}", name, test)

    def item_level(self) -> None:
        """Measure what p-values of items deliver, in time order and in random order."""
        subject, audited, users = self.subject, self.audited, self.audited.users
        if not subject.item_level:
            raise _LeftOutError(f"{subject.name} has no p-values")
        for order in ("time", "random") if audited.has_times else ("random",):
            measured, n_known, online = observe_items(
                subject,
                audited.scorer,
                self.statistics,
                users,
                order=order,
                random_state=self.random_state,
            )
            words = f"in {order} order"
            name = f"Item-level p-values, {words}"
            self.rows["coverage"] += coverage_rows(f"item-{order}", name, measured)
            if order == "time":
                self.add_groups("item-time", measured, users, n_known)
            if online is not None:
                self.rows["drift"].append(drift_row(words, online))
        if subject.judge is not None:
            self.skipped.append(
                f"{subject.name} scores no calibration items: no test of drift is made."
            )

    def user_level(self, guarantee: GuaranteeKind) -> None:
        """Measure what user-level sets deliver to users who did not calibrate them."""
        subject, audited = self.subject, self.audited
        horizon, cuts = subject.horizon(guarantee), self.cuts(guarantee)
        outcomes = self.observed(horizon, audited.users, keep_candidates="score" in cuts)
        seen = None
        if len(audited.learned_from):
            seen = self.observed(horizon, audited.learned_from)
        for threshold in cuts:
            kind = f"{guarantee.name}-{threshold}"
            name = f"User-level {subject.title(guarantee)}, cut by {threshold}"
            measured = partial(
                measure_sets, outcomes, threshold, guarantee, random_state=self.random_state
            )
            common = measured()
            self.rows["coverage"] += coverage_rows(kind, name, common)
            if seen is not None:
                used = measured(calibration=risk_curve(seen, threshold, guarantee))
                used_name = f"{name}, calibrated on users it learned from"
                self.rows["coverage"] += coverage_rows(f"{kind}-as-used", used_name, used)
            users, by = outcomes.cases.users, self.segments
            groups = None if by is None else by.thresholds(users)
            theirs = common if groups is None else measured(groups=groups)
            self.add_groups(
                kind, common, users, outcomes.n_known if guarantee.by_group else None, theirs
            )

    def cuts(self, guarantee: GuaranteeKind) -> Sequence[ThresholdUnit]:
        """Return how sets are cut; by rank alone where scores do not compare, or memory lacks."""
        n_users, n_items = len(self.audited.users), self.statistics.n_items
        why = "" if self.subject.comparable else "its scores do not compare between users"
        if not why and 4 * n_users * n_items > _MOST_SHARES:
            why = f"{n_users:,} users × {n_items:,} items need too much memory; audit fewer users"
        if not why or "score" not in guarantee.audited:
            return guarantee.audited
        self.leave_out("The cut by score is", why)
        return ("rank",)

    def observed(
        self, horizon: Horizon, users: NDArray[np.int64], *, keep_candidates: bool = False
    ) -> Outcomes:
        """Return where the scorer ranked what some users consumed next."""
        cases, recipe = self.cases(horizon, users), self.subject.recipe
        if len(cases) < FEWEST_USERS:
            raise _LeftOutError(
                f"only {len(cases)} users have {self.subject.min_history} known items and "
                f"a horizon of {horizon}"
            )
        scorer, fitted_on = self.audited.scorer, self.audited.fitted_on
        if self.subject.of_the_fit and recipe.refits:
            fitted_on = recipe.count(self.interactions.keeping(~cases.future_rows()))
            scorer = recipe.fit(fitted_on)
        doing = f"Held-out interactions, horizon {horizon}"
        return observe(scorer, fitted_on, cases, keep_candidates=keep_candidates, doing=doing)

    def probabilities(self) -> None:
        """Measure whether items are consumed as often as is said of them."""
        cases = self.cases(self.subject.horizon(find_guarantee("recall")), self.audited.users)
        scorer, known = self.audited.scorer, self.audited.fitted_on
        cases = cases[scorer.reaches(codes_in(known, cases.interactions)[0][cases.users])]
        half = next(halves(len(cases), 1, self.random_state))
        found = item_reliability(scorer, known, cases[half], cases[~half], self.random_state)
        self.rows["probabilities"] = found.to_dicts()

    def group_guarantee(self) -> None:
        """Measure what guarantees to groups who choose together deliver."""
        scorer = self.audited.scorer
        if scorer.leaves_users_out is not True:
            raise _LeftOutError(f"nobody can be left out of {self.subject.name}")
        cases = self.cases(self.subject.horizon(find_guarantee("recall")), self.audited.users)
        rows = list(together_rows(scorer, self.audited.fitted_on, cases, self.random_state))
        if not rows:
            raise _LeftOutError("too few can be formed")
        self.rows["group_guarantee"] += rows

    def over_time(self) -> None:
        """Test models of all ages in the latest windows, with the cut by rank."""
        if not self.audited.has_times:
            return
        days = self.window or default_window(self.interactions)
        calendar = TemporalSplit(
            days,
            min_history=self.subject.min_history,
            n_users=self.n_users,
            ties=self.statistics.ties,
            random_state=self.random_state,
        )
        recipe = self.subject.recipe
        found = backtest(self.interactions, recipe, calendar, n_windows=_MOST_WINDOWS)
        # Below by more than chance in any of all the windows and levels.
        reach = float(stats.norm.ppf(1 - (1 - LEVEL) / found["window"].n_unique() / 2))
        error = (pl.col("loss_se") ** 2 + pl.col("calibration_se") ** 2).sqrt()
        found = found.with_columns(
            nominal=1 - pl.col("epsilon"),
            observed=1 - pl.col("loss"),
            below=pl.col("loss") - reach * error > pl.col("epsilon"),
        )
        self.calendar, self.days = found, days
        for age, model in enumerate(AGES):
            ages = found.filter(model=model).group_by("epsilon", maintain_order=True)
            for (epsilon,), part in ages:
                size = None if part["size"].has_nulls() else float(part["size"].to_numpy().mean())
                row = coverage_row(
                    f"calendar-{age}",
                    f"Over the calendar, {model}",
                    float(epsilon),
                    interval_over_windows(part["loss"]),
                    (size, float(part["floor"].to_numpy().max())),
                    len(part),
                    windows_below=int(part["below"].sum()),
                )
                self.rows["coverage"].append(row)

    def add_groups(
        self,
        kind: str,
        measured: MeasuredSets,
        users: NDArray[np.int64],
        n_known: NDArray[np.int64] | None,
        by_segment: MeasuredSets | None = None,
    ) -> None:
        """Add what segments, users by known items and users of findings received."""
        if self.segments is not None:
            grouping = self.segments.grouping(users)
            self.rows["groups"] += group_rows(kind, by_segment or measured, grouping)
        if n_known is None:
            return
        by_length = by_known_items(n_known, self.subject.groups)
        if len(by_length.names) == 1:
            self.skipped.append(f"{kind}: no groups by known items, in which everyone is alike.")
        else:
            self.rows["groups"] += group_rows(kind, measured, by_length)
        for grouping in finding_groups(self.findings, users, self.audited.users):
            self.rows["groups"] += group_rows(kind, measured, grouping)

    def result(self) -> Audit:
        """Draw the conclusions."""
        if self.segments is not None:
            self.findings += self.segments.findings(self.rows["groups"], self.subject.kind)
        audited, coverage = self.audited, self.rows["coverage"]
        kinds = defaultdict(list)
        for row in filter(is_guaranteed, coverage):
            kinds[row["kind"]].append(row)
        said = audited.false.partition(":")[0]
        # What learned from half of the users is tested on the others, whatever it declares.
        false = "" if len(audited.learned_from) else said
        limits = " or ".join(each.limits for each in self.findings if each.limits)
        verdicts = [of_kind(rows, audited.unsure, false, limits) for rows in kinds.values()]
        decided = "cannot tell" if audited.unsure else "does not hold" if false else ""
        for row in coverage:
            row["verdict"] = decided or of_row(row["nominal"], row["low"], row["high"])
        frames = {
            name: pl.DataFrame(rows, infer_schema_length=None)
            for name, rows in self.rows.items()
            if rows
        }
        return Audit(
            data=self.interactions.name or "data without a name",
            subject=self.subject.name,
            overall=overall(verdicts, self.days, said, limits),
            verdicts=verdicts,
            calendar=self.calendar,
            skipped=self.skipped,
            settings={
                "n_users": len(audited.users),
                "horizon": self.subject.horizon(find_guarantee("recall")),
                "window": self.days,
                "random_state": self.random_state,
            },
            support=self.tests[0].support if self.tests else None,
            notes=self.notes,
            findings=[
                *(each.sentence for each in self.findings),
                *(sentence for test in self.tests for sentence in leak_findings(test)),
            ],
            **frames,
        )
