"""From intervals to sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from surerec._shown import counted
from surerec.conformal import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


HEADLINE: Final = 0.1
"""The significance level that a sentence is about, unless another one fails."""

_TOO_WIDE: Final = 0.2
_DECIDES: Final = ("new-miss-score", "new-miss-rank", "miss-score", "miss-rank")
"""The user-level kinds, the first of which decides: what new users receive."""
_KEPT: Final = ("holds", "conservative", "holds in part")


class Verdict(NamedTuple):
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
    """Give the rows of a table that are about the headline's level."""
    return table.filter((pl.col("epsilon") - HEADLINE).abs() < TOLERANCE)


def of_row(promised: float, low: float, high: float) -> str:
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
    if high < promised:
        return "does not hold"
    if low > promised:
        return "conservative"
    return "cannot tell" if high - low > _TOO_WIDE else "holds"


def of_kind(
    rows: Sequence[Mapping[str, Any]], unsure: str = "", false: str = "", limits: str = ""
) -> Verdict:
    """Judge a kind by its rows, one for each ε: one level that fails is enough.

    `unsure` says why nothing can be told, and `false` why the guarantee does not hold, whatever the
    numbers are; `limits` names users for whom it need not hold although it does on these data.
    """
    states = [of_row(row["promised"], row["low"], row["high"]) for row in rows]
    about = min(rows, key=lambda row: abs(row["epsilon"] - HEADLINE))
    failed = [row for row, state in zip(rows, states, strict=True) if state == "does not hold"]
    weakest = max(rows, key=lambda row: row.get("windows_below") or 0)
    if unsure:
        verdict = "cannot tell"
    elif false:
        verdict = "does not hold"
    elif failed:
        verdict = "does not hold"
        if about not in failed:
            about = max(failed, key=lambda row: row["promised"] - row["delivered"])
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
    promise = f"{name}: promised {percent(about['promised'])}, delivered {with_interval(about)}"
    sentence = f"{promise}, of items new to the user: {_conclusion(verdict, row)}."
    return Verdict(str(about["kind"]), name, verdict, sentence, row)


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
        level = percent(weakest["promised"])
        return f"holds on average, but at {level} it falls short by more than chance {where}"
    return verdict


def overall(
    verdicts: Sequence[Verdict], window: float | None, false: str = "", limits: str = ""
) -> str:
    """Say in one or two sentences which guarantee to use; `false` and `limits` as in `of_kind`."""
    by_kind = {verdict.kind: verdict for verdict in verdicts}
    item = by_kind.get("item-time")
    user = next((by_kind[kind] for kind in _DECIDES if kind in by_kind), None)
    used = by_kind.get("miss-score-as-used") or by_kind.get("miss-rank-as-used")
    sentences = [f"{false}."] if false else []
    if false and used is not None:
        level = percent(used.row["promised"])
        sentences.append(
            f"Calibrated as declared, it delivers {with_interval(used.row)} of {level}; what "
            "follows was fitted without the users who calibrate and test it."
        )
    if item is not None:
        sentences.append(_item_sentence(item, user))
    elif user is not None:
        sentences.append(_alone(user))
    renewed = by_kind.get("calendar-1")
    if renewed is not None and window is not None:
        sentences.append(_calendar_sentence(renewed, by_kind.get("calendar-4"), window))
    if limits:
        sentences.append(f"None of this needs to hold for {limits}: see the findings.")
    return " ".join(sentences)


def _item_sentence(item: Verdict, user: Verdict | None) -> str:
    row = item.row
    said = (
        f"Of items new to the user, item-level p-values promise {percent(row['promised'])}, "
        f"deliver {with_interval(row)} in time order"
    )
    if user is None:
        return f"{said}: {_conclusion(item.verdict, row)}."
    # A level that is kept is compared with the same level of the other; one that fails is named.
    other = user.row["levels"].get(row["epsilon"], user.row) if user.kept else user.row
    users = f"delivers {with_interval(other)} of {percent(other['promised'])}"
    if item.verdict == "cannot tell":
        return f"{said}: {_conclusion(item.verdict, row)}; the user-level guarantee {users}."
    if item.kept and user.kept:
        return f"{said}: they hold here, and so does the user-level guarantee, which {users}."
    if user.kept:
        return f"{said}: use the user-level guarantee, which {users}."
    if item.kept:
        return f"{said}: use them; the user-level guarantee {users}, which is not what it promises."
    return f"{said}, and the user-level guarantee {users}: rely on neither here."


def _alone(user: Verdict) -> str:
    row = user.row
    return (
        "Of items new to the user, the user-level guarantee promises "
        f"{percent(row['promised'])}, delivers {with_interval(row)}: "
        f"{_conclusion(user.verdict, row)}."
    )


def _calendar_sentence(renewed: Verdict, old: Verdict | None, window: float) -> str:
    row = renewed.row
    said = (
        f"As the calendar moves on, recalibrating every {window:g} days delivers "
        f"{with_interval(row)} of {percent(row['promised'])}: {_conclusion(renewed.verdict, row)}"
    )
    if old is not None and old.row["epsilon"] == row["epsilon"]:
        said += f"; a model two windows old delivers {with_interval(old.row)}"
    return f"{said}."


def percent(share: float | None, digits: int | None = None) -> str:
    """Write a share as a percentage, with so many digits or as few as it takes.

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
    >>> falls_short({"promised": 0.9, "high": 0.88}), falls_short({"promised": 0.9, "high": None})
    (True, False)
    """
    return row["high"] is not None and bool(row["high"] < row["promised"])


def with_interval(row: Mapping[str, Any]) -> str:
    """Write what was delivered, with its interval.

    Examples
    --------
    >>> with_interval({"delivered": 0.871, "low": 0.8603, "high": 0.8821})
    '87.1 % [86.0–88.2]'
    """
    delivered = percent(row["delivered"], 1)
    if row["low"] is None or math.isnan(row["low"]):
        return delivered
    return f"{delivered} [{100 * row['low']:.1f}–{100 * row['high']:.1f}]"
