"""The demonstration that `make demo` runs: real data, real pairs, real times."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from surerec import _show
from surerec.datasets import load_dataset, synthetic
from surerec.errors import FetchError
from surerec.precedence import count_precedence, strongest_pairs

if TYPE_CHECKING:
    from rich.console import Console

    from surerec.interactions import Interactions

__all__ = ["run_demo"]


def run_demo(console: Console) -> None:
    """Read MovieLens 100K, count precedence, and say the strongest pairs in words.

    Where no source of the data can be reached, made-up data stand in, and the output says so.
    """
    interactions = _data(console)
    _show.interactions(console, interactions)
    count_precedence(interactions)  # compiles the kernels on a machine's first run
    begin = perf_counter()
    statistics = count_precedence(interactions)
    seconds = perf_counter() - begin
    _show.pairs(console, interactions, strongest_pairs(statistics, 8))
    lengths = interactions.offsets[1:] - interactions.offsets[:-1]
    n_pairs = int((lengths * (lengths - 1) // 2).sum())
    console.print(
        f"\nCounted {n_pairs:,} ordered pairs, in both directions, in {seconds * 1000:.0f} ms "
        f"({2 * n_pairs / seconds / 1e6:,.0f} million a second).",
        highlight=False,
    )


def _data(console: Console) -> Interactions:
    try:
        with console.status("Reading MovieLens 100K …"):
            return load_dataset("ml-100k")
    except FetchError as error:
        console.print(
            "[yellow]MovieLens 100K could not be fetched, so made-up data stand in for it.[/yellow]"
            f"\n  {_show.plain(str(error))}\n",
            highlight=False,
        )
    return synthetic(n_users=943, n_items=1682, n_rows=100_000, seed=1)
