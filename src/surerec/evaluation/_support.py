"""Held-out items by how many other users consumed them: calibration users beside new users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy import stats

from surerec.calibration import codes_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cut, Outcomes
    from surerec.precedence import PrecedenceStatistics

OTHER_USERS: Final = ("0", "1", "2", "3–4", "5–9", "10–29", "30 or more")
"""The rows of the table, by the number of other users."""
MATERIAL: Final = 0.005
"""How much a row's gap must add to the miss over all items to be a leak."""

_BEGINS: Final = np.array([0, 1, 2, 3, 5, 10, 30])
_BEYOND: Final = float(stats.norm.ppf(1 - 0.025 / len(OTHER_USERS)))
"""Two standard errors for one row; so many for seven rows together (Bonferroni)."""
_K: Final = 10


@dataclass(frozen=True)
class HeldOut:
    """Held-out items of some users, and where a fitted model ranked them.

    Attributes
    ----------
    n_users, n_items : int
        How many users, and how many items of the fit.
    owners : array of int
        Whose each item is, ``0 … n_users − 1``.
    items : array of int
        Which item of the fit it is, ``0 … n_items − 1``; −1 for an unknown one.
    others : array of int
        How many other users of the fit consumed it.
    ranks, entries : array of float
        Its rank, and the threshold that lets it in; infinite where it is unknown.
    """

    n_users: int
    n_items: int
    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    others: NDArray[np.int64]
    ranks: NDArray[np.float64]
    entries: NDArray[np.float64]

    @classmethod
    def of(
        cls, outcomes: Outcomes, known: PrecedenceStatistics, cut: Cut, *, own: int = 0
    ) -> HeldOut:
        """Return the held-out items of outcomes.

        Parameters
        ----------
        outcomes : Outcomes
            Of users of the fit, or of others.
        known : PrecedenceStatistics
            What the scorer was fitted on.
        cut : {"rank", "score"}
            How sets are cut.
        own : {0, 1}, default=0
            How often each user's own items are counted there.
        """
        cases = outcomes.cases
        codes = codes_in(known, cases.interactions)[1]
        items = [codes[cases.future(case)] for case in range(len(cases))]
        flat = np.concatenate([np.empty(0, dtype=np.int64), *items])
        support = np.append(known.support.astype(np.int64), own)  # the last is of unknown ones
        return cls(
            len(cases),
            known.n_items,
            outcomes.owners,
            flat,
            support[flat] - own,
            outcomes.ranks,
            outcomes.entries(cut),
        )

    @classmethod
    def joined(cls, parts: Sequence[HeldOut], *, one_fit: bool = False) -> HeldOut:
        """Return the users of all parts together; items of several fits are kept apart."""
        users = np.cumsum([0, *(part.n_users for part in parts)])
        fits = np.cumsum([0, *(0 if one_fit else part.n_items for part in parts)])
        owners = [part.owners + begin for part, begin in zip(parts, users, strict=False)]
        items = [
            np.where(part.items < 0, -1, part.items + begin)
            for part, begin in zip(parts, fits, strict=False)
        ]
        return cls(
            int(users[-1]),
            max(int(fits[-1]), *(part.n_items for part in parts)),
            np.concatenate(owners),
            np.concatenate(items),
            np.concatenate([part.others for part in parts]),
            np.concatenate([part.ranks for part in parts]),
            np.concatenate([part.entries for part in parts]),
        )

    def missed(self, threshold: float) -> NDArray[np.bool_]:
        """Return which items are left out at a threshold; what is unknown always is."""
        return np.asarray((self.entries > threshold) | np.isinf(self.entries))

    def precisions(self) -> NDArray[np.float64]:
        """Return precision@10 of each user."""
        hits = np.bincount(self.owners[self.ranks <= _K], minlength=self.n_users)
        return hits / _K


def miss_by_support(found: Sequence[tuple[HeldOut, HeldOut, float]]) -> pl.DataFrame:
    """Compare what calibration users and new users miss, by the number of other users.

    A score that uses nothing of the user's own data ranks an item of a calibration user, who is
    left out, as it ranks an equally rare item of a new user. A row with a gap is a leak.

    Parameters
    ----------
    found : sequence of (HeldOut, HeldOut, float)
        For each split: calibration users, new users, and the threshold of sets.

    Returns
    -------
    polars.DataFrame
        ``other_users``; ``calibration`` and ``new``, the shares of items that are left out;
        ``gap``, new minus calibration, with its ``standard_error``, clustered by user and by item
        (Cameron, Gelbach and Miller, 2011), as one item's rank serves several users; ``share``, of
        new users' items that are in the row; ``n_calibration`` and ``n_new`` items; ``leak``,
        whether new users miss more, beyond two standard errors (adjusted for seven rows), and by
        so much that it adds 0.005 to the miss over all items.
    """
    calibration, new = (HeldOut.joined(part) for part in list(zip(*found, strict=True))[:2])
    missed = [
        np.concatenate([each[side].missed(each[2]) for each in found])  # type: ignore[union-attr]
        for side in (0, 1)
    ]
    rows = []
    for row, words in enumerate(OTHER_USERS):
        sides = [
            _clustered(side, np.searchsorted(_BEGINS, side.others, "right") - 1 == row, out)
            for side, out in zip((calibration, new), missed, strict=True)
        ]
        (before, before_error, n_before), (after, after_error, n_after) = sides
        gap, error = after - before, float(np.hypot(before_error, after_error))
        share = n_after / max(len(new.others), 1)
        rows.append(
            {
                "other_users": words,
                "calibration": before,
                "new": after,
                "gap": gap,
                "standard_error": error,
                "share": share,
                "n_calibration": n_before,
                "n_new": n_after,
                "leak": gap > _BEYOND * error and gap * share > MATERIAL,
            }
        )
    return pl.DataFrame(rows)


def _clustered(
    side: HeldOut, chosen: NDArray[np.bool_], missed: NDArray[np.bool_]
) -> tuple[float, float, int]:
    """Return the share of chosen items that is missed, its standard error, and their number."""
    owners, out = side.owners[chosen], missed[chosen]
    n = len(owners)
    if not n:
        return np.nan, np.nan, 0
    share = float(out.mean())
    rest = out.astype(np.float64) - share
    by_user, by_item = (_between(rest, of) for of in (owners, side.items[chosen]))
    both = by_user + by_item - float((rest**2).sum())
    return share, max(by_user, both) ** 0.5 / n, n  # NaN if there is one user


def _between(rest: NDArray[np.float64], clusters: NDArray[np.int64]) -> float:
    """Return the sum of squared sums of clusters, scaled for few of them; NaN for one."""
    _, of = np.unique(clusters, return_inverse=True)
    sums = np.bincount(of, weights=rest)
    return float((sums**2).sum() * len(sums) / (len(sums) - 1)) if len(sums) > 1 else np.nan


def ranking_rows(found: Sequence[tuple[HeldOut, HeldOut, float]]) -> list[dict[str, Any]]:
    """Compare the rankings of calibration users and new users, split by split.

    Precision@10 of both with the standard error of their difference; and of the calibration
    users' items that nobody else consumed the number, the share that is ranked at all, and the
    mean rank of those.
    """
    rows = []
    for split, (calibration, new, _) in enumerate(found):
        precisions = [side.precisions() for side in (calibration, new)]
        own = calibration.ranks[calibration.others <= 0]
        ranked = own[np.isfinite(own)]
        error = sum(each.var(ddof=1) / len(each) for each in precisions) ** 0.5
        rows.append(
            {
                "split": split,
                "precision@10 calibration": float(precisions[0].mean()),
                "precision@10 new": float(precisions[1].mean()),
                "standard_error": float(error),
                "own_only_items": len(own),
                "own_only_ranked": len(ranked) / len(own) if len(own) else 0.0,
                "own_only_mean_rank": float(ranked.mean()) if len(ranked) else None,
            }
        )
    return rows
