"""Where the paper's claims hold and where they do not, said from the numbers."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl

from surerec.experiments._algorithms import ALGORITHMS, EXTRA
from surerec.experiments._comparison import RANKED, paper_means
from surerec.experiments._names import members
from surerec.experiments._timing import PLAIN

if TYPE_CHECKING:
    from collections.abc import Mapping


Verdict = Literal["holds", "holds in part", "does not hold", "for comparison"]

_FAMILIES = ("mean", "median", "maximum", "minimum")
_MUCH = 2.0  # "much faster" is at least twice as fast
_STRONG = ("ICRS3", "ICRS4", "ICRS7", "ICRS8", "ICRS11", "ICRS12")
_STRONG_WORDS = "ICRS3, 4, 7, 8, 11 and 12"
_WEAK = ("ICRS2", "ICRS6", "ICRS10", "ICRS14")
_WEAK_WORDS = "ICRS2, 6, 10 and 14"
_NEAR = 1e-9  # the last bits of a sum
_NAMED_AT_MOST = 4


class Claim(NamedTuple):
    """A claim of the paper, and what the numbers say of it."""

    title: str
    verdict: Verdict
    text: str
    points: tuple[str, ...] = ()
    """What it is on each data set."""


def verdict(n_true: int, n_all: int) -> Verdict:
    """Say in one word how many of the cases bear a claim out."""
    if n_true == n_all:
        return "holds"
    return "holds in part" if n_true else "does not hold"


def listed(names: list[str]) -> str:
    """Give names as a sentence has them.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return listed([*names[:_NAMED_AT_MOST], f"{more} more"] if more > 0 else names)


def _cases(n_true: int, n_all: int) -> str:
    if n_all == 1:
        return "the one case" if n_true else "none, of one case"
    return f"{'all' if n_true == n_all else n_true or 'none'} of {n_all} cases"


def _family_ranks(ranks: pl.DataFrame) -> dict[str, dict[tuple[str, str], float]]:
    """Give for each family its average rank in each case, a metric on a data set."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for family in _FAMILIES:
        chosen = ranks.filter(pl.col("algorithm").is_in(members(family)))
        means = chosen.group_by("metric", "dataset", maintain_order=True).agg(pl.col("rank").mean())
        found[family] = {(metric, name): rank for metric, name, rank in means.iter_rows()}
    return found


def _averages(families: Mapping[str, Mapping[tuple[str, str], float]]) -> str:
    means = {name: sum(cases.values()) / len(cases) for name, cases in families.items()}
    return listed([f"{name} {rank:.1f}" for name, rank in means.items()])


def mean_and_median_are_best(ranks: pl.DataFrame) -> Claim:
    """Compare the average ranks of the mean and median measures with those of the others."""
    families = _family_ranks(ranks)
    cases = list(families["mean"])
    kept = [
        case
        for case in cases
        if max(families["mean"][case], families["median"][case])
        < min(families["maximum"][case], families["minimum"][case])
    ]
    averages = (
        ranks.filter(pl.col("rank").is_not_null())
        .group_by("algorithm", maintain_order=True)
        .agg(pl.col("rank").mean())
    )
    best = averages.filter(pl.col("rank") == pl.col("rank").min())
    text = (
        f"Average ranks among the 20 algorithms, by what a measure takes over the profile: "
        f"{_averages(families)}. Mean and median measures both stand ahead of maximum and minimum "
        f"measures in {_cases(len(kept), len(cases))} (a metric on a data set)"
    )
    text += _except(cases, kept)
    best_names = listed(best["algorithm"].to_list())
    text += f" The best average rank is {best['rank'][0]:.1f}, of {best_names}."
    return Claim("Mean and median measures rank best", verdict(len(kept), len(cases)), text)


def _except(cases: list[tuple[str, str]], kept: list[tuple[str, str]]) -> str:
    broken = [f"{metric.upper()} on {name}" for metric, name in cases if (metric, name) not in kept]
    return f"; not in {_some(broken)}." if broken else "."


def minimum_is_worst(ranks: pl.DataFrame) -> Claim:
    """Compare the average ranks of the minimum measures with those of the others."""
    families = _family_ranks(ranks)
    cases = list(families["minimum"])
    others = [name for name in _FAMILIES if name != "minimum"]
    kept = [
        case
        for case in cases
        if families["minimum"][case] > max(families[name][case] for name in others)
    ]
    text = (
        f"Minimum measures have the worst average rank of the four kinds in "
        f"{_cases(len(kept), len(cases))}{_except(cases, kept)}"
    )
    parts = [_strong_ahead(ranks, metric) for metric in ("ap", "auc")]
    text += f" Each of {_STRONG_WORDS} is ahead of each of {_WEAK_WORDS} {', and '.join(parts)}."
    return Claim("Minimum measures rank worst", verdict(len(kept), len(cases)), text)


def _strong_ahead(ranks: pl.DataFrame, metric: str) -> str:
    ahead = []
    chosen = ranks.filter(pl.col("metric") == metric)
    for (name,), table in chosen.group_by("dataset", maintain_order=True):
        means = dict(table.select("algorithm", "mean").iter_rows())
        if min(means[strong] for strong in _STRONG) > max(means[weak] for weak in _WEAK):
            ahead.append(str(name))
    where = f"on {listed(ahead)}" if ahead else "on no data set"
    return f"in {metric.upper()} {where}"


def conformal_beats_precedence_mining(ranks: pl.DataFrame) -> Claim:
    """Compare the conformal algorithms with Precedence Mining in AP, plain and with I = 1."""
    plain = total = 0
    parts = []
    table = ranks.filter(pl.col("metric") == "ap")
    for (name,), found in table.group_by("dataset", maintain_order=True):
        means = dict(found.select("algorithm", "mean").iter_rows())
        others = [means[algorithm] for algorithm in ALGORITHMS[1:]]
        ahead = sum(mean > means[ALGORITHMS[0]] for mean in others)
        plain, total = plain + ahead, total + len(others)
        words = f"{name}: {ahead} of {len(others)} than the plain product"
        words += f" ({means[ALGORITHMS[0]]:.3f})"
        if EXTRA in means:
            top = sum(mean > means[EXTRA] for mean in others)
            words += f", {top} than the variant with I = 1 ({means[EXTRA]:.3f})"
        parts.append(f"{words}.")
    text = "How many of the conformal algorithms have a higher AP:"
    title = "Conformal algorithms rank better than plain Precedence Mining"
    return Claim(title, verdict(plain, total), text, tuple(parts))


def inductive_is_faster(times: pl.DataFrame) -> Claim:
    """Give the factors between the inductive measures and both forms of CRS-max.

    An inductive recommender stands here for the measure in the middle of the 17.
    """
    parts, sorted_search, as_in_paper, mining = [], [], [], []
    for (name,), table in times.group_by("dataset", maintain_order=True):
        taken = dict(table.select("algorithm", "median_ms").iter_rows())
        inductive = [time for algorithm, time in taken.items() if algorithm.startswith("ICRS")]
        middle = median(inductive)
        sorted_search.append(taken["CRS-Max"] / middle)
        as_in_paper.append(taken[PLAIN] / middle)
        mining.append(taken["Precedence Mining"] / middle)
        parts.append(
            f"{name}: the middle one of the {len(inductive)} measures takes {middle:.2f} ms (they "
            f"range from {min(inductive):.2f} to {max(inductive):.2f}). CRS-max takes "
            f"{sorted_search[-1]:.1f} times as long with sorted search and {as_in_paper[-1]:.1f} "
            f"times as long in the paper's O(n_c·l·m) form, CRS-med "
            f"{taken['CRS-Med'] / middle:.1f} times, Precedence Mining {mining[-1]:.1f} times."
        )
    factors = sorted_search + as_in_paper
    much = sum(factor >= _MUCH for factor in factors)
    text = _speed_words("the paper's form of CRS-max", as_in_paper)
    text += _speed_words("CRS-max with sorted search", sorted_search)
    text += _speed_words("Precedence Mining", mining)
    title = "Inductive is much faster than transductive"
    return Claim(title, verdict(much, len(factors)), text.strip(), tuple(parts))


def _speed_words(rival: str, factors: list[float]) -> str:
    lowest = min(factors)
    if lowest >= _MUCH:
        return f"Inductive is at least {lowest:.1f} times as fast as {rival}. "
    if lowest > 1:
        return f"Inductive is faster than {rival}, but by as little as {lowest:.1f} times. "
    if max(factors) > 1:
        return f"Inductive is faster than {rival} on some data and not on other. "
    return f"Inductive is not faster than {rival}. "


def noise_floor(ranks: pl.DataFrame) -> Claim:
    """Compare ICRS1 and ICRS5, which rank alike by algebra (paper.md 4), here and in the paper."""
    pair = ranks.filter(pl.col("algorithm").is_in(["ICRS1", "ICRS5"]))
    wide = pair.pivot("algorithm", index=["metric", "dataset"], values="mean")
    ours = max(wide.select((pl.col("ICRS1") - pl.col("ICRS5")).abs()).to_series())
    theirs = {}
    for metric in RANKED:
        paper = paper_means(metric).pivot("algorithm", index="dataset", values="paper")
        theirs[metric.upper()] = max((paper["ICRS1"] - paper["ICRS5"]).abs())
    alike = ours < _NEAR
    words = "here they do, in every metric" if alike else f"here they differ by up to {ours:.4f}"
    paper_words = listed([f"{value:.2f} in {metric}" for metric, value in theirs.items()])
    text = (
        f"With I = 1 measure 1 is measure 5 divided by the number of users, so both rank alike: "
        f"{words}. In the paper's table they differ by up to {paper_words}: differences of that "
        "size between its algorithms say nothing."
    )
    title = "ICRS1 and ICRS5 are one algorithm: the noise floor"
    return Claim(title, "for comparison" if alike else "does not hold", text)
