"""The engine of every test: cut sets at the threshold of some users, and see what others miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.calibration import find_promise
from surerec.conformal import TOLERANCE
from surerec.errors import InputError
from surerec.measures import as_recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Cut, Outcomes, Promise
    from surerec.conformal import RiskCurve
    from surerec.measures import Recipe, RecipeLike

CHECKED_EPSILONS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""The significance levels at which guarantees are checked."""
N_SPLITS: Final = 10
"""How many times users are halved; each half calibrates once and is tested once."""

_AT_ONCE: Final = 8
_Result = TypeVar("_Result")


def refittable(measure: RecipeLike) -> Recipe:
    """Return the recipe of a measure, or refuse what comes fitted: it may know what is tested."""
    recipe = as_recipe(measure)
    if not recipe.refits:
        raise InputError(
            f"The scorer {recipe.name} comes fitted and cannot be fitted on other data: pass what "
            "makes it from statistics, such as its class."
        )
    return recipe


def for_each(one: Callable[[int], _Result], users: Sequence[int], doing: str) -> list[_Result]:
    """Return what a function returns for each user, computed on all cores."""

    def some(start: int) -> list[_Result]:
        return [one(user) for user in users[start : start + _AT_ONCE]]

    found: list[_Result] = []
    with progress(doing, total=len(users), unit="users") as advance:
        for part in run_blocks(some, range(0, len(users), _AT_ONCE)):
            found += part
            advance(len(part))
    return found


def halves(n: int, n_splits: int = N_SPLITS, seed: int = 0) -> Iterator[NDArray[np.bool_]]:
    """Yield which of n users are tested: both halves of each random split, one after the other."""
    rng = np.random.default_rng(seed)
    for _ in range(n_splits):
        tests = rng.permutation(n) % 2 == 0
        yield tests
        yield ~tests


def risk_curve(outcomes: Outcomes, cut: Cut, promise: str | Promise = "miss-rate") -> RiskCurve:
    """Return the risk curve of all users of these outcomes."""
    entries = outcomes.entries(cut)
    return find_promise(promise).curve(entries, outcomes.owners, len(outcomes))


def losses_at(curve: RiskCurve, cut: float) -> NDArray[np.float64]:
    """Return what each user of a curve loses with a threshold; no set holds what is unknown.

    Examples
    --------
    >>> from surerec.conformal import RiskCurve
    >>> curve = RiskCurve.of_shares([1.0, 7.0, np.inf], [0, 0, 1], n_users=2)
    >>> losses_at(curve, 5.0).tolist(), losses_at(curve, np.inf).tolist()
    ([0.5, 1.0], [0.0, 1.0])
    """
    missed = (curve.entries > cut) | np.isinf(curve.entries)
    return np.bincount(
        curve.owners[missed], weights=curve.losses[missed], minlength=curve.n_users
    ).astype(np.float64)


class CutSets(NamedTuple):
    """Sets of tested users at the thresholds of others."""

    cuts: NDArray[np.float64]
    """For each ε."""
    losses: NDArray[np.float64]
    """For each ε and user, the share missed, or 1 where nothing hit."""
    sizes: NDArray[np.float64]
    """For each ε and user, the items in the set; NaN where ε is below the floor."""


def cut_sets(
    calibration: RiskCurve,
    tested: RiskCurve,
    outcomes: Outcomes,
    users: NDArray[np.intp],
    cut: Cut,
    epsilons: Sequence[float],
) -> CutSets:
    """Cut the sets of tested users at the thresholds of calibration users.

    Parameters
    ----------
    calibration, tested : RiskCurve
        Of the users who calibrate, and of those who are tested.
    outcomes : Outcomes
        That the tested users are part of, with all candidates' shares for a score cut.
    users : array of int
        Which of the outcomes' cases they are.
    cut : {"rank", "score"}
        What the entries are.
    epsilons : sequence of float
        The significance levels.
    """
    cuts = np.array([calibration.cut(epsilon) for epsilon in epsilons])
    losses = np.stack([losses_at(tested, at) for at in cuts])
    return CutSets(cuts, losses, np.stack([_sizes(outcomes, users, cut, at) for at in cuts]))


def _sizes(outcomes: Outcomes, users: NDArray[np.intp], cut: Cut, at: float) -> NDArray[np.float64]:
    if at == np.inf:  # no set supports ε: the size of the catalogue is no set size
        return np.full(len(users), np.nan)
    if cut == "rank":
        return np.minimum(outcomes.n_candidates[users].astype(np.float64), at)
    shares, bound = outcomes.candidate_shares, max(-at, 0.0)
    assert shares is not None  # noqa: S101  # kept for score cuts
    # By bisection, as shares fall: rows of a large catalogue are not copied for every level.
    low, high = np.zeros(len(users), dtype=np.int64), np.full(len(users), shares.shape[1])
    while (open_ := low < high).any():
        middle = (low + high) // 2
        inside = open_ & (shares[users, np.minimum(middle, shares.shape[1] - 1)] >= bound)
        low = np.where(inside, middle + 1, low)
        high = np.where(open_ & ~inside, middle, high)
    return low.astype(np.float64)


@dataclass(frozen=True)
class MeasuredSets:
    """What sets left out, for users u, their held-out items i, and the significance levels ε.

    Attributes
    ----------
    users : array of int, u
        Their codes.
    n_known : array of int, u
        How many of their items were known.
    owners, items : array of int, i
        Whose each held-out item is, as a place in `users`, and its code.
    missed : array of float, ε × i
        Whether the set left the item out; between 0 and 1 where several sets were tried.
    losses : array of float, ε × u
        What the guarantee is about: the share left out, or 1 where nothing hit.
    sizes : array of float, ε × u
        Items in the set; NaN where ε is below the floor.
    floor : float, or array of float, u
        The smallest ε that can be guaranteed, to everyone or to each user; 0 if nothing bounds it.
    """

    users: NDArray[np.int64]
    n_known: NDArray[np.int64]
    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    missed: NDArray[np.float64]
    losses: NDArray[np.float64]
    sizes: NDArray[np.float64]
    floor: float | NDArray[np.float64] = 0.0

    def size_and_floor(
        self, at: int, chosen: NDArray[np.bool_] | None = None
    ) -> tuple[float | None, float]:
        """Compute the mean size of some users' sets at one ε, None below the floor, and the floor.

        Of users with several thresholds the floor is the highest: the ε that all of them support.
        """
        mine = np.ones(len(self.users), dtype=bool) if chosen is None else chosen
        sizes, floors = self.sizes[at, mine], np.broadcast_to(self.floor, mine.shape)[mine]
        size = None if np.isnan(sizes).any() or not sizes.size else float(sizes.mean())
        return size, float(floors.max(initial=0.0))


def measure_sets(
    outcomes: Outcomes,
    cut: Cut,
    promise: str | Promise = "miss-rate",
    *,
    calibration: RiskCurve | None = None,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    groups: NDArray[np.int64] | None = None,
    n_splits: int = N_SPLITS,
    seed: int = 0,
) -> MeasuredSets:
    """Test users with the thresholds of others: given ones, or each random half with the other's.

    Parameters
    ----------
    outcomes : Outcomes
        Where the users' held-out items were ranked.
    cut : {"rank", "score"}
        How sets are cut.
    promise : str or Promise
        What a user loses.
    calibration : RiskCurve, optional
        Of the users who calibrate; by default each half of the users calibrates for the other.
    epsilons : sequence of float
        The significance levels.
    groups : array of int, optional
        Each user's group, to calibrate within groups: Mondrian thresholds.
    n_splits : int
        How many times users are halved; the means over the splits are returned.
    seed : int
        Of the halves.
    """
    whole, entries = risk_curve(outcomes, cut, promise), outcomes.entries(cut)
    n_users = len(outcomes)
    group_of = np.zeros(n_users, dtype=np.int64) if groups is None else groups
    losses, sizes = np.zeros((2, len(epsilons), n_users))
    missed, floors = np.zeros((len(epsilons), len(entries))), np.zeros(n_users)
    everyone = np.ones(n_users, dtype=bool)
    rounds = halves(n_users, n_splits, seed) if calibration is None else [everyone]
    for tests in rounds:
        for group in np.unique(group_of):
            mine = tests & (group_of == group)
            curve = calibration or whole.of_owners(~tests & (group_of == group))
            users, theirs = np.flatnonzero(mine), mine[outcomes.owners]
            found = cut_sets(curve, whole.of_owners(mine), outcomes, users, cut, epsilons)
            floors[users] = np.maximum(floors[users], curve.lowest_level())
            losses[:, users] += found.losses
            sizes[:, users] += found.sizes
            out = entries[theirs]
            missed[:, theirs] += (out > found.cuts[:, None]) | np.isinf(out)
    n = n_splits if calibration is None else 1
    return MeasuredSets(
        users=outcomes.cases.users,
        n_known=outcomes.n_known,
        owners=outcomes.owners,
        items=outcomes.items,
        missed=missed / n,
        losses=losses / n,
        sizes=sizes / n,
        floor=floors,
    )


def coverage_over_splits(
    outcomes: Outcomes,
    cut: Cut,
    promise: str | Promise = "miss-rate",
    *,
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    n_splits: int = 20,
    seed: int = 0,
) -> pl.DataFrame:
    """Calibrate on a random half of the users and test on the other, many times.

    Returns
    -------
    polars.DataFrame
        For each ε: ``loss`` (mean over test users and splits), ``loss_sd`` (over splits),
        ``size`` and ``cut``, the means, and ``floor``, the smallest ε that the calibration users
        of every split support. Below the floor the size is null.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.calibration import observe, profile_cases
    >>> from surerec.measures import MeasureScorer
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> counts = sr.count_precedence(films)
    >>> outcomes = observe(MeasureScorer(counts, "CM12"), counts, profile_cases(films, 0.4))
    >>> found = coverage_over_splits(outcomes, "rank", epsilons=[0.2])
    >>> abs(found["loss"].item() - 0.2) < 0.03
    True
    """
    whole = risk_curve(outcomes, cut, promise)
    rng = np.random.default_rng(seed)
    found, floors = [], []
    for _ in range(n_splits):
        calibrates = rng.permutation(len(outcomes)) < len(outcomes) // 2
        curves = whole.of_owners(calibrates), whole.of_owners(~calibrates)
        sets = cut_sets(*curves, outcomes, np.flatnonzero(~calibrates), cut, epsilons)
        found.append((sets.losses.mean(axis=1), sets.sizes.mean(axis=1), sets.cuts))
        floors.append(curves[0].lowest_level())
    losses, sizes, cuts = (np.stack(part) for part in zip(*found, strict=True))
    columns = {
        "epsilon": list(epsilons),
        "loss": losses.mean(axis=0),
        "loss_sd": losses.std(axis=0, ddof=1) if n_splits > 1 else None,
        "size": sizes.mean(axis=0),
        "cut": cuts.mean(axis=0),
    }
    frame = pl.DataFrame(columns).with_columns(floor=pl.lit(max(floors)))
    return frame.with_columns(pl.col("size").fill_nan(None))


def size_at_miss(
    outcomes: Outcomes, cut: Cut, miss: float, among: NDArray[np.bool_] | None = None
) -> float:
    """Compute the mean set size at which the mean miss rate of these users is `miss`.

    For comparing sizes alone: the threshold is chosen on the tested users, so nothing is
    guaranteed. NaN if `miss` is below the smallest ε that as many calibration users would support.

    Parameters
    ----------
    outcomes : Outcomes
        With all candidates' shares for a score cut.
    cut : {"rank", "score"}
        How sets are cut.
    miss : float
        The miss rate.
    among : array of bool, optional
        Which of the outcomes' cases; by default all.
    """
    chosen = np.ones(len(outcomes), dtype=bool) if among is None else among
    curve = risk_curve(outcomes, cut).of_owners(chosen)
    if miss + TOLERANCE < curve.lowest_level():
        return np.nan
    # Without the +1 of a guarantee: (loss + 1) / (n + 1) at this level is a loss of n · miss.
    level = (miss * curve.n_users + 1) / (curve.n_users + 1)
    found = cut_sets(curve, curve, outcomes, np.flatnonzero(chosen), cut, [level])
    return float(found.sizes.mean())
