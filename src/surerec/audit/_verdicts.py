"""Confidence intervals of the observed coverage, and the verdicts that follow from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from surerec._words import counted
from surerec.conformal import TOLERANCE
from surerec.evaluation import CHECKED_EPSILONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from surerec.evaluation import MeasuredSets, NewUserTest

HEADLINE: Final = 0.1
"""The significance level that a verdict reports, unless another level fails."""
FEWEST_USERS: Final = 20
"""The smallest number of users that is tested."""
LEVEL: Final = 1 - 0.05 / len(CHECKED_EPSILONS)
"""Level of each interval: the intervals of one kind hold jointly with 95% (Bonferroni)."""

NEW: Final = "new-"
"""Prefix of the kinds that the new-user test measures."""

_TOO_WIDE: Final = 0.2
_DECISIVE: Final = ("new-recall-score", "new-recall-rank", "recall-score", "recall-rank")
"""The user-level kinds, in order: the first that was measured decides."""
_KEPT: Final = ("holds", "conservative", "holds in part")
_ADVICE: Final = {
    (True, True): "both hold here",
    (False, True): "use the user-level guarantee",
    (True, False): "use item-level p-values",
    (False, False): "rely on neither here",
}
"""Advice, by whether the item-level and the user-level guarantee hold."""
_MATERIAL: Final = 0.01
"""The smallest difference between calibration users and new users that is reported."""
_FAR: Final = 3.0  # standard errors: several differences are tested
_LEAKS: Final = "a user's own data leak into their score"


def interval_over_users(losses: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the mean of 1 − loss, with its Wilson interval over users.

    The sample size is scaled by the variance of a yes/no loss over the observed variance.
    The variance includes two synthetic users, with losses 0 and 1, so that a few identical users
    do not give a zero-width interval.

    Notes
    -----
    For a yes/no loss it is the interval of Wilson (1927) with a t quantile.

    Examples
    --------
    >>> [round(value, 2) for value in interval_over_users(np.zeros(20))]
    [1.0, 0.71, 1.0]
    >>> [round(value, 3) for value in interval_over_users(np.arange(2000) % 10 == 0)]
    [0.9, 0.881, 0.916]
    """
    coverage = 1 - np.asarray(losses, dtype=np.float64)
    if not coverage.size:
        return np.nan, np.nan, np.nan
    mean = float(coverage.mean())
    more = np.append(coverage, [0.0, 1.0])
    varies = min(float(more.var(ddof=1) / (more.mean() * (1 - more.mean()))), 1.0)
    n = coverage.size / varies
    z = float(stats.t.ppf((1 + level) / 2, coverage.size + 1))
    shrunk = 1 + z**2 / n
    centre = (mean + z**2 / (2 * n)) / shrunk
    reach = z / shrunk * (max(mean * (1 - mean), 0.0) / n + z**2 / (4 * n**2)) ** 0.5
    # Rounding can put an end of the interval on the wrong side of a mean near 0 or 1.
    low, high = min(max(centre - reach, 0.0), mean), max(min(centre + reach, 1.0), mean)
    return mean, low, high


def interval_over_windows(losses: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the mean of 1 − loss over windows, with its t interval; nan for a single window."""
    coverage = 1 - np.asarray(losses, dtype=np.float64)
    mean = float(coverage.mean())
    if coverage.size == 1:
        return mean, np.nan, np.nan
    error = coverage.std(ddof=1) / coverage.size**0.5
    reach = float(stats.t.ppf((1 + level) / 2, coverage.size - 1)) * error
    return mean, max(mean - reach, 0.0), min(mean + reach, 1.0)


def coverage_row(
    kind: str,
    name: str,
    epsilon: float,
    interval: tuple[float, float, float],
    size_and_floor: tuple[float | None, float],
    n: int,
    *,
    windows_below: int | None = None,
    popularity: float | None = None,
) -> dict[str, Any]:
    """Return one row of the coverage table: the nominal and observed level at one ε.

    `popularity` is the mean set size of popularity at the same guarantee.
    """
    return {
        "kind": kind,
        "name": name,
        "epsilon": epsilon,
        "nominal": 1 - epsilon,
        **dict(zip(("observed", "low", "high"), interval, strict=True)),
        **dict(zip(("size", "floor"), size_and_floor, strict=True)),
        "n": n,
        "unit": "users" if windows_below is None else "windows",
        "windows_below": windows_below,
        "popularity": popularity,
    }


def coverage_rows(
    kind: str, name: str, measured: MeasuredSets, popular: MeasuredSets | None = None
) -> list[dict[str, Any]]:
    """Return the nominal and observed level of one kind of set, one row per ε."""
    n, found = len(measured.floor), enumerate(CHECKED_EPSILONS)
    return [
        coverage_row(
            kind,
            name,
            epsilon,
            interval_over_users(measured.losses[at]),
            measured.size_and_floor(at),
            n,
            popularity=None if popular is None else popular.size_and_floor(at)[0],
        )
        for at, epsilon in found
    ]


def new_user_rows(kind: str, name: str, test: NewUserTest) -> list[dict[str, Any]]:
    """Return the nominal and observed level for new users, one row per ε.

    Below the floor there is no guarantee, and the row has no interval and no set size.
    """
    z = float(stats.norm.ppf((1 + LEVEL) / 2))
    rows = []
    for found in test.table().to_dicts():
        if found["observed"] is None:
            part = test.splits.filter(epsilon=found["epsilon"])
            interval = 1 - float(part["observed"].to_numpy().mean()), np.nan, np.nan
        else:
            observed, reach = 1 - found["observed"], z * found["standard_error"]
            interval = observed, max(observed - reach, 0.0), min(observed + reach, 1.0)
        size = found["size"], found["floor"]
        new = f"{NEW}{kind}", f"New users: {name}", found["epsilon"]
        rows.append(coverage_row(*new, interval, size, found["n_new"]))
    return rows


def is_guaranteed(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a guarantee: its ε is at least the floor, if it has a floor."""
    return not row["kind"].startswith(NEW) or row["size"] is not None


class GuaranteeVerdict(NamedTuple):
    """The verdict on one kind of guarantee."""

    kind: str
    name: str
    verdict: str
    """holds, conservative, holds in part, does not hold, or cannot tell."""
    sentence: str
    row: Mapping[str, Any]
    """The numbers that the sentence reports."""

    @property
    def text(self) -> str:
        """The sentence without the name."""
        text = self.sentence.removeprefix(f"{self.name}: ")
        return text[:1].upper() + text[1:]

    @property
    def kept(self) -> bool:
        """Whether the guarantee holds, as far as this audit can tell."""
        return self.verdict in _KEPT


def at_headline(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table at the headline significance level."""
    return table.filter((pl.col("epsilon") - HEADLINE).abs() < TOLERANCE)


def of_row(nominal: float, low: float, high: float) -> str:
    """Return the verdict on one level, given the interval of the observed coverage.

    Examples
    --------
    >>> of_row(0.9, 0.86, 0.88), of_row(0.9, 0.88, 0.91), of_row(0.9, 0.92, 0.95)
    ('does not hold', 'holds', 'conservative')
    >>> of_row(0.9, 0.75, 0.99)
    'cannot tell'
    """
    if math.isnan(low) or math.isnan(high):
        return "cannot tell"
    if high < nominal:
        return "does not hold"
    if low > nominal:
        return "conservative"
    return "cannot tell" if high - low > _TOO_WIDE else "holds"


def of_kind(
    rows: Sequence[Mapping[str, Any]], unsure: str = "", false: str = "", limits: str = ""
) -> GuaranteeVerdict:
    """Return the verdict on one kind of guarantee; it fails if one level fails.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of the coverage table, one per ε.
    unsure : str
        Why no verdict is possible; empty if one is.
    false : str
        Why the guarantee does not hold, whatever the numbers are; empty without such a reason.
    limits : str
        Users for whom the guarantee may fail although it holds on these data.
    """
    states = [of_row(row["nominal"], row["low"], row["high"]) for row in rows]
    about = min(rows, key=lambda row: abs(row["epsilon"] - HEADLINE))
    failed = [row for row, state in zip(rows, states, strict=True) if state == "does not hold"]
    weakest = max(rows, key=lambda row: row.get("windows_below") or 0)
    if unsure or false:
        verdict = "cannot tell" if unsure else "does not hold"
    elif failed:
        verdict = "does not hold"
        if about not in failed:
            about = max(failed, key=lambda row: row["nominal"] - row["observed"])
    elif states[rows.index(about)] == "cannot tell":
        verdict = "cannot tell"
    elif weakest.get("windows_below") or limits:
        verdict = "holds in part"
    else:
        conservative = states.count("conservative")
        verdict = "conservative" if 2 * conservative > len(states) else "holds"
    name = str(about["name"])
    row = {**about, "weakest": weakest, "levels": {row["epsilon"]: row for row in rows}}
    row |= {"unsure": unsure, "false": false, "limits": limits}
    levels = f"nominal {percent(about['nominal'])}, observed {with_interval(about)}"
    sentence = f"{name}: {levels}, over items new to the user: {_conclusion(verdict, row)}."
    return GuaranteeVerdict(str(about["kind"]), name, verdict, sentence, row)


def _conclusion(verdict: str, row: Mapping[str, Any]) -> str:
    if verdict == "conservative":
        return "holds, with larger sets than needed"
    if verdict == "cannot tell":
        few = counted(row["n"], row["unit"])
        return row["unsure"] or f"{few} {'is' if row['n'] == 1 else 'are'} too few to tell"
    if verdict == "does not hold" and row["false"]:
        return f"does not hold, because {row['false']}"
    if verdict == "holds in part":
        weakest = row["weakest"]
        if not weakest.get("windows_below"):
            return f"holds for these users, but may fail for {row['limits']}"
        where = f"in {weakest['windows_below']} of {counted(weakest['n'], 'windows')}"
        level = percent(weakest["nominal"])
        return f"holds on average, but is significantly below {level} {where}"
    return verdict


def overall(
    verdicts: Sequence[GuaranteeVerdict], window: float | None, false: str = "", limits: str = ""
) -> str:
    """Return a summary that recommends a guarantee; for `false` and `limits` see `of_kind`."""
    by_kind = {verdict.kind: verdict for verdict in verdicts}
    item = by_kind.get("item-time")
    user = next((by_kind[kind] for kind in _DECISIVE if kind in by_kind), None)
    used = by_kind.get("recall-score-as-used") or by_kind.get("recall-rank-as-used")
    sentences = [f"{false}."] if false else []
    if false and used is not None:
        sentences.append(
            f"Calibrated as declared: {_levels(used.row)}. The results below come from a fit "
            "without the users who calibrate and test it."
        )
    parts, advice = [], ""
    if item is not None:
        parts.append(f"item-level p-values in time order have {_levels(item.row)}")
        advice = _conclusion(item.verdict, item.row)
    if user is not None:
        row = user.row
        if item is not None and user.kept:  # compare at the same level
            row = row["levels"].get(item.row["epsilon"], row)
        parts.append(f"the user-level guarantee has {_levels(row)}")
        if item is None:
            advice = _conclusion(user.verdict, row)
        elif item.verdict != "cannot tell":
            advice = _ADVICE[item.kept, user.kept]
    if parts:
        sentences.append(f"Over items new to the user, {' and '.join(parts)}: {advice}.")
    fresh, old = by_kind.get("temporal-1"), by_kind.get("temporal-4")
    if fresh is not None and window is not None:
        conclusion = _conclusion(fresh.verdict, fresh.row)
        aged = f" A model two windows old has {_levels(old.row)}." if old is not None else ""
        sentences.append(
            f"Recalibrated every {window:g} days, it has {_levels(fresh.row)}: {conclusion}.{aged}"
        )
    if limits:
        sentences.append(f"All of this may fail for {limits}: see the findings.")
    return " ".join(sentences)


def _levels(row: Mapping[str, Any]) -> str:
    return f"{with_interval(row)} observed ({percent(row['nominal'])} nominal)"


def percent(share: float | None, digits: int | None = None) -> str:
    """Format a share as a percentage, with `digits` decimals or as few as needed.

    Examples
    --------
    >>> percent(0.9), percent(0.9, 1)
    ('90%', '90.0%')
    """
    if share is None or math.isnan(share):
        return "–"
    return f"{round(100 * share, 1):g}%" if digits is None else f"{100 * share:.{digits}f}%"


def falls_short(row: Mapping[str, Any]) -> bool:
    """Return whether the whole interval of a table's row lies below the nominal level.

    Examples
    --------
    >>> falls_short({"nominal": 0.9, "high": 0.88}), falls_short({"nominal": 0.9, "high": None})
    (True, False)
    """
    return row["high"] is not None and bool(row["high"] < row["nominal"])


def with_interval(row: Mapping[str, Any]) -> str:
    """Format the observed level with its interval.

    Examples
    --------
    >>> with_interval({"observed": 0.871, "low": 0.8603, "high": 0.8821})
    '87.1% [86.0–88.2]'
    """
    observed = percent(row["observed"], 1)
    if row.get("low") is None or math.isnan(row["low"]):
        return observed
    return f"{observed} [{100 * row['low']:.1f}–{100 * row['high']:.1f}]"


def leak_findings(test: NewUserTest) -> list[str]:
    """Return the significant differences between calibration users and new users."""
    table = test.table().drop_nulls("observed")
    gap = pl.col("observed") - pl.col("calibration")
    least = pl.max_horizontal(_FAR * pl.col("standard_error"), pl.lit(_MATERIAL))
    found = [
        f"Recall of new users is {percent(1 - row['observed'], 1)} at ε = {row['epsilon']:g}, "
        f"{percent(row['gap'], 1)} below the leave-one-out estimate (standard error "
        f"{percent(row['standard_error'], 1)}): {_LEAKS}."
        for row in table.with_columns(gap=gap).filter(gap > least).top_k(1, by="gap").to_dicts()
    ]
    if test.support is None:
        return found
    return found + [
        f"Recall of held-out items that {row['other_users']} other "
        f"{'user' if row['other_users'] == '1' else 'users'} consumed is "
        f"{percent(1 - row['calibration'], 1)} for calibration users and "
        f"{percent(1 - row['new'], 1)} for new users at ε = {HEADLINE:g}: {_LEAKS}."
        for row in test.support.filter("leak").to_dicts()
    ]
