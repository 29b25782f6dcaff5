import xml.etree.ElementTree as ET
from functools import partial

import polars as pl
import pytest

pytest.importorskip("matplotlib")

from surerec.experiments import ALGORITHMS, _figures
from surerec.experiments._study import EXTRA, paper_average_ranks, paper_tables, ranks_table
from surerec.reports.figures import plain, render, styled
from tests.experiments.small_results import metrics_table, results

RESULTS = results()
CD = paper_tables()["friedman"]["critical_difference"]


def of_first(table):
    return table.filter(pl.col("dataset") == "first")


def test_all_data_sets_and_metrics_have_figures():
    names = list(_figures.plans(RESULTS, ranks_table(RESULTS.metrics), 10))
    for kind in ("validity", "efficiency"):
        assert {f"{kind}-first", f"{kind}-ml-10m"} <= set(names)
    assert {"top-k", "cd-ap", "cd-auc", "cd-ndcg", "cd-rr", "times"} <= set(names)
    without = results(times=False)
    left = set(names) - set(_figures.plans(without, ranks_table(without.metrics), 10))
    assert {name.split("-")[0] for name in left} == {"times"}


def test_a_figure_is_rendered_in_three_formats_and_reproducibly():
    given = of_first(RESULTS.validity), "Costs $5, _and_", "validity_error"
    draw = partial(_figures.by_split, *given)
    with styled():
        once, again = (render(draw()) for _ in range(2))
    assert once["png"].startswith(b"\x89PNG")
    assert once["pdf"].startswith(b"%PDF")
    ET.fromstring(once["svg"])  # noqa: S314
    assert once["svg"] == again["svg"]


def test_a_diagram_names_all_algorithms_and_the_critical_difference():
    figure = _figures.critical_differences([("AP", paper_average_ranks("ap"), CD)])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert figure.axes[0].get_title() == "AP (CD = 11.21)"
    assert {"ICRS4  4.00", "18.86  ICRS14"} <= set(words)
    assert sum(name in text for name in ALGORITHMS for text in words) >= len(ALGORITHMS)


def test_bar_heights_equal_the_table():
    table = metrics_table(["first", "second"])
    figure = _figures.top_k(table, {"first": "First", "second": "Second"}, 10)
    precision = table.filter(split="time", metric="precision", dataset="second")
    expected = dict(precision.select("algorithm", "mean").iter_rows())
    heights = [patch.get_height() for patch in figure.axes[0].containers[-1].patches]
    assert heights == [expected[name] for name in (*ALGORITHMS, EXTRA)]
    assert [axes.get_ylabel() for axes in figure.axes] == ["precision@10", "recall@10", "F1@10"]


def test_names_are_escaped_and_shortened():
    assert [plain("a $x$ b"), plain("_hidden")] == [r"a \$x\$ b", " _hidden"]
    assert plain("x" * 50) == "x" * 39 + "…"
