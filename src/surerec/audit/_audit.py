"""The audit: measures every kind of guarantee on held-out interactions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy import stats

from surerec._arguments import check_number, check_optional_text, check_random_state, check_whole
from surerec._progress import stage
from surerec.audit import _segments, _verdicts
from surerec.audit._items import drift_row, observe_items
from surerec.audit._profiles import Finding, data_notes, default_window, profile_findings
from surerec.audit._report import Audit
from surerec.audit._subject import AuditedUsers, AuditSubject, choose_audited, subject_of
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
from surerec.measures import PopularityScorer

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
_MOST_BYTES: Final = 1 << 30  # of all candidates' scores, which a score threshold needs
_MOST_WINDOWS: Final = 12
_LATER_DATA: Final = (
    "Per-user split: scores also used later interactions of other users, so sets are smaller than "
    "they would have been at the time. The temporal split uses no later data."
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
        Interactions, their precedence counts, or a fitted recommender. A recommender is audited
        with its own settings on its own data.
    measure : str or object, default="CM12"
        The measure to audit, if `data` is not a recommender: a name, or anything that
        :func:`surerec.measures.as_measure` accepts. The temporal split refits it for each
        window, on the data up to that date; it leaves out a scorer that comes fitted.
    name : str, optional
        Name of the audited measure or recommender in the report.
    n_users : int, default=1000
        Number of random users with 10 items or more. In each window of the temporal split, at
        most this many users calibrate and at most this many are tested.
    window : float, optional
        Length in days of the windows of the temporal split. By default the longest of several
        common lengths that gives six windows or more.
    segments : str or Segmentation, optional
        Report the nominal and observed level of each segment: the name of a column of
        `user_segments`, or the segments themselves. By default the segments that the recommender
        was fitted with.
    user_segments : mapping, pandas Series, frame or path, optional
        The data with the column `segments`; see :func:`surerec.interactions.read_user_segments`.
    random_state : int, default=0
        Seed of all random choices.

    Returns
    -------
    Audit
        Verdicts, findings and tables.

    Raises
    ------
    InputError
        If an argument is invalid, or fewer than 20 users have a history that is long enough.

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
    check_whole("n_users", n_users, lowest=_verdicts.FEWEST_USERS)
    check_random_state(random_state)
    check_optional_text("name", name)
    if window is not None:
        must = f"a number of days, from 1 to {_MOST_DAYS:,}"
        check_number("window", window, 1, _MOST_DAYS, must, ends=(True, True))
    statistics, subject = subject_of(data, measure, name)
    profiles = statistics.require_profiles("an audit needs users")
    found = _segments.read_segments(segments, user_segments, profiles.users, subject.segments)
    audited = choose_audited(subject, statistics, n_users, random_state)
    by = None if found is None else _segments.Segments(found, audited.users, subject.segments)
    days = window or subject.window
    run = _Run(subject, statistics, audited, n_users, random_state, days, by)
    run.measure()
    return run.result()


class _LeftOutError(InputError):
    """A section of the audit cannot be measured on these data."""


@dataclass
class _Run:
    """An audit in progress."""

    subject: AuditSubject
    statistics: PrecedenceStatistics
    audited: AuditedUsers
    n_users: int
    random_state: int
    window: float | None
    segments: _segments.Segments | None
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """The rows of each table."""
    windows: pl.DataFrame | None = None
    days: float | None = None
    tests: list[NewUserTest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interactions = self.statistics.interactions
        self.notes = data_notes(self.interactions)
        if self.audited.has_times:
            self.notes.append(_LATER_DATA)
        if self.segments is not None:
            self.notes += self.segments.notes()
        self.skipped = list(self.audited.skipped)
        self.findings = profile_findings(self.interactions, self.random_state)
        if self.audited.false:
            learned = f"users that {self.subject.name} was fitted on"
            sentence = f"{self.audited.false}. The guarantees do not hold as declared."
            limits = learned if len(self.audited.learned_from) else ""
            self.findings.insert(0, Finding(sentence, limits))

    def measure(self) -> None:
        """Measure every section, and record the sections that cannot be measured."""
        # The loss of a monotone guarantee never grows with the set.
        titles = [
            (self.subject.title(each), each) for each in GUARANTEE_KINDS.values() if each.monotone
        ]
        sections: list[tuple[str, str, Callable[[], None]]] = [
            *(("new users", "New users are", partial(self.new_users, one)) for _, one in titles),
            (_ITEM_LEVEL, "Item-level guarantees are", self.item_level),
            *(
                (_USER_LEVEL, f"The user-level {title} is", partial(self.user_level, one))
                for title, one in titles
            ),
            ("item probabilities", "Item probabilities are", self.probabilities),
            ("groups", "Groups of users are", self.group_guarantees),
            ("temporal split", "The temporal split is", self.over_time),
        ]
        for name, what, section in sections:
            # In these two sections, an error of the scorer ends the audit.
            expected = _LeftOutError if name in (_ITEM_LEVEL, _USER_LEVEL) else InputError
            with stage(name):
                try:
                    section()
                except expected as error:
                    self.leave_out(what, str(error))

    def leave_out(self, what: str, why: str) -> None:
        """Record once that a section is left out, and why."""
        reason = f"the{why[3:]}" if why.startswith("The ") else why
        sentence = f"{what} left out: {reason.rstrip('.')}."
        if sentence not in self.skipped:
            self.skipped.append(sentence)

    def cases(self, horizon: Horizon, users: NDArray[np.int64]) -> Cases:
        """Return the known and held-out parts of some users' histories."""
        try:
            found = profile_cases(self.interactions, horizon, min_history=self.subject.min_history)
        except InputError as error:
            raise _LeftOutError(str(error)) from error
        return found[np.isin(found.users, users)]

    def new_users(self, guarantee: GuaranteeKind) -> None:
        """Fit on half of the users and measure coverage on the others."""
        subject = self.subject
        for applies, why in (
            (not subject.measure.refits, "comes fitted, and may know the users"),
            (subject.model is not None, "has item-level p-values only, which are tested below"),
            (subject.fitted_users, "covers only users of its fit"),
        ):
            if applies:
                raise _LeftOutError(f"{subject.name} {why}")
        has_score = subject.comparable and "score" in guarantee.audited
        threshold: ThresholdUnit = "score" if has_score else "rank"
        test = new_user_test(
            self.interactions,
            subject.measure,
            guarantee=guarantee,
            horizon=subject.horizon(guarantee),
            threshold=threshold,
            max_users=self.n_users,
            min_history=subject.min_history,
            ties=self.statistics.ties,
            diagnose=guarantee.by_group,
            random_state=self.random_state,
        )
        name = f"{subject.title(guarantee)}, {threshold} threshold"
        self.tests.append(test)
        kind = f"{guarantee.name}-{threshold}"
        self.rows["coverage"] += _verdicts.new_user_rows(kind, name, test)

    def item_level(self) -> None:
        """Measure the coverage of item-level sets, in time order and in random order."""
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
            name = f"Item-level p-values, {order} order"
            self.rows["coverage"] += _verdicts.coverage_rows(f"item-{order}", name, measured)
            if order == "time":
                self.add_segments("item-time", measured, users, n_known)
            if online is not None:
                self.rows["drift"].append(drift_row(f"{order} order", online))
        if subject.model is not None:
            self.skipped.append(f"Drift is not tested: {subject.name} does not score known items.")

    def user_level(self, guarantee: GuaranteeKind) -> None:
        """Measure the coverage of user-level sets on users who did not calibrate them."""
        subject, audited = self.subject, self.audited
        horizon, units = subject.horizon(guarantee), self.threshold_units(guarantee)
        outcomes = self.observed(horizon, audited.users, keep_candidates="score" in units)
        baseline = self.observed(horizon, audited.users, popular=True)
        popular = measure_sets(baseline, "rank", guarantee, random_state=self.random_state)
        fitted = audited.learned_from
        seen = self.observed(horizon, fitted) if len(fitted) else None
        for threshold in units:
            kind = f"{guarantee.name}-{threshold}"
            name = f"User-level {subject.title(guarantee)}, {threshold} threshold"
            measured = partial(
                measure_sets, outcomes, threshold, guarantee, random_state=self.random_state
            )
            common = measured()
            self.rows["coverage"] += _verdicts.coverage_rows(kind, name, common, popular)
            if seen is not None:
                used = measured(calibration=risk_curve(seen, threshold, guarantee))
                used_name = f"{name}, calibrated on users of its fit"
                self.rows["coverage"] += _verdicts.coverage_rows(f"{kind}-as-used", used_name, used)
            users, by = outcomes.cases.users, self.segments
            segments = None if by is None else by.thresholds(users)
            own = common if segments is None else measured(groups=segments)
            n_known = outcomes.n_known if guarantee.by_group else None
            self.add_segments(kind, common, users, n_known, own)

    def threshold_units(self, guarantee: GuaranteeKind) -> Sequence[ThresholdUnit]:
        """Return the units of thresholds; only ranks if scores cannot be compared or held."""
        n_users, n_items = len(self.audited.users), self.statistics.n_items
        why = "" if self.subject.comparable else "its scores are not comparable between users"
        if not why and 4 * n_users * n_items > _MOST_BYTES:
            why = f"{n_users:,} users × {n_items:,} items need too much memory; audit fewer users"
        if not why or "score" not in guarantee.audited:
            return guarantee.audited
        self.leave_out("The score threshold is", why)
        return ("rank",)

    def observed(
        self,
        horizon: Horizon,
        users: NDArray[np.int64],
        *,
        keep_candidates: bool = False,
        popular: bool = False,
    ) -> Outcomes:
        """Return the ranks of the held-out items of some users, or their popularity ranks."""
        cases, measure = self.cases(horizon, users), self.subject.measure
        if len(cases) < _verdicts.FEWEST_USERS:
            known = f"{self.subject.min_history} known items"
            raise _LeftOutError(f"only {len(cases)} users have {known} and a horizon of {horizon}")
        scorer, fitted_on = self.audited.scorer, self.audited.fitted_on
        if self.subject.fitted_users and measure.refits:
            fitted_on = measure.count(self.interactions.keeping(~cases.future_rows()))
            scorer = scorer if popular else measure.fit(fitted_on)
        if popular:
            scorer = PopularityScorer(fitted_on, leave_out=scorer.leaves_users_out is True)
        doing = f"Held-out interactions, horizon {horizon}"
        return observe(scorer, fitted_on, cases, keep_candidates=keep_candidates, doing=doing)

    def probabilities(self) -> None:
        """Measure the reliability of item probabilities."""
        cases = self.cases(self.subject.horizon(find_guarantee("recall")), self.audited.users)
        scorer, known = self.audited.scorer, self.audited.fitted_on
        cases = cases[scorer.reaches(codes_in(known, cases.interactions)[0][cases.users])]
        half = next(halves(len(cases), 1, self.random_state))
        found = item_reliability(scorer, known, cases[half], cases[~half], self.random_state)
        self.rows["probabilities"] = found.to_dicts()

    def group_guarantees(self) -> None:
        """Measure the coverage of the sets of random groups."""
        scorer, fitted_on = self.audited.scorer, self.audited.fitted_on
        if scorer.leaves_users_out is not True:
            raise _LeftOutError(f"{self.subject.name} cannot leave users out of a score")
        cases = self.cases(self.subject.horizon(find_guarantee("recall")), self.audited.users)
        found = _segments.group_guarantee_rows(scorer, fitted_on, cases, self.random_state)
        self.rows["group_guarantees"] = list(found)
        if not self.rows["group_guarantees"]:
            raise _LeftOutError("there are too few users to form groups")

    def over_time(self) -> None:
        """Measure models of all ages in the latest windows, with a rank threshold."""
        if not self.audited.has_times:
            return
        days = self.window or default_window(self.interactions)
        split = TemporalSplit(
            days,
            min_history=self.subject.min_history,
            n_users=self.n_users,
            ties=self.statistics.ties,
            random_state=self.random_state,
        )
        measure = self.subject.measure
        found = backtest(self.interactions, measure, split, n_windows=_MOST_WINDOWS)
        # Adjusted for the number of windows and levels (Bonferroni).
        reach = float(stats.norm.ppf(1 - (1 - _verdicts.LEVEL) / found["window"].n_unique() / 2))
        error = (pl.col("loss_se") ** 2 + pl.col("calibration_se") ** 2).sqrt()
        found = found.with_columns(
            nominal=1 - pl.col("epsilon"),
            observed=1 - pl.col("loss"),
            below=pl.col("loss") - reach * error > pl.col("epsilon"),
        )
        self.windows, self.days = found, days
        for age, model in enumerate(AGES):
            ages = found.filter(model=model).group_by("epsilon", maintain_order=True)
            for (epsilon,), part in ages:
                size = None if part["size"].has_nulls() else float(part["size"].to_numpy().mean())
                row = _verdicts.coverage_row(
                    f"temporal-{age}",
                    f"Temporal split, {model}",
                    float(epsilon),
                    _verdicts.interval_over_windows(part["loss"]),
                    (size, float(part["floor"].to_numpy().max())),
                    len(part),
                    windows_below=int(part["below"].sum()),
                )
                self.rows["coverage"].append(row)

    def add_segments(
        self,
        kind: str,
        measured: MeasuredSets,
        users: NDArray[np.int64],
        n_known: NDArray[np.int64] | None,
        by_segment: MeasuredSets | None = None,
    ) -> None:
        """Add rows for the segments, for history lengths and for the users of findings."""
        if self.segments is not None:
            partition = self.segments.partition(users)
            self.rows["segments"] += _segments.segment_rows(kind, by_segment or measured, partition)
        if n_known is None:
            return
        by_length = _segments.by_history_length(n_known, self.subject.n_segments)
        if len(by_length.names) == 1:
            self.skipped.append(
                f"{kind}: no segments by history length, as all histories are equally long."
            )
        else:
            self.rows["segments"] += _segments.segment_rows(kind, measured, by_length)
        for partition in _segments.finding_segments(self.findings, users, self.audited.users):
            self.rows["segments"] += _segments.segment_rows(kind, measured, partition)

    def result(self) -> Audit:
        """Return the audit with its verdicts."""
        if self.segments is not None:
            self.findings += self.segments.findings(self.rows["segments"], self.subject.kind)
        audited, coverage = self.audited, self.rows["coverage"]
        kinds = defaultdict(list)
        for row in filter(_verdicts.is_guaranteed, coverage):
            kinds[row["kind"]].append(row)
        declared = audited.false.partition(":")[0]
        # A scorer that was fitted on half of the users is tested on the others.
        false = "" if len(audited.learned_from) else declared
        limits = " or ".join(each.limits for each in self.findings if each.limits)
        verdicts = [
            _verdicts.of_kind(rows, audited.unsure, false, limits) for rows in kinds.values()
        ]
        decided = "cannot tell" if audited.unsure else "does not hold" if false else ""
        for row in coverage:
            row["verdict"] = decided or _verdicts.of_row(row["nominal"], row["low"], row["high"])
        frames = {
            name: pl.DataFrame(rows, infer_schema_length=None)
            for name, rows in self.rows.items()
            if rows
        }
        return Audit(
            data=self.interactions.name or "unnamed data",
            subject=self.subject.name,
            overall=_verdicts.overall(verdicts, self.days, declared, limits),
            verdicts=verdicts,
            windows=self.windows,
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
                *(sentence for test in self.tests for sentence in _verdicts.leak_findings(test)),
            ],
            **frames,
        )
