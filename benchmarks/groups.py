"""Whether group guarantees hold: ``python -m benchmarks.groups [ml-1m …]``.

Groups are formed over all users from the known parts of their histories (random, and similar), and
divided at random into halves, 40 times: one half calibrates, the other is served. Members are
scored once, and every division uses the same ranks. With ``--given FOLDER`` real groups instead:
their own held-out items, by matrix factorisation of the items of groups and members (see `given`).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

import surerec as sr
from surerec.calibration import profile_cases
from surerec.conformal import RiskCurve
from surerec.measures import as_measure
from surerec.recommenders import (
    AGGREGATIONS,
    FORMED,
    GROUP_GUARANTEE_KINDS,
    find_aggregation,
    form_groups,
    observe_groups,
    values_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILONS = (0.1, 0.2, 0.3)
SIZES = (2, 4, 8)
BELOW = 0.01
NEAR = 0.03
"""Tolerance on ε for real groups."""


def divided(curve: RiskCurve, epsilon: float, n_splits: int) -> tuple[float, float, int]:
    """Return the mean loss of the test halves, the mean threshold and the calibration size."""
    lost, cuts = [], []
    n = curve.n_users
    for split in range(n_splits):
        half = np.random.default_rng(split).permutation(n) < n // 2
        threshold, rest = curve.of_owners(half).threshold(epsilon), curve.of_owners(~half)
        lost.append(rest.losses[rest.entries > threshold].sum() / rest.n_users)
        cuts.append(threshold)
    return float(np.mean(lost)), float(np.mean(cuts)), n // 2


def verdict(lost: float, threshold: float, epsilon: float, n: int) -> str:
    """Return whether the loss is within the guarantee; a list has at least one item."""
    if lost > epsilon + BELOW:
        return " NOT MET"
    if lost >= epsilon - 2 / (n + 1) - BELOW:
        return ""
    return " (ranks are too coarse)" if threshold < 1 / BELOW else " NOT MET"


def made(name: str, measure: str, horizon: float, n_splits: int, by: list[str]) -> None:
    """Print the tables of one data set."""
    films = sr.load_dataset(name)
    statistics = sr.count_precedence(films)
    scorer = as_measure(measure).fit(statistics)
    cases = profile_cases(films, horizon)
    print(f"\n## {films!r}, {scorer.name}, horizon {horizon}, {n_splits} divisions\n")
    print("| groups | guarantee | by | n | left out | ε: lost / items |\n|---|---|---|---|---|---|")
    for size in SIZES:
        for formed in FORMED:
            groups = form_groups(cases, size, formed, scorer.fold_of(cases.users), 0)
            found = [
                observe_groups(scorer, statistics, cases, groups, find_aggregation(name))
                for name in by
            ]
            codes = found[0].owners * size + found[0].places
            members, owners = np.unique(codes, return_inverse=True)
            alone = RiskCurve.of_shares(found[0].own_ranks, owners, len(members))
            cells = [f"{e:g}: {divided(alone, e, n_splits)[1]:,.0f}" for e in EPSILONS]
            print(f"| {size} {formed} | a member alone | | | | {', '.join(cells)} |")
            for guarantee in GROUP_GUARANTEE_KINDS.values():
                if size > guarantee.largest:
                    continue
                for aggregation, outcomes in zip(by, found, strict=True):
                    curve, units = guarantee.curve_of(outcomes)
                    cells = []
                    for epsilon in EPSILONS:
                        lost, threshold, n = divided(curve, epsilon, n_splits)
                        suffix = verdict(lost, threshold, epsilon, n)
                        cells.append(f"{epsilon:g}: {lost:.3f} / {threshold:,.1f}{suffix}")
                    left_out = len(outcomes) - len(units)
                    print(
                        f"| {size} {formed} | {guarantee.name} | {aggregation} "
                        f"| {len(units) // 2:,} | {left_out:,} | {', '.join(cells)} |",
                        flush=True,
                    )


def _rows(path: Path) -> NDArray[np.int64]:
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    return np.array([(int(line[0]), int(line[1])) for line in lines])


def _ranks(
    scores: NDArray[np.floating], consumed: NDArray[np.int64], popularity: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Rank all items except those the group consumed, whose rank is infinite."""
    scores = scores.astype(np.float64)
    scores[consumed] = -np.inf
    ranks = np.empty(len(scores))
    ranks[np.lexsort((popularity, -scores))] = np.arange(1, len(scores) + 1)
    ranks[consumed] = np.inf
    return ranks


class Given:
    """Real groups: the items of groups and members, as rows of one matrix."""

    def __init__(self, folder: Path, factors: int) -> None:
        from implicit.als import AlternatingLeastSquares  # noqa: PLC0415

        split = [line.split() for line in (folder / "groupMember.txt").read_text().splitlines()]
        self.members = {int(g): [int(m) for m in members.split(",")] for g, members in split}
        users = _rows(folder / "userRatingTrain.txt")
        consumed = _rows(folder / "groupRatingTrain.txt")
        self.test = _rows(folder / "groupRatingTest.txt")
        known = set(map(tuple, consumed.tolist()))
        new = [row for row in dict.fromkeys(map(tuple, self.test.tolist())) if row not in known]
        self.new = np.array(new)
        self.n_items = 1 + max(int(rows[:, 1].max()) for rows in (users, consumed, self.test))
        self.first = 1 + max(int(users[:, 0].max()), *(max(m) for m in self.members.values()))
        rows = np.concatenate((users[:, 0], self.first + consumed[:, 0]))
        columns = np.concatenate((users[:, 1], consumed[:, 1]))
        shape = (self.first + max(self.members) + 1, self.n_items)
        self.matrix = csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
        self.matrix.data[:] = 1
        self.support = np.asarray(self.matrix.sum(axis=0)).ravel()
        self.popularity = np.argsort(np.argsort(-self.support, kind="stable"))
        self.tested = self.new[self.support[self.new[:, 1]] > 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads of BLAS
            self.model = AlternatingLeastSquares(factors, regularization=1.0, random_state=0)
        self.model.fit(self.matrix, show_progress=False)

    def ranks(self, group: int) -> dict[str, NDArray[np.float64]]:
        """Rank all items for a group by each aggregation."""
        own = self.matrix[self.first + group].indices.astype(np.int64)
        members = [member for member in self.members[group] if self.matrix[member].nnz]
        voters = [self.first + group, *members]  # the group's own row counts as a member
        consumed = np.asarray(self.matrix[voters].sum(axis=0)) > 0
        joint = csr_matrix(consumed.astype(np.float32))
        folded = np.asarray(self.model.recalculate_user(np.zeros(1, int), joint)).reshape(-1)
        items, users = np.asarray(self.model.item_factors), np.asarray(self.model.user_factors)
        each = np.stack([_ranks(items @ users[row], own, self.popularity) for row in voters])
        found = {
            "popularity": _ranks(self.support, own, self.popularity),
            "the group's own items": each[0],
            "joint-profile": _ranks(items @ folded, own, self.popularity),
        }
        outside = np.isfinite(each[0])
        for name in ("average", "least-misery", "most-pleasure"):
            scores = np.full(self.n_items, -np.inf)
            values = values_of(each[:, outside], int(outside.sum()))
            scores[outside] = AGGREGATIONS[name].score(values)
            found[name] = _ranks(scores, own, self.popularity)
        return found


def given(folder: Path, n_splits: int, factors: int) -> None:
    """Print the table of real groups: their held-out items, ranked by ALS or by popularity.

    There are no times, so ALS (implicit) is trained on the training rows of users and of groups,
    each a row of the matrix; the held-out rows of no group are in it, so that groups that calibrate
    and groups that are served are treated alike. A group is ranked by its own row, by the rows of
    group and members (as in `AGGREGATIONS`), or by all items of group and members as one history.
    Candidates are items that the group has not consumed: a group may consume an item of a member.
    Items without a training interaction are unknown, and such rows do not count.
    """
    data = Given(folder, factors)
    sizes = [len(members) for members in data.members.values()]
    print(
        f"\n## {folder.name}: {len(sizes):,} groups of {np.mean(sizes):.1f} members, "
        f"{data.n_items:,} items, ALS of {factors} factors\n\n{len(data.test):,} test rows, "
        f"{len(data.new):,} not in training, {len(data.tested):,} of known items, in "
        f"{len(np.unique(data.tested[:, 0])):,} groups\n"
    )
    entries: dict[str, list[float]] = {}
    for group, item in data.tested.tolist():
        for name, ranks in data.ranks(group).items():
            entries.setdefault(name, []).append(float(ranks[item]))
    owners = np.unique(data.tested[:, 0], return_inverse=True)[1]
    print("| by | n | ε: no hit / items |\n|---|---|---|")
    for name, reached in entries.items():
        curve = RiskCurve.of_first(np.array(reached), owners, int(owners.max()) + 1)
        cells = []
        for epsilon in EPSILONS[:2]:
            lost, threshold, n = divided(curve, epsilon, n_splits)
            suffix = "" if abs(lost - epsilon) <= NEAR else " NOT MET"
            cells.append(f"{epsilon:g}: {lost:.3f} / {threshold:,.0f}{suffix}")
        print(f"| {name} | {n} | {', '.join(cells)} |")


def main() -> None:
    """Print the selected tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=[])
    parser.add_argument("--measure", default="CM12")
    parser.add_argument("--horizon", type=float, default=0.4)
    parser.add_argument("--by", nargs="*", default=list(AGGREGATIONS))
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--given", type=Path, nargs="*", default=[])
    parser.add_argument("--factors", type=int, default=32)
    settings = parser.parse_args()
    horizon = settings.horizon if settings.horizon < 1 else int(settings.horizon)
    for name in settings.data:
        made(name, settings.measure, horizon, settings.splits, settings.by)
    for folder in settings.given:
        given(folder, settings.splits, settings.factors)


if __name__ == "__main__":
    main()
