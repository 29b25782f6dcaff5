"""The new-user test on real data: coverage of users who were not in the fit.

``python -m benchmarks.new_users [--sets ml-100k …] [--measures CM12 als learned] [--splits 3]``
fits on half of the users and asks the others by their histories. It prints tables as Markdown, and
writes every cell to ``<output>/new-users.csv`` and ``support.csv`` after each measure.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

import surerec as sr
from surerec.evaluation import CHECKED_EPSILONS, new_user_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surerec.evaluation import NewUserTest

SETS: Final = ("ml-100k", "ml-latest-small-2016", "complete-journey", "ml-1m", "movietweetings")
MEASURES: Final = ("CM12", "als", "learned")
MOVIETWEETINGS: Final = Path(__file__).parents[2] / "shared/data/movietweetings/ratings.dat"
_TOLERANCE: Final = 0.01  # excess over ε allowed for a mean, besides two standard errors


def load(name: str) -> sr.Interactions:
    """Load a data set by name; MovieTweetings from the shared copy if there is one."""
    if name == "movietweetings" and MOVIETWEETINGS.exists():
        return sr.load_dataset(name, path=MOVIETWEETINGS)
    return sr.load_dataset(name)


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table with formatted numbers."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124  # NaN
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3f}"
    return str(value)


def main_table(found: dict[tuple[str, str], NewUserTest]) -> str:
    """Return observed miss, two standard errors and size at each ε, a row for each measure."""
    header = ["set", "measure", *(f"ε = {epsilon:g}" for epsilon in CHECKED_EPSILONS)]
    header += ["sizes", "P@10", "floor / unknown", "fails at"]
    rows = []
    for (name, measure), test in found.items():
        table = test.table()
        cells = [
            "below the floor" if each["observed"] is None
            else f"{each['observed']:.3f} ± {2 * each['standard_error']:.3f}"
            for each in table.to_dicts()
        ]  # fmt: skip
        beyond = table.filter(
            pl.col("observed") > pl.col("epsilon") + _TOLERANCE + 2 * pl.col("standard_error")
        )
        sizes = " / ".join(_cell(size) for size in table["size"])
        precision = _cell(table["precision_at_10"][0])
        floor = f"{table['floor'][0]:.3f} / {table['unknown'][0]:.3f}"
        fails = ", ".join(f"{epsilon:g}" for epsilon in beyond["epsilon"]) or "none"
        rows.append([name, measure, *cells, sizes, precision, floor, fails])
    return markdown(header, rows)


def cells_outside(found: dict[tuple[str, str], NewUserTest]) -> str:
    """Return a line on the number of single cells outside."""
    cells = pl.concat(test.splits for test in found.values()).filter("reachable")
    outside = cells.filter(
        pl.col("observed") > pl.col("epsilon") + _TOLERANCE + 2 * pl.col("standard_error")
    )
    return f"Single cells outside ε + 0.01 + two standard errors: {len(outside)} of {len(cells)}."


def support_table(test: NewUserTest) -> str:
    """Return the miss at ε = 0.1 by the number of other users, for calibration and new users."""
    assert test.support is not None
    rows = [
        (
            each["other_users"], each["calibration"], each["new"], each["gap"],
            2 * each["standard_error"], each["share"], each["n_calibration"], each["n_new"],
            "leak" if each["leak"] else "",
        )
        for each in test.support.to_dicts()
    ]  # fmt: skip
    header = ("other users", "calibration", "new", "gap", "2 SE", "share of items",
              "items, calibration", "items, new", "")  # fmt: skip
    return markdown(header, rows)


def write(found: dict[tuple[str, str], NewUserTest], folder: Path) -> None:
    """Write every cell."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[pl.DataFrame]] = {"new-users": [], "support": []}
    for (name, measure), test in found.items():
        tables = (test.splits, test.support)
        for kind, table in zip(parts, tables, strict=True):
            if table is not None:
                head = (pl.lit(name).alias("set"), pl.lit(measure).alias("measure"))
                parts[kind].append(table.select(*head, pl.all()))
    for kind, written in parts.items():
        pl.concat(written, how="vertical_relaxed").write_csv(folder / f"{kind}.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--measures", nargs="+", default=list(MEASURES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--users", type=int, default=2000, help="at most, on each side of a split")
    parser.add_argument("--guarantee", default="recall")
    parser.add_argument("--horizon", type=json.loads, help="by default that of the guarantee")
    parser.add_argument("--threshold", choices=("score", "rank"), default="score")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("new-users"))
    given = parser.parse_args()
    found: dict[tuple[str, str], NewUserTest] = {}
    for name in given.sets:
        data = load(name)
        print(f"## {name}: {data.n_users:,} users, {data.n_items:,} items\n", flush=True)
        for measure in given.measures:
            begin = time.perf_counter()
            found[name, measure] = test = new_user_test(
                data,
                measure,
                guarantee=given.guarantee,
                horizon=given.horizon,
                threshold=given.threshold,
                n_splits=given.splits,
                max_users=given.users,
                random_state=given.random_state,
            )
            print(f"### {name}, {measure} ({time.perf_counter() - begin:.0f} s)\n")
            print(main_table({(name, measure): test}), end="\n\n")
            print(support_table(test), end="\n\n", flush=True)
            write(found, given.output)
    print("## All\n")
    print(main_table(found), end="\n\n")
    print(cells_outside(found))


if __name__ == "__main__":
    main()
