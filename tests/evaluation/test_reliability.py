"""What was said beside what happened: bins are those of a plain loop."""

import numpy as np
import polars as pl
import pytest

from surerec.evaluation import N_BINS, compare_probabilities


def pairs(n_users, n_each, seed=0):
    chance = np.random.default_rng(seed)
    n = n_users * n_each
    said = chance.random(n) ** 3
    return pl.DataFrame(
        {
            "user": np.repeat(np.arange(n_users) * 7, n_each),
            "said": said,
            "taken": chance.random(n) < said,
            "by_rank": np.full(n, 0.25),
        }
    )


@pytest.mark.parametrize(("n_users", "n_each"), [(40, 25), (1, 30), (3, 1)])
def test_bins_are_those_of_a_plain_loop(n_users, n_each):
    table = pairs(n_users, n_each)
    bins, row = compare_probabilities(table)
    rows = table.sort("said", maintain_order=True).rows(named=True)
    apart = {}
    for place, each in enumerate(rows):
        apart.setdefault(place * N_BINS // len(rows), []).append(each)
    assert len(bins) == len(apart)
    for found, (_, members) in zip(bins.iter_rows(named=True), sorted(apart.items()), strict=True):
        gap = np.mean([m["said"] - m["taken"] for m in members])
        off = {}
        for m in members:
            off[m["user"]] = off.get(m["user"], 0.0) + m["said"] - m["taken"] - gap
        assert found["n"] == len(members)
        assert found["said"] == pytest.approx(np.mean([m["said"] for m in members]))
        assert found["happened"] == pytest.approx(np.mean([m["taken"] for m in members]))
        error = np.sqrt(sum(x**2 for x in off.values())) / len(members)
        assert found["error"] == pytest.approx(error, abs=1e-12)
    assert row["n_users"] == n_users
    assert row["n"] == n_users * n_each
