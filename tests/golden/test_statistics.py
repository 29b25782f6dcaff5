"""The paper's statistics over its seven data sets, from its own table of means."""

import json
from importlib.resources import files

import numpy as np
import pytest

from surerec.evaluation import (
    average_ranks,
    dataset_ranks,
    friedman,
    nemenyi_critical_difference,
)

PAPER = json.loads((files("surerec") / "experiments" / "paper.json").read_text(encoding="utf-8"))
METRICS = ["AP", "AUC", "NDCG", "RR"]
ALGORITHMS = ["Precedence Mining", "CRS-Med", "CRS-Max", *(f"ICRS{i}" for i in range(1, 18))]

# As printed in the paper, not read from the file that is under test.
F_F = {"AP": "10.1378", "AUC": "11.1020", "NDCG": "11.3810", "RR": "15.2027"}


def column(metric, name):
    """Return the printed means or ranks, data sets × algorithms."""
    return np.array([row[name] for row in PAPER["metrics"][metric].values()]).T


@pytest.mark.parametrize("metric", METRICS)
def test_the_table_is_whole(metric):
    assert list(PAPER["metrics"]) == METRICS
    assert list(PAPER["metrics"][metric]) == ALGORITHMS
    assert column(metric, "mean").shape == column(metric, "rank").shape == (7, 20)
    assert len(PAPER["datasets"]) == 7


@pytest.mark.parametrize("metric", METRICS)
def test_the_printed_ranks_are_those_of_the_printed_means(metric):
    np.testing.assert_array_equal(dataset_ranks(column(metric, "mean")), column(metric, "rank"))


@pytest.mark.parametrize("metric", METRICS)
def test_friedman_to_the_last_printed_digit(metric):
    result = friedman(column(metric, "mean"))
    assert f"{result.f_f:.4f}" == F_F[metric] == f"{PAPER['friedman']['F_F'][metric]:.4f}"
    assert f"{result.critical_value:.4f}" == "1.6785"
    assert (result.k, result.n, result.rejects) == (20, 7, True)


def test_nemenyi_to_the_last_printed_digit():
    q, cd = nemenyi_critical_difference(20, 7)
    assert (f"{q:.4f}", f"{cd:.4f}") == ("3.5438", "11.2065")
    kept = PAPER["friedman"]
    assert (kept["critical_value_0.05"], kept["q_0.05"]) == (1.6785, 3.5438)
    assert kept["critical_difference"] == 11.2065


# By the paper's own means and critical difference: what differs from the best algorithm.
WORSE_THAN_THE_BEST = {
    "AP": ("ICRS4", {"ICRS6", "ICRS14", "CRS-Med", "Precedence Mining"}),
    "AUC": ("ICRS1", {"ICRS6", "ICRS10", "ICRS14", "CRS-Med", "CRS-Max"}),
    "NDCG": ("ICRS4", {"ICRS6", "ICRS10", "ICRS14", "CRS-Med", "Precedence Mining"}),
    "RR": ("CRS-Max", {"ICRS2", "ICRS6", "ICRS9", "ICRS10", "ICRS14", "Precedence Mining"}),
}


@pytest.mark.parametrize("metric", METRICS)
def test_what_the_paper_shows_to_differ(metric):
    ranks = average_ranks(column(metric, "mean"))
    differ = ranks - ranks.min() >= nemenyi_critical_difference(20, 7).cd
    best, worse = WORSE_THAN_THE_BEST[metric]
    assert ALGORITHMS[ranks.argmin()] == best
    assert set(np.array(ALGORITHMS)[differ]) == worse
