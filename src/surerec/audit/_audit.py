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
    check_flag,
    check_number,
    check_optional_text,
    check_seed,
    check_whole,
)
from surerec._progress import stage
from surerec._words import counted
from surerec.audit._groups import (
    OF_SEGMENTS,
    Grouping,
    Segments,
    finding_groups,
    group_rows,
    groupings,
    mondrian_rows,
    read_segments,
    together_rows,
)
from surerec.audit._items import drift_rows, observe_items
from surerec.audit._profiles import Finding, default_window, known_of, profile_findings
from surerec.audit._report import Audit
from surerec.audit._subject import (
    AuditedUsers,
    AuditSubject,
    TooFewUsersError,
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
    percent,
)
from surerec.calibration import PROMISES, find_promise, observe, profile_cases
from surerec.errors import InputError
from surerec.evaluation import (
    AGES,
    CHECKED_EPSILONS,
    N_SPLITS,
    Calendar,
    backtest,
    item_reliability,
    measure_sets,
    new_user_test,
    observe_as_of,
    risk_curve,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cases, Cut, Horizon, Outcomes, Promise
    from surerec.evaluation import ItemReliability, MeasuredSets, NewUserTest
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

_MOST_DAYS: Final = 1_000_000
_MOST_SHARES: Final = 1 << 30  # bytes for all candidates' scores, which a cut by score needs
_MOST_WINDOWS: Final = 12
_KNEW_LATER: Final = (
    "User-level guarantees by profile: scores also used what other users did later, which makes "
    "sets smaller than anybody would have had at the time; as_of (--as-of) counts only what "
    "had happened by then."
)
_ITEM_LEVEL, _USER_LEVEL = "item-level p-values", "user-level guarantees"


def _promises() -> list[Promise]:
    """Return the guarantees that are tested: those whose loss never grows with the set."""
    return [promise for promise in PROMISES.values() if promise.monotone]


def audit(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: RecipeLike = "CM12",
    *,
    make_scorer: RecipeLike | None = None,
    name: str | None = None,
    n_users: int = 1000,
    window: float | None = None,
    as_of: bool = False,
    segments: Any = None,
    user_segments: Any = None,
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
    as_of : bool, default=False
        Measure user-level promises by profile a second time, with counts up to the start of each
        case's block of the calendar (see :func:`surerec.evaluation.observe_as_of`): by default
        counts know what others did later.
    segments : str, mapping, pandas Series or frame, optional
        Report nominal and observed for each segment of the users. The name of a column of
        `user_segments`, or the segments by user id. By default the segments that the recommender
        was fitted with.
    user_segments : mapping, pandas Series, frame or path, optional
        Where the column `segments` is; see :func:`surerec.interactions.read_user_groups`.
    seed : int, default=0
        Of everything that is drawn.

    Returns
    -------
    Audit
        Sentences and tables. Where fewer than 20 users have profiles that are long enough there
        are no verdicts: it says what is known of the data, which promises can be given without a
        test, and how many users are lacking.

    Raises
    ------
    InputError
        If an argument is not what it must be, or there are no profiles.

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
    statistics, subject = subject_of(data, measure, make_scorer, name)
    profiles = statistics.require_profiles("there is nobody to audit")
    groups = read_segments(segments, user_segments, profiles.users, subject.segments)
    check_flag("as_of", as_of)
    try:
        audited = choose_audited(subject, statistics, n_users, seed)
    except TooFewUsersError as lacking:
        return _small_audit(subject, profiles, lacking, seed)
    by = None if groups is None else Segments(groups, audited.users, subject.segments)
    days = window or subject.window
    run = _Run(subject, statistics, audited, n_users, seed, as_of, days, by)
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
    seed: int
    as_of: bool
    window: float | None
    segments: Segments | None
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """Of each table."""
    calendar: pl.DataFrame | None = None
    days: float | None = None
    reliability: ItemReliability | None = None
    tests: dict[str, NewUserTest] = field(default_factory=dict)
    """What new users received, by kind."""

    def __post_init__(self) -> None:
        self.interactions = self.statistics.interactions
        self.notes = [] if self.segments is None else self.segments.notes()
        self.skipped = list(self.audited.skipped)
        self.findings = profile_findings(self.interactions, self.seed)
        if self.audited.false:
            learned = f"users whom {self.subject.name} learned from"
            said = f"{self.audited.false}. Guarantees do not hold as declared."
            limits = learned if len(self.audited.learned_from) else ""
            self.findings.insert(0, Finding(said, limits))

    def measure(self) -> None:
        """Measure every section; what cannot be measured is said."""
        titles = [(self.subject.title(promise), promise) for promise in _promises()]
        then = titles if self.as_of else []
        sections: list[tuple[str, str, Callable[[], None]]] = [
            *(("new users", "New users are", partial(self.new_users, one)) for _, one in titles),
            (_ITEM_LEVEL, "Item-level guarantees are", self.item_level),
            *(
                ("point in time", f"{title} as of then is", partial(self.point_in_time, one))
                for title, one in then
            ),
            *(
                (_USER_LEVEL, f"The user-level {title} is", partial(self.user_level, one))
                for title, one in titles
            ),
            ("item probabilities", "Probabilities of items are", self.probabilities),
            ("groups", "Groups of users are", self.together),
            ("calendar", "The calendar is", self.over_calendar),
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
        """Say once that something is left out, and why."""
        reason = f"the{why[3:]}" if why.startswith("The ") else why
        said = f"{what} left out: {reason.rstrip('.')}."
        if said not in self.skipped:
            self.skipped.append(said)

    def cases(self, horizon: Horizon, users: NDArray[np.int64]) -> Cases:
        """Return the known and held-out parts of some users' histories."""
        try:
            found = profile_cases(self.interactions, horizon, min_known=self.subject.min_known)
        except InputError as error:
            raise _LeftOutError(str(error)) from error
        return found[np.isin(found.users, users)]

    def new_users(self, promise: Promise) -> None:
        """Fit on half of the users, and measure what the others receive: this decides."""
        subject, why = self.subject, ""
        if not subject.recipe.refits:
            why = f"{subject.name} comes fitted, and may have learned from them"
        elif subject.judge is not None:
            why = f"{subject.name} guarantees p-values of items, which are tested below"
        elif subject.of_the_fit:
            why = f"{subject.name} guarantees something to users of its fit alone"
        if why:
            raise _LeftOutError(why)
        cut: Cut = "score" if subject.comparable and "score" in promise.audited else "rank"
        kind = f"{promise.kind}-{cut}"
        self.tests[kind] = new_user_test(
            self.interactions,
            subject.recipe,
            promise=promise,
            horizon=subject.horizon(promise),
            cut=cut,
            max_users=self.n_users,
            min_known=subject.min_known,
            ties=self.statistics.ties,
            diagnose=promise.by_group,
            seed=self.seed,
        )
        name = f"{subject.title(promise)}, cut by {cut}"
        self.rows["coverage"] += new_user_rows(kind, name, self.tests[kind])

    def item_level(self) -> None:
        """Measure what p-values of items deliver, in time order and in random order."""
        subject, audited = self.subject, self.audited
        if not subject.item_level:
            raise _LeftOutError(f"{subject.name} has no p-values")
        for order in ("time", "random") if audited.has_times else ("random",):
            measured, p_values = observe_items(
                subject,
                audited.scorer,
                self.statistics,
                audited.users,
                order=order,
                seed=self.seed,
            )
            words = f"in {order} order"
            name = f"Item-level p-values, {words}"
            self.rows["coverage"] += coverage_rows(f"item-{order}", name, measured)
            if order == "time":
                self.add_groups("item-time", measured)
                if self.segments is not None:
                    self.rows["segments"] += self.segments.rows("item-time", measured)
            if p_values is not None:
                self.rows["drift"] += drift_rows(words, p_values, self.seed)
        if subject.judge is not None:
            self.skipped.append(
                f"{subject.name} scores no calibration items: no test of drift is made."
            )

    def user_level(self, promise: Promise) -> None:
        """Measure what user-level sets deliver to users who did not calibrate them."""
        subject, audited = self.subject, self.audited
        horizon, cuts = subject.horizon(promise), self.cuts(promise)
        outcomes = self.observed(horizon, audited.users, keep_candidates="score" in cuts)
        seen = None
        if len(audited.learned_from):
            seen = self.observed(horizon, audited.learned_from)
        for cut in cuts:
            kind = f"{promise.kind}-{cut}"
            name = f"User-level {subject.title(promise)}, cut by {cut}"
            measured = partial(measure_sets, outcomes, cut, promise, seed=self.seed)
            common = measured()
            self.rows["coverage"] += coverage_rows(kind, name, common)
            if seen is not None:
                used = measured(calibration=risk_curve(seen, cut, promise))
                used_name = f"{name}, calibrated on users it learned from"
                self.rows["coverage"] += coverage_rows(f"{kind}-as-used", used_name, used)
            if self.segments is not None:
                groups = self.segments.thresholds(outcomes.cases.users)
                theirs = common if groups is None else measured(groups=groups)
                self.rows["segments"] += self.segments.rows(kind, theirs)
            if promise.by_group:
                by_length = self.add_groups(kind, common)
                if len(by_length.names) > 1:
                    own = measured(groups=by_length.group_of)
                    self.rows["mondrian"] += mondrian_rows(kind, common, own, by_length)

    def cuts(self, promise: Promise) -> Sequence[Cut]:
        """Return how sets are cut; by rank alone where scores do not compare, or memory lacks."""
        n_users, n_items = len(self.audited.users), self.statistics.n_items
        why = "" if self.subject.comparable else "its scores do not compare between users"
        if not why and 4 * n_users * n_items > _MOST_SHARES:
            why = f"{n_users:,} users × {n_items:,} items need too much memory; audit fewer users"
        if not why or "score" not in promise.audited:
            return promise.audited
        self.leave_out("The cut by score is", why)
        return ("rank",)

    def observed(
        self, horizon: Horizon, users: NDArray[np.int64], *, keep_candidates: bool = False
    ) -> Outcomes:
        """Return where the scorer ranked what some users consumed next."""
        cases, recipe = self.cases(horizon, users), self.subject.recipe
        if len(cases) < FEWEST_USERS:
            raise _LeftOutError(
                f"only {len(cases)} users have {self.subject.min_known} known items and a horizon "
                f"of {horizon}"
            )
        scorer, fitted_on = self.audited.scorer, self.audited.fitted_on
        if self.subject.of_the_fit and recipe.refits:
            fitted_on = recipe.count(self.interactions.keeping(~cases.future_rows()))
            scorer = recipe.fit(fitted_on)
        doing = f"Held-out interactions, horizon {horizon}"
        return observe(scorer, fitted_on, cases, keep_candidates=keep_candidates, doing=doing)

    def point_in_time(self, promise: Promise) -> None:
        """Measure a guarantee where counts know nothing that others did later."""
        subject, audited, cuts = self.subject, self.audited, self.cuts(promise)
        if not audited.has_times or not audited.scorer.leaves_users_out:
            why = "may know these futures" if audited.has_times else "has no times"
            raise _LeftOutError(f"{subject.name} {why}")
        found = observe_as_of(
            subject.recipe,
            self.cases(subject.horizon(promise), audited.users),
            ties=self.statistics.ties,
            keep_candidates="score" in cuts,
        )
        if len(found.outcomes) < FEWEST_USERS:
            raise _LeftOutError(f"{len(found.outcomes)} users are too few")
        for cut in cuts:
            name = f"User-level {subject.title(promise)}, cut by {cut}, counted as of then"
            tested = measure_sets(found.outcomes, cut, promise, seed=self.seed)
            self.rows["coverage"] += coverage_rows(f"{promise.kind}-{cut}-as-of", name, tested)
        self.notes.append(f"{subject.title(promise).capitalize()} as of then: {found.in_words()}")

    def probabilities(self) -> None:
        """Measure whether items are consumed as often as is said of them."""
        cases = self.cases(self.subject.horizon(find_promise("miss-rate")), self.audited.users)
        scorer, known = self.audited.scorer, self.audited.fitted_on
        self.reliability = item_reliability(scorer, known, cases, seed=self.seed)

    def together(self) -> None:
        """Measure what guarantees to groups who choose together deliver."""
        scorer = self.audited.scorer
        if scorer.leaves_users_out is not True:
            raise _LeftOutError(f"nobody can be left out of {self.subject.name}")
        cases = self.cases(self.subject.horizon(find_promise("miss-rate")), self.audited.users)
        rows = list(together_rows(scorer, self.audited.fitted_on, cases, self.seed))
        if not rows:
            raise _LeftOutError("too few can be formed")
        self.rows["together"] += rows

    def over_calendar(self) -> None:
        """Test models of all ages in the latest windows, with the cut by rank."""
        if not self.audited.has_times:
            return
        days = self.window or default_window(self.interactions)
        calendar = Calendar(
            days,
            min_known=self.subject.min_known,
            n_users=self.n_users,
            ties=self.statistics.ties,
            seed=self.seed,
        )
        recipe = self.subject.recipe
        found = backtest(self.interactions, recipe, calendar, n_windows=_MOST_WINDOWS)
        # Below by more than chance in any of all the windows and levels.
        reach = float(stats.norm.ppf(1 - (1 - LEVEL) / found["window"].n_unique() / 2))
        error = (pl.col("loss_se") ** 2 + pl.col("calibration_se") ** 2).sqrt()
        found = found.with_columns(
            promised=1 - pl.col("epsilon"),
            delivered=1 - pl.col("loss"),
            below=pl.col("loss") - reach * error > pl.col("epsilon"),
        )
        self.calendar, self.days = found, days
        for age, model in enumerate(AGES):
            for epsilon in CHECKED_EPSILONS:
                part = found.filter(model=model, epsilon=epsilon)
                if not len(part):
                    continue
                size = None if part["size"].has_nulls() else float(part["size"].to_numpy().mean())
                self.rows["coverage"].append(
                    coverage_row(
                        f"calendar-{age}",
                        f"Over the calendar, {model}",
                        epsilon,
                        interval_over_windows(part["loss"]),
                        (size, float(part["floor"].to_numpy().max())),
                        len(part),
                        windows_below=int(part["below"].sum()),
                    )
                )

    def add_groups(self, kind: str, measured: MeasuredSets) -> Grouping:
        """Add what groups received; return those by known items."""
        found = groupings(measured, self.statistics, self.subject.groups)
        for grouping in found:
            if len(grouping.names) == 1:
                self.skipped.append(
                    f"{kind}: no groups by {grouping.by}, in which everything is alike."
                )
        findings = finding_groups(self.findings, measured.users, self.audited.users)
        for grouping in (*found, *findings):
            if len(grouping.names) > 1:
                self.rows["groups"] += group_rows(kind, measured, grouping)
        return found[0]

    def add_segment_findings(self) -> None:
        """Sort the table of segments, the guarantee's own kind first, and add what that shows."""
        rows = self.rows["segments"]
        if self.segments is None or not rows:
            return
        kinds = {row["kind"] for row in rows}
        order = self.subject.kind, *OF_SEGMENTS, *sorted(kinds)
        first = next(kind for kind in order if kind in kinds)
        rows.sort(key=lambda row: row["kind"] != first)
        self.findings += self.segments.findings([row for row in rows if row["kind"] == first])

    def result(self) -> Audit:
        """Draw the conclusions."""
        self.add_segment_findings()
        audited, coverage = self.audited, self.rows["coverage"]
        coverage.sort(key=lambda row: not row["kind"].endswith("-as-of"))  # before hindsight
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
            row["verdict"] = decided or of_row(row["promised"], row["low"], row["high"])
        frames = {
            name: pl.DataFrame(rows, infer_schema_length=None)
            for name, rows in self.rows.items()
            if rows
        }
        tests = list(self.tests.values())
        return Audit(
            data=self.interactions.name or "data without a name",
            subject=self.subject.name,
            overall=overall(verdicts, self.days, said, limits),
            verdicts=verdicts,
            calendar=self.calendar,
            skipped=self.skipped,
            settings={
                "n_users": len(audited.users),
                "n_splits": N_SPLITS,
                "horizon": self.subject.horizon(find_promise("miss-rate")),
                "hit_horizon": self.subject.horizon(find_promise("hit")),
                "window": self.days,
                "as_of": self.as_of,
                "seed": self.seed,
            },
            probabilities=None if self.reliability is None else self.reliability.groups,
            reliability=None if self.reliability is None else self.reliability.bins,
            support=tests[0].support if tests else None,
            ranking=tests[0].ranking if tests else None,
            known=known_of(self.interactions),
            notes=[*self.notes, _KNEW_LATER] if audited.has_times else self.notes,
            findings=[
                *(each.sentence for each in self.findings),
                *(sentence for test in tests for sentence in leak_findings(test)),
            ],
            **frames,
        )


def _small_audit(
    subject: AuditSubject, interactions: Interactions, lacking: TooFewUsersError, seed: int
) -> Audit:
    """Return what is known of data with too few users, and which guarantees can be given."""
    skipped, known = [], subject.min_known
    for promise in _promises():
        try:
            n = len(profile_cases(interactions, subject.horizon(promise), min_known=known))
        except InputError:
            n = 0
        given = "cannot be given"
        if n > 1:  # another user must calibrate
            given = f"can be given up to a confidence of {percent((n - 1) / n, 1)}"
        skipped.append(
            f"User-level {subject.title(promise)} {given}, as {counted(n, 'users')} with {known} "
            f"known items can calibrate it; a test needs {FEWEST_USERS}."
        )
    return Audit(
        data=interactions.name or "data without a name",
        subject=subject.name,
        overall=f"Whether guarantees hold cannot be tested here yet: {lacking.why}.",
        skipped=skipped,
        settings={"n_users": lacking.found, "n_lacking": lacking.lacking, "seed": seed},
        known=known_of(interactions),
        findings=[each.sentence for each in profile_findings(interactions, seed)],
    )
