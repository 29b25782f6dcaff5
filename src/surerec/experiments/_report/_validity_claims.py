"""What the numbers say of the paper's claims on validity and efficiency."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from surerec.conformal import TOLERANCE
from surerec.experiments._report._claims import Claim, Verdict, listed, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable


LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5)
"""The significance levels of the tables."""

_SHOWN = ("ICRS1", "ICRS3", "ICRS7", "ICRS11", "ICRS15")
_SMALL = 0.1  # the "smaller values of ε" of the claim on efficiency
_COMPARED = 0.2  # where set sizes are compared
_MOST = 0.5  # "most" irrelevant items are filtered out


class Excess(NamedTuple):
    """The level at which an algorithm exceeds its promise by most."""

    algorithm: str
    epsilon: float
    error: float


def at_levels(validity: pl.DataFrame) -> pl.DataFrame:
    """Keep the significance levels of the tables."""
    near = pl.any_horizontal((pl.col("epsilon") - level).abs() < TOLERANCE for level in LEVELS)
    return validity.filter(near)


def excesses(validity: pl.DataFrame) -> list[Excess]:
    """Give the algorithms whose error exceeds ε by more than two standard errors, worst first.

    Parameters
    ----------
    validity : polars.DataFrame
        algorithm, epsilon, validity_error, standard_error, of one data set and split.
    """
    above = pl.col("validity_error") - pl.col("epsilon")
    found = (
        at_levels(validity)
        .with_columns(above=above)
        .filter(pl.col("above") > 2 * pl.col("standard_error").fill_null(0))
        .sort("above", descending=True, maintain_order=True)
        .unique("algorithm", keep="first", maintain_order=True)
    )
    rows = found.select("algorithm", "epsilon", "validity_error").iter_rows()
    return [Excess(*row) for row in rows]


def _by_dataset(validity: pl.DataFrame, split: str) -> Iterable[tuple[str, pl.DataFrame]]:
    chosen = validity.filter(pl.col("split") == split)
    for (name,), table in chosen.group_by("dataset", maintain_order=True):
        yield str(name), table


def _words(name: str, table: pl.DataFrame, found: list[Excess]) -> str:
    """Say how many exceed ε, the worst of them, and who does not."""
    names = table["algorithm"].unique(maintain_order=True).to_list()
    if not found:
        return f"{name}: none of {len(names)}."
    worst = found[0]
    above = {excess.algorithm for excess in found}
    kept = [algorithm for algorithm in names if algorithm not in above]
    rest = f"; {listed(kept)} {'does' if len(kept) == 1 else 'do'} not" if kept else ""
    return (
        f"{name}: {len(found)} of {len(names)}, most {worst.algorithm} with an error of "
        f"{worst.error:.3f} at ε = {worst.epsilon:g}{rest}."
    )


def _validity(validity: pl.DataFrame, split: str) -> tuple[Verdict, tuple[str, ...]]:
    """Say who exceeds ε on each data set; most must, for the claim to fail altogether."""
    points = []
    n_above = n_all = 0
    for name, table in _by_dataset(validity, split):
        inductive = table.filter(pl.col("algorithm").str.starts_with("ICRS"))
        found = excesses(inductive)
        n_all += inductive["algorithm"].n_unique()
        n_above += len(found)
        transductive = excesses(table.filter(pl.col("algorithm").str.starts_with("CRS")))
        words = (_words(name, inductive, found), _price(inductive, found), _too(transductive))
        points.append(" ".join(sentence for sentence in words if sentence))
    if not n_above:
        return "holds", tuple(points)
    return "does not hold" if 2 * n_above > n_all else "holds in part", tuple(points)


def _price(table: pl.DataFrame, found: list[Excess]) -> str:
    """Compare the sets of those that keep the promise with those of the others."""
    above = pl.col("algorithm").is_in([excess.algorithm for excess in found])
    at_one = table.filter((pl.col("epsilon") - _COMPARED).abs() < TOLERANCE)
    kept, broken = (at_one.filter(chosen)["set_size"].mean() for chosen in (~above, above))
    if not isinstance(kept, float) or not isinstance(broken, float) or kept <= broken:
        return ""
    return (
        f"Those have larger sets: at ε = {_COMPARED:g} they hold {kept:,.0f} items on average, "
        f"the others {broken:,.0f}."
    )


def _too(transductive: list[Excess]) -> str:
    parts = [f"{name} ({error:.3f} at ε = {epsilon:g})" for name, epsilon, error in transductive]
    return f"Of the transductive algorithms: {listed(parts)}." if parts else ""


def valid_in_time_order(validity: pl.DataFrame) -> Claim:
    """Say which measures keep the error below ε when the test items are the later ones."""
    found, points = _validity(validity, "time")
    levels = ", ".join(f"{level:g}" for level in LEVELS)
    text = (
        "Inductive measures whose error exceeds ε by more than two standard errors, at one of "
        f"ε = {levels}:"
    )
    return Claim("The error stays within ε in time order", found, text, points)


def valid_at_random(validity: pl.DataFrame) -> Claim:
    """Say which measures keep the error below ε when calibration and test are drawn at random."""
    found, points = _validity(validity, "random")
    text = (
        "The same with calibration and test items drawn at random from what follows the training "
        "items, as the guarantee assumes."
    )
    if found == "holds" and _validity(validity, "time")[0] != "holds":
        text += (
            " So what breaks the promise in time order is the order: later items conform less "
            "than calibration items."
        )
    return Claim("The error stays within ε under the random split", found, text, points)


def efficient(validity: pl.DataFrame) -> Claim:
    """Say whether small ε already filters most irrelevant items out, for the paper's measures."""
    parts, kept, total = [], 0, 0
    for name, table in _by_dataset(validity, "time"):
        shown = table.filter(pl.col("algorithm").is_in(_SHOWN))
        found = shown.filter((pl.col("epsilon") - _SMALL).abs() < TOLERANCE)
        errors = found["efficiency_error"].to_list()
        kept += sum(error < _MOST for error in errors)
        total += len(errors)
        parts.append(f"{min(errors):.3f} to {max(errors):.3f} on {name}")
    text = (
        f"At ε = {_SMALL:g}, in time order, the sets of ICRS1, 3, 7, 11 and 15 let in this "
        f"share of the irrelevant items: {listed(parts)}. Most are filtered out where it is below "
        "0.5."
    )
    title = "Small ε already filters most irrelevant items out"
    return Claim(title, verdict(kept, total), text)
