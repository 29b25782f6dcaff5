"""From losses to intervals, and from intervals to verdicts in words."""

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
"""The significance level that a sentence is about, unless another one fails."""
FEWEST_USERS: Final = 20
"""With fewer nothing is tested."""
LEVEL: Final = 1 - 0.05 / len(CHECKED_EPSILONS)
"""Of each interval, so that those of one kind hold together with 95% (Bonferroni)."""

NEW: Final = "new-"
"""What the kinds of rows on new users begin with."""

_TOO_WIDE: Final = 0.2
_DECIDES: Final = ("new-recall-score", "new-recall-rank", "recall-score", "recall-rank")
"""The user-level kinds, the first of which decides: what new users receive."""
_KEPT: Final = ("holds", "conservative", "holds in part")
_ADVICE: Final = {
    (True, True): "both hold here",
    (False, True): "use the user-level guarantee",
    (True, False): "use item-level p-values",
    (False, False): "rely on neither here",
}
"""By whether the item-level and the user-level guarantee are kept."""
_MATERIAL: Final = 0.01
"""Smaller differences between calibration users and new users are no finding."""
_FAR: Final = 3.0  # standard errors, as several differences are looked at
_LEAKS: Final = "something of a user's own data reaches their score"


def interval_over_users(losses: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the mean of 1 − loss, with its Wilson interval over users.

    Of a share between 0 and 1 no mean varies more than that of yes and no; how much less users vary
    here makes their number count for more. For the spread two users are made up, one who missed
    everything and one who missed nothing, so that a few who are all alike do not seem certain.

    Notes
    -----
    With hits, which are yes or no, it is the interval of Wilson (1927) with a t quantile.

    Examples
    --------
    >>> [round(value, 2) for value in interval_over_users(np.zeros(20))]
    [1.0, 0.71, 1.0]
    >>> [round(value, 3) for value in interval_over_users(np.arange(2000) % 10 == 0)]
    [0.9, 0.881, 0.916]
    """
    kept = 1 - np.asarray(losses, dtype=np.float64)
    if not kept.size:
        return np.nan, np.nan, np.nan
    mean = float(kept.mean())
    more = np.append(kept, [0.0, 1.0])
    varies = min(float(more.var(ddof=1) / (more.mean() * (1 - more.mean()))), 1.0)
    n = kept.size / varies
    z = float(stats.t.ppf((1 + level) / 2, kept.size + 1))
    shrunk = 1 + z**2 / n
    centre = (mean + z**2 / (2 * n)) / shrunk
    reach = z / shrunk * (max(mean * (1 - mean), 0.0) / n + z**2 / (4 * n**2)) ** 0.5
    # Rounding may put an end of a mean near 0 or 1 on the wrong side of it.
    low, high = min(max(centre - reach, 0.0), mean), max(min(centre + reach, 1.0), mean)
    return mean, low, high


def interval_over_windows(losses: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the mean of 1 − loss over windows, with its t interval; nan for a single window."""
    kept = 1 - np.asarray(losses, dtype=np.float64)
    mean = float(kept.mean())
    if kept.size == 1:
        return mean, np.nan, np.nan
    reach = float(stats.t.ppf((1 + level) / 2, kept.size - 1)) * kept.std(ddof=1) / kept.size**0.5
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
) -> dict[str, Any]:
    """Return a row of the table of coverage: what was promised and delivered at one ε."""
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
    }


def coverage_rows(kind: str, name: str, measured: MeasuredSets) -> list[dict[str, Any]]:
    """Return what the sets of one kind promised and delivered to users, a row for each ε."""
    n, found = len(measured.floor), enumerate(CHECKED_EPSILONS)
    return [
        coverage_row(
            kind,
            name,
            epsilon,
            interval_over_users(measured.losses[at]),
            measured.size_and_floor(at),
            n,
        )
        for at, epsilon in found
    ]


def new_user_rows(kind: str, name: str, test: NewUserTest) -> list[dict[str, Any]]:
    """Return what new users were promised and received, a row for each ε.

    Below the floor there is no guarantee, hence no interval and no set size.
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
    """Return whether a row's ε is at least the floor; rows without one always count."""
    return not row["kind"].startswith(NEW) or row["size"] is not None


class GuaranteeVerdict(NamedTuple):
    """The conclusion on one kind of guarantee."""

    kind: str
    name: str
    verdict: str
    """holds, conservative, holds in part, does not hold, or cannot tell."""
    sentence: str
    row: Mapping[str, Any]
    """The numbers that the sentence is about."""

    @property
    def kept(self) -> bool:
        """Whether the promise is kept, as far as this audit can tell."""
        return self.verdict in _KEPT


def at_headline(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table that are about the headline's level."""
    return table.filter((pl.col("epsilon") - HEADLINE).abs() < TOLERANCE)


def of_row(nominal: float, low: float, high: float) -> str:
    """Judge one level by the interval of what was delivered.

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
    """Judge a kind by its rows, one for each ε: one level that fails is enough.

    `unsure` says why nothing can be told, and `false` why the guarantee does not hold, whatever the
    numbers are; `limits` names users for whom it need not hold although it does on these data.
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
    guarantee = f"{name}: promised {percent(about['nominal'])}, delivered {with_interval(about)}"
    sentence = f"{guarantee}, of items new to the user: {_conclusion(verdict, row)}."
    return GuaranteeVerdict(str(about["kind"]), name, verdict, sentence, row)


def _conclusion(verdict: str, row: Mapping[str, Any]) -> str:
    if verdict == "conservative":
        return "holds, with larger sets than it would take"
    if verdict == "cannot tell":
        few = counted(row["n"], row["unit"])
        return row["unsure"] or f"{few} {'is' if row['n'] == 1 else 'are'} too few to tell"
    if verdict == "does not hold" and row["false"]:
        return f"does not hold, as {row['false']}"
    if verdict == "holds in part":
        weakest = row["weakest"]
        if not weakest.get("windows_below"):
            return f"holds for these users, but need not for {row['limits']}"
        where = f"in {weakest['windows_below']} of {counted(weakest['n'], 'windows')}"
        level = percent(weakest["nominal"])
        return f"holds on average, but at {level} it falls short by more than chance {where}"
    return verdict


def overall(
    verdicts: Sequence[GuaranteeVerdict],
    window: float | None,
    false: str = "",
    limits: str = "",
) -> str:
    """Return which guarantee to use, in a few sentences; `false`, `limits` as in `of_kind`."""
    by_kind = {verdict.kind: verdict for verdict in verdicts}
    item = by_kind.get("item-time")
    user = next((by_kind[kind] for kind in _DECIDES if kind in by_kind), None)
    used = by_kind.get("recall-score-as-used") or by_kind.get("recall-rank-as-used")
    sentences = [f"{false}."] if false else []
    if false and used is not None:
        sentences.append(
            f"Calibrated as declared, it delivers {_of(used.row)}; what follows was fitted without "
            "the users who calibrate and test it."
        )
    said, advice = [], ""
    if item is not None:
        said.append(f"item-level p-values deliver {_of(item.row)} in time order")
        advice = _conclusion(item.verdict, item.row)
    if user is not None:
        row = user.row
        if item is not None and user.kept:  # at the same level
            row = row["levels"].get(item.row["epsilon"], row)
        said.append(f"the user-level guarantee delivers {_of(row)}")
        if item is None:
            advice = _conclusion(user.verdict, row)
        elif item.verdict != "cannot tell":
            advice = _ADVICE[item.kept, user.kept]
    if said:
        sentences.append(f"Of items new to the user, {' and '.join(said)}: {advice}.")
    renewed, old = by_kind.get("calendar-1"), by_kind.get("calendar-4")
    if renewed is not None and window is not None:
        conclusion = _conclusion(renewed.verdict, renewed.row)
        two = f"; a model two windows old delivers {_of(old.row)}" if old is not None else ""
        sentences.append(
            f"Recalibrating every {window:g} days delivers {_of(renewed.row)}: {conclusion}{two}."
        )
    if limits:
        sentences.append(f"None of this needs to hold for {limits}: see the findings.")
    return " ".join(sentences)


def _of(row: Mapping[str, Any]) -> str:
    return f"{with_interval(row)} of {percent(row['nominal'])}"


def percent(share: float | None, digits: int | None = None) -> str:
    """Format a share as a percentage, with so many digits or as few as it takes.

    Examples
    --------
    >>> percent(0.9), percent(0.9, 1)
    ('90 %', '90.0 %')
    """
    if share is None or math.isnan(share):
        return "–"
    return f"{round(100 * share, 1):g} %" if digits is None else f"{100 * share:.{digits}f} %"


def falls_short(row: Mapping[str, Any]) -> bool:
    """Return whether the whole interval of a table's row lies below the nominal level.

    Examples
    --------
    >>> falls_short({"nominal": 0.9, "high": 0.88}), falls_short({"nominal": 0.9, "high": None})
    (True, False)
    """
    return row["high"] is not None and bool(row["high"] < row["nominal"])


def with_interval(row: Mapping[str, Any]) -> str:
    """Format what was delivered, with its interval.

    Examples
    --------
    >>> with_interval({"observed": 0.871, "low": 0.8603, "high": 0.8821})
    '87.1 % [86.0–88.2]'
    """
    observed = percent(row["observed"], 1)
    if row.get("low") is None or math.isnan(row["low"]):
        return observed
    return f"{observed} [{100 * row['low']:.1f}–{100 * row['high']:.1f}]"


def leak_findings(test: NewUserTest) -> list[str]:
    """Return what differs between calibration users, who are left out, and new users."""
    table = test.table().drop_nulls("observed")
    gap = pl.col("observed") - pl.col("calibration")
    least = pl.max_horizontal(_FAR * pl.col("standard_error"), pl.lit(_MATERIAL))
    found = [
        f"The leave-one-out estimate and the new-user test differ by {percent(row['gap'], 1)} at "
        f"ε = {row['epsilon']:g} (standard error {percent(row['standard_error'], 1)}): new users "
        f"miss {percent(row['observed'], 1)}, so {_LEAKS}."
        for row in table.with_columns(gap=gap).filter(gap > least).top_k(1, by="gap").to_dicts()
    ]
    if test.support is None:
        return found
    return found + [
        f"Held-out items that {row['other_users']} other "
        f"{'user' if row['other_users'] == '1' else 'users'} consumed are missed by "
        f"{percent(row['calibration'], 1)} of the time for calibration users and "
        f"{percent(row['new'], 1)} for new users at ε = {HEADLINE:g}: {_LEAKS}."
        for row in test.support.filter("leak").to_dicts()
    ]
