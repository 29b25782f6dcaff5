"""The new-user test in an audit: its rows, and what a gap to the leave-one-out estimate means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from scipy import stats

from surerec.audit._measured import LEVEL
from surerec.audit._verdicts import percent
from surerec.evaluation import DIAGNOSED

if TYPE_CHECKING:
    from surerec.evaluation import NewUserTest

NEW: Final = "new-"
"""What the kinds of rows on new users begin with."""

_MATERIAL: Final = 0.01
"""Smaller differences are no finding, however sure they are."""
_FAR: Final = 3.0  # standard errors, as several differences are looked at
_LEAKS: Final = "something of a user's own data reaches their score"


def new_user_rows(kind: str, name: str, test: NewUserTest) -> list[dict[str, Any]]:
    """Return what new users were promised and received, a row for each ε.

    Below the floor there is no guarantee, hence no interval and no set size.
    """
    rows = []
    z = float(stats.norm.ppf((1 + LEVEL) / 2))
    for found in test.table().to_dicts():
        part = test.splits.filter(epsilon=found["epsilon"])
        reachable = found["observed"] is not None
        observed = found["observed"] if reachable else float(part["observed"].to_numpy().mean())
        reach = z * found["standard_error"] if reachable else float("nan")
        delivered = 1 - observed
        rows.append(
            {
                "kind": f"{NEW}{kind}",
                "name": f"New users: {name}",
                "epsilon": found["epsilon"],
                "promised": 1 - found["epsilon"],
                "delivered": delivered,
                "low": max(delivered - reach, 0.0) if reachable else reach,
                "high": min(delivered + reach, 1.0) if reachable else reach,
                "size": found["size"],
                "floor": found["floor"],
                "n": found["n_new"],
                "unit": "users",
                "windows_below": None,
            }
        )
    return rows


def is_guaranteed(row: dict[str, Any]) -> bool:
    """Return whether a row's ε is at least the floor; rows without one always count."""
    return not row["kind"].startswith(NEW) or row["size"] is not None


def leak_findings(test: NewUserTest) -> list[str]:
    """Return what differs between calibration users, who are left out, and new users."""
    found = [_gap(test), *_by_support(test), _precision(test)]
    return [sentence for sentence in found if sentence]


def _gap(test: NewUserTest) -> str:
    """Compare the leave-one-out estimate with the new-user test, at the ε that differs most."""
    beyond = [
        (row["observed"] - row["calibration"], row)
        for row in test.table().to_dicts()
        if row["observed"] is not None
    ]
    beyond = [each for each in beyond if each[0] > _least(each[1]["standard_error"])]
    if not beyond:
        return ""
    gap, row = max(beyond, key=lambda each: each[0])
    return (
        f"The leave-one-out estimate and the new-user test differ by {percent(gap, 1)} at "
        f"ε = {row['epsilon']:g} (standard error {percent(row['standard_error'], 1)}): new users "
        f"miss {percent(row['observed'], 1)}, so {_LEAKS}."
    )


def _least(error: float) -> float:
    """Return the smallest difference that is a finding."""
    return max(_FAR * error, _MATERIAL)


def _by_support(test: NewUserTest) -> list[str]:
    if test.support is None:
        return []
    return [
        f"Held-out items that {row['other_users']} other "
        f"{'user' if row['other_users'] == '1' else 'users'} consumed are missed by "
        f"{percent(row['calibration'], 1)} of the time for calibration users and "
        f"{percent(row['new'], 1)} for new users at ε = {DIAGNOSED:g}: {_LEAKS}."
        for row in test.support.filter("leak").to_dicts()
    ]


def _precision(test: NewUserTest) -> str:
    if test.ranking is None:
        return ""
    left_out, new = (
        float(test.ranking[f"precision@10 {side}"].to_numpy().mean())
        for side in ("calibration", "new")
    )
    error = float((test.ranking["standard_error"].to_numpy() ** 2).sum() ** 0.5) / len(test.ranking)
    if left_out - new <= _least(error):
        return ""
    return (
        f"Precision@10 is {left_out:.3f} for calibration users and {new:.3f} for new users "
        f"(standard error {error:.3f}): {_LEAKS}."
    )
