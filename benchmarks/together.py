"""Whether promises to groups hold: ``python -m benchmarks.together [ml-1m …]``.

Groups are formed over all users from the known parts of their profiles (random, and similar), and
divided at random into halves, 40 times: one half calibrates, the other is served. Members are
scored once, and every division uses the same ranks. With ``--given FOLDER`` real groups instead:
their own held-out items, by matrix factorisation of what groups and members took (see `given`).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import surerec as sr
from surerec.conformal import RiskCurve
from surerec.futures import profile_cases
from surerec.measures import as_recipe
from surerec.together import (
    AGGREGATIONS,
    FORMED,
    GROUP_PROMISES,
    form_groups,
    observe_groups,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILONS = (0.1, 0.2, 0.3)
SIZES = (2, 4, 8)
BELOW = 0.01


def divided(curve: RiskCurve, epsilon: float, n_splits: int) -> tuple[float, float, float]:
    """Give what the other halves lost on average, the mean cut, and how many calibrated."""
    lost, cuts = [], []
    n = curve.n_users
    for split in range(n_splits):
        half = np.random.default_rng(split).permutation(n) < n // 2
        cut, rest = curve.of_owners(half).cut(epsilon), curve.of_owners(~half)
        lost.append(rest.losses[rest.entries > cut].sum() / rest.n_users)
        cuts.append(cut)
    return float(np.mean(lost)), float(np.mean(cuts)), n // 2


def verdict(lost: float, cut: float, epsilon: float, n: int) -> str:
    """Say whether the loss lies where the promise has it; a list cannot be shorter than one."""
    if lost > epsilon + BELOW:
        return " NOT MET"
    if lost >= epsilon - 2 / (n + 1) - BELOW:
        return ""
    return " (ranks are too coarse)" if cut < 1 / BELOW else " NOT MET"


def made(name: str, measure: str, horizon: float, n_splits: int) -> None:
    """Print the tables of one data set."""
    films = sr.load_dataset(name)
    statistics = sr.count_precedence(films)
    scorer = as_recipe(measure).fit(statistics)
    cases = profile_cases(films, horizon)
    print(f"\n## {films!r}, {scorer.name}, horizon {horizon}, {n_splits} divisions\n")
    print("| groups | promise | by | n | left out | ε: lost / items |\n|---|---|---|---|---|---|")
    for size in SIZES:
        for formed in FORMED:
            groups = form_groups(cases, size, formed, scorer.fold_of(cases.users), 0)
            found = observe_groups(scorer, statistics, cases, groups, *AGGREGATIONS.values())
            alone = RiskCurve.of_shares(
                found[0].own_ranks,
                np.unique(found[0].owners * size + found[0].places, return_inverse=True)[1],
                len(np.unique(found[0].owners * size + found[0].places)),
            )
            cells = [f"{e:g}: {divided(alone, e, n_splits)[1]:,.0f}" for e in EPSILONS]
            print(f"| {size} {formed} | a member alone | | | | {', '.join(cells)} |")
            for promise in GROUP_PROMISES.values():
                if size > promise.largest:
                    continue
                for aggregation, outcomes in zip(AGGREGATIONS, found, strict=True):
                    curve, units = promise.curve_of(outcomes)
                    cells = []
                    for epsilon in EPSILONS:
                        lost, cut, n = divided(curve, epsilon, n_splits)
                        said = verdict(lost, cut, epsilon, n)
                        cells.append(f"{epsilon:g}: {lost:.3f} / {cut:,.1f}{said}")
                    left_out = len(outcomes) - len(units)
                    print(
                        f"| {size} {formed} | {promise.name} | {aggregation} | {len(units) // 2:,} "
                        f"| {left_out:,} | {', '.join(cells)} |",
                        flush=True,
                    )


def _rows(path: Path) -> NDArray[np.int64]:
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    return np.array([(int(line[0]), int(line[1])) for line in lines])


def _ranks(
    scores: NDArray[np.float64], taken: NDArray[np.int64], popularity: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Rank all items but those that the group took itself; infinite for these."""
    scores = scores.astype(np.float64)
    scores[taken] = -np.inf
    ranks = np.empty(len(scores))
    ranks[np.lexsort((popularity, -scores))] = np.arange(1, len(scores) + 1)
    ranks[taken] = np.inf
    return ranks


def given(folder: Path, n_splits: int, factors: int) -> None:
    """Print the table of real groups: their held-out items, ranked by ALS or by popularity.

    There are no times, so ALS (implicit) is trained on the training rows of users and of groups,
    each a row of the matrix; the held-out rows of no group are in it, so that groups that calibrate
    and groups that are served are treated alike. A group is ranked by its own row ("group"), by
    the members' rows together (as in `AGGREGATIONS`), or by all that group and members took in one
    profile ("joint-profile"). Candidates are items that the group has not taken itself: a group may
    take what a member took alone. Items that nobody took in training are unknown: such test rows
    are counted and left out.
    """
    from implicit.als import AlternatingLeastSquares  # noqa: PLC0415
    from scipy.sparse import csr_matrix  # noqa: PLC0415

    lines = (folder / "groupMember.txt").read_text().splitlines()
    split = [line.split() for line in lines if line.strip()]
    members = {int(group): [int(m) for m in names.split(",")] for group, names in split}
    users, taken = _rows(folder / "userRatingTrain.txt"), _rows(folder / "groupRatingTrain.txt")
    test = _rows(folder / "groupRatingTest.txt")
    known_rows = set(map(tuple, taken.tolist()))
    new = np.array(
        [row for row in dict.fromkeys(map(tuple, test.tolist())) if row not in known_rows]
    )
    n_items = int(max(users[:, 1].max(), taken[:, 1].max(), test[:, 1].max())) + 1
    n_users = 1 + max(int(users[:, 0].max()), *(max(who) for who in members.values()))
    n_groups = max(members) + 1
    rows = np.concatenate((users[:, 0], n_users + taken[:, 0]))
    columns = np.concatenate((users[:, 1], taken[:, 1]))
    shape = (n_users + n_groups, n_items)
    matrix = csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
    matrix.data[:] = 1
    support = np.asarray(matrix.sum(axis=0)).ravel()
    popularity = np.argsort(np.argsort(-support, kind="stable"))
    is_known = support[new[:, 1]] > 0
    tested = new[is_known]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of BLAS
        model = AlternatingLeastSquares(factors, regularization=1.0, random_state=0)
    model.fit(matrix, show_progress=False)
    sizes = [len(m) for m in members.values()]
    print(f"\n## {folder.name}: {len(members):,} groups of {np.mean(sizes):.1f}, {n_items:,} items")
    print(
        f"{len(test):,} test rows, {len(new):,} not in training, {len(tested):,} of known items, "
        f"in {len(np.unique(tested[:, 0])):,} groups; ALS of {factors} factors\n"
    )
    item_factors = np.asarray(model.item_factors)
    entries: dict[str, list[float]] = {}
    for group, item in tested.tolist():
        own = matrix[n_users + group].indices
        who = [member for member in members[group] if matrix[member].nnz]
        together = matrix[[n_users + group, *who]].sum(axis=0)
        joint = csr_matrix((np.asarray(together) > 0).astype(np.float32))
        folded = np.asarray(model.recalculate_user(np.zeros(1, int), joint)).reshape(-1)
        found = {
            "popularity": _ranks(support, own, popularity),
            "group": _ranks(item_factors @ model.user_factors[n_users + group], own, popularity),
            "joint-profile": _ranks(item_factors @ folded, own, popularity),
        }
        rows_of = [n_users + group, *who]  # the group's own row speaks as a member does
        each = np.stack(
            [_ranks(item_factors @ model.user_factors[r], own, popularity) for r in rows_of]
        )
        outside = np.isfinite(each[0])
        for name in ("average", "least-misery", "most-pleasure"):
            values = 1 - np.log(each[:, outside]) / np.log(outside.sum())
            scores = np.full(n_items, -np.inf)
            scores[outside] = AGGREGATIONS[name].score(values)
            found[name] = _ranks(scores, own, popularity)
        for name, ranks in found.items():
            entries.setdefault(name, []).append(float(ranks[item]))
    owners = np.unique(tested[:, 0], return_inverse=True)[1]
    print("| by | n | ε: no hit / items |\n|---|---|---|")
    for name, ranks in entries.items():
        curve = RiskCurve.of_first(np.array(ranks), owners, int(owners.max()) + 1)
        cells = []
        for epsilon in EPSILONS[:2]:
            lost, cut, n = divided(curve, epsilon, n_splits)
            said = "" if abs(lost - epsilon) <= 0.03 else " NOT MET"
            cells.append(f"{epsilon:g}: {lost:.3f} / {cut:,.0f}{said}")
        print(f"| {name} | {n} | {', '.join(cells)} |")


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=[])
    parser.add_argument("--measure", default="CM12")
    parser.add_argument("--horizon", type=float, default=0.4)
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--given", type=Path, nargs="*", default=[])
    parser.add_argument("--factors", type=int, default=32)
    settings = parser.parse_args()
    horizon = settings.horizon if settings.horizon < 1 else int(settings.horizon)
    for name in settings.data:
        made(name, settings.measure, horizon, settings.splits)
    for folder in settings.given:
        given(folder, settings.splits, settings.factors)


if __name__ == "__main__":
    main()
