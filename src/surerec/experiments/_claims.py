"""The paper's claims, tested on the numbers of a run."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl

from surerec.conformal import TOLERANCE
from surerec.experiments import _study as study

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.experiments._settings import Results

Verdict = Literal["holds", "holds in part", "does not hold"]

_FAMILIES = ("mean", "median", "maximum", "minimum")
_MUCH = 2.0  # "much faster" is at least twice as fast
_STRONG = ("ICRS3", "ICRS4", "ICRS7", "ICRS8", "ICRS11", "ICRS12")
_WEAK = ("ICRS2", "ICRS6", "ICRS10", "ICRS14")
_NAMED_AT_MOST = 4
_SMALL = 0.1  # the "smaller values of ε" of the paper's claim
_MOST = 0.5  # "most" irrelevant items are filtered out


class Claim(NamedTuple):
    """A claim of the paper, with its verdict."""

    title: str
    verdict: Verdict
    text: str
    points: tuple[str, ...] = ()
    """The result on each data set."""


def all_claims(results: Results, ranks: pl.DataFrame) -> list[Claim]:
    """Return every claim that the results can decide."""
    titles = study.titles_of(results.datasets)

    def named(table: pl.DataFrame) -> pl.DataFrame:
        return table.with_columns(pl.col("dataset").replace(titles))

    claims = [
        mean_and_median_are_best(named(ranks)),
        minimum_is_worst(named(ranks)),
        conformal_beats_precedence_mining(named(ranks)),
    ]
    if results.times is not None:
        claims.append(inductive_is_faster(named(results.times)))
    validity = named(results.validity)
    claims += [valid_in_time_order(validity), valid_at_random(validity), efficient(validity)]
    return claims


def verdict(n_true: int, n_all: int) -> Verdict:
    """Return the verdict on a claim that is true in `n_true` of `n_all` cases."""
    if n_true == n_all:
        return "holds"
    return "holds in part" if n_true else "does not hold"


def listed(names: list[str]) -> str:
    """Join names with commas and "and".

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def at_levels(validity: pl.DataFrame, levels: Iterable[float] = study.LEVELS) -> pl.DataFrame:
    """Keep some significance levels, by default those of the tables."""
    near = pl.any_horizontal((pl.col("epsilon") - level).abs() < TOLERANCE for level in levels)
    return validity.filter(near)


def _by_dataset(table: pl.DataFrame) -> Iterable[tuple[str, pl.DataFrame]]:
    for (name,), found in table.group_by("dataset", maintain_order=True):
        yield str(name), found


def _families(ranks: pl.DataFrame) -> pl.DataFrame:
    """Return the average rank of each family for each metric and data set."""
    families = {name: study.family(name) for name in study.ALGORITHMS}
    named = ranks.filter(pl.col("rank").is_not_null()).with_columns(
        family=pl.col("algorithm").replace_strict(families)
    )
    case = ["metric", "dataset"]
    return named.pivot("family", index=case, values="rank", aggregate_function="mean")


def _cases(kept: pl.Series, cases: pl.DataFrame) -> str:
    """Describe in how many cases a claim holds, and in which it does not."""
    n_true, n_all = int(kept.sum()), len(kept)
    words = f"{'all' if n_true == n_all else n_true or 'none'} of {n_all} cases"
    name = pl.format("{} on {}", pl.col("metric").str.to_uppercase(), "dataset")
    failed = cases.filter(~kept).select(name).to_series().to_list()
    more = len(failed) - _NAMED_AT_MOST
    if more > 0:
        failed = [*failed[:_NAMED_AT_MOST], f"{more} more"]
    return f"{words} (a metric on a data set)" + (f"; not in {listed(failed)}." if failed else ".")


def mean_and_median_are_best(ranks: pl.DataFrame) -> Claim:
    """Compare the average ranks of the mean and median measures with those of the others."""
    cases = _families(ranks)
    worse, better = pl.max_horizontal("mean", "median"), pl.min_horizontal("maximum", "minimum")
    kept = cases.select(worse < better).to_series()
    means = listed([f"{name} {cases[name].to_numpy().mean():.1f}" for name in _FAMILIES])
    averages = ranks.drop_nulls("rank").group_by("algorithm", maintain_order=True)
    best = averages.agg(pl.col("rank").mean()).filter(pl.col("rank") == pl.col("rank").min())
    text = (
        f"Average ranks among the 20 algorithms, by aggregation over the history: {means}. Mean "
        "and median measures both rank ahead of maximum and minimum measures in "
        f"{_cases(kept, cases)} The best average rank is {best['rank'][0]:.1f}, by "
        f"{listed(best['algorithm'].to_list())}."
    )
    return Claim("Mean and median measures rank best", verdict(int(kept.sum()), len(kept)), text)


def minimum_is_worst(ranks: pl.DataFrame) -> Claim:
    """Compare the average ranks of the minimum measures with those of the others."""
    cases = _families(ranks)
    kept = cases.select(pl.col("minimum") > pl.max_horizontal(_FAMILIES[:-1])).to_series()
    parts = []
    for metric in ("ap", "auc"):
        ahead = []
        for name, table in _by_dataset(ranks.filter(pl.col("metric") == metric)):
            means = dict(table.select("algorithm", "mean").iter_rows())
            if min(means[strong] for strong in _STRONG) > max(means[weak] for weak in _WEAK):
                ahead.append(name)
        parts.append(f"in {metric.upper()} on {listed(ahead) if ahead else 'no data set'}")
    text = (
        "Minimum measures have the worst average rank of the four families in "
        f"{_cases(kept, cases)} Each of {listed(list(_STRONG))} is ahead of each of "
        f"{listed(list(_WEAK))} {', and '.join(parts)}."
    )
    return Claim("Minimum measures rank worst", verdict(int(kept.sum()), len(kept)), text)


def conformal_beats_precedence_mining(ranks: pl.DataFrame) -> Claim:
    """Compare the conformal algorithms with Precedence Mining in AP, plain and with I = 1."""
    ahead_of_plain, points = [], []
    for name, found in _by_dataset(ranks.filter(pl.col("metric") == "ap")):
        means = dict(found.select("algorithm", "mean").iter_rows())
        mining = means[study.ALGORITHMS[0]]
        ahead = [means[algorithm] > mining for algorithm in study.ALGORITHMS[1:]]
        ahead_of_plain += ahead
        words = f"{name}: {sum(ahead)} of {len(ahead)} beat the plain product ({mining:.3f})"
        if study.EXTRA in means:
            top = sum(means[algorithm] > means[study.EXTRA] for algorithm in study.ALGORITHMS[1:])
            words += f", {top} beat the variant with I = 1 ({means[study.EXTRA]:.3f})"
        points.append(f"{words}.")
    return Claim(
        "Conformal algorithms rank better than plain Precedence Mining",
        verdict(sum(ahead_of_plain), len(ahead_of_plain)),
        "Number of conformal algorithms with a higher AP:",
        tuple(points),
    )


def inductive_is_faster(times: pl.DataFrame) -> Claim:
    """Compare the execution time of the other algorithms with the median inductive measure."""
    points, found = [], []
    for name, table in _by_dataset(times):
        times_of = dict(table.select("algorithm", "median_ms").iter_rows())
        inductive = [time for algorithm, time in times_of.items() if algorithm.startswith("ICRS")]
        middle = median(inductive)
        factors = {algorithm: time / middle for algorithm, time in times_of.items()}
        found.append(factors)
        points.append(
            f"{name}: the median of the {len(inductive)} measures takes {middle:.2f} ms. "
            f"CRS-max takes {factors['CRS-Max']:.1f} times as long with sorted search and "
            f"{factors[study.PLAIN]:.1f} times as long in the paper's O(n_c·l·m) form; Precedence "
            f"Mining takes {factors[study.ALGORITHMS[0]]:.1f} times as long."
        )
    much = [each[name] >= _MUCH for name in (study.PLAIN, "CRS-Max") for each in found]
    text = f"The claim holds if both forms of CRS-max take at least {_MUCH:g} times as long:"
    title = "Inductive is much faster than transductive"
    return Claim(title, verdict(sum(much), len(much)), text, tuple(points))


def excesses(validity: pl.DataFrame) -> pl.DataFrame:
    """Return the algorithms whose error exceeds ε by more than two standard errors, worst first.

    Parameters
    ----------
    validity : polars.DataFrame
        algorithm, epsilon, validity_error, standard_error, of one data set and split.

    Returns
    -------
    polars.DataFrame
        algorithm, epsilon, validity_error, at the level with the largest excess.
    """
    return (
        at_levels(validity)
        .with_columns(above=pl.col("validity_error") - pl.col("epsilon"))
        .filter(pl.col("above") > 2 * pl.col("standard_error").fill_null(0))
        .sort("above", descending=True, maintain_order=True)
        .unique("algorithm", keep="first", maintain_order=True)
        .select("algorithm", "epsilon", "validity_error")
    )


def _validity(validity: pl.DataFrame, split: str) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict, and the algorithms whose error exceeds ε on each data set.

    The claim does not hold if most algorithms exceed ε.
    """
    points = []
    n_above = n_all = 0
    for name, table in _by_dataset(validity.filter(pl.col("split") == split)):
        inductive = table.filter(pl.col("algorithm").str.starts_with("ICRS"))
        names = inductive["algorithm"].unique(maintain_order=True).to_list()
        above = excesses(inductive)
        n_all, n_above = n_all + len(names), n_above + len(above)
        words = f"{name}: {len(above) or 'none'} of {len(names)}"
        if len(above):
            worst, epsilon, error = above.row(0)
            words += f", worst {worst} with an observed error of {error:.3f} at ε = {epsilon:g}"
            if kept := [each for each in names if each not in set(above["algorithm"])]:
                words += f"; not {listed(kept)}"
        words += "."
        others = excesses(table.filter(pl.col("algorithm").str.starts_with("CRS"))).rows()
        if parts := [f"{each} ({error:.3f} at ε = {level:g})" for each, level, error in others]:
            words += f" Transductive algorithms above ε: {listed(parts)}."
        points.append(words)
    if not n_above:
        return "holds", tuple(points)
    return "does not hold" if 2 * n_above > n_all else "holds in part", tuple(points)


def valid_in_time_order(validity: pl.DataFrame) -> Claim:
    """Test whether the observed error stays within ε when the test items are the later ones."""
    levels = ", ".join(f"{level:g}" for level in study.LEVELS)
    text = (
        "Inductive measures whose observed error exceeds ε by more than two standard errors, at "
        f"one of ε = {levels}:"
    )
    found, points = _validity(validity, "time")
    return Claim("The error stays within ε in time order", found, text, points)


def valid_at_random(validity: pl.DataFrame) -> Claim:
    """Test whether the observed error stays within ε under the random split."""
    found, points = _validity(validity, "random")
    text = (
        "The same with calibration and test items drawn at random from the items after the "
        "training items, as the guarantee assumes."
    )
    if found == "holds" and _validity(validity, "time")[0] != "holds":
        text += (
            " So time order breaks the guarantee: later items conform less than calibration items."
        )
    return Claim("The error stays within ε under the random split", found, text, points)


def efficient(validity: pl.DataFrame) -> Claim:
    """Test whether a small ε excludes most irrelevant items."""
    shown = (pl.col("split") == "time") & pl.col("algorithm").is_in(study.SHOWN)
    found = at_levels(validity.filter(shown), [_SMALL])
    parts = []
    for name, table in _by_dataset(found):
        errors = table["efficiency_error"].to_numpy()
        parts.append(f"{errors.min():.3f} to {errors.max():.3f} on {name}")
    text = (
        f"At ε = {_SMALL:g}, in time order, the sets of {listed(list(study.SHOWN))} contain this "
        f"share of the irrelevant items: {listed(parts)}. Below 0.5, most of them are excluded."
    )
    kept = int((found["efficiency_error"] < _MOST).sum())
    title = "A small ε excludes most irrelevant items"
    return Claim(title, verdict(kept, len(found)), text)
