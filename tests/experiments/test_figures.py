import xml.etree.ElementTree as ET

import polars as pl
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from surerec.evaluation import cd_groups
from surerec.experiments import ALGORITHMS
from surerec.experiments._algorithms import EXTRA
from surerec.experiments._comparison import paper_average_ranks, paper_friedman, ranks_table
from surerec.experiments._figures import _bars, _lines, _plans, _ranks, _sweeps
from surerec.experiments._timing import PLAIN
from surerec.reports.figures import plain, render, styled
from tests.experiments.made_up import metrics_table, results, times_table


def plan_names(made):
    return [name for name, _ in _plans(made, ranks_table(made.metrics), 10)]


def test_every_data_set_and_metric_has_its_figures():
    names = plan_names(results())
    for kind in ("truth", "validity", "efficiency", "curves", "tuning-top", "tuning-shares"):
        assert [name for name in names if name.startswith(f"{kind}-")] == [
            f"{kind}-first",
            f"{kind}-ml-10m",
        ]
    assert {"top-k", "cd-ap", "cd-auc", "cd-ndcg", "cd-rr", "times", "growth"} <= set(names)


def test_what_was_left_out_has_no_figure():
    names = plan_names(results(times=False, tuning=False))
    assert "times" not in names
    assert "growth" not in names
    assert not [name for name in names if name.startswith("tuning")]


def test_a_figure_comes_in_three_formats_and_is_the_same_when_drawn_again():
    made = results()
    table = made.validity.filter(pl.col("dataset") == "first")
    with styled():
        once, again = (render(_lines.truth(table, "Costs $5, _and_ so on")) for _ in range(2))
    assert once["png"].startswith(b"\x89PNG")
    assert once["pdf"].startswith(b"%PDF")
    ET.fromstring(once["svg"])  # noqa: S314
    assert once["svg"] == again["svg"]


def test_the_truth_is_drawn_with_its_diagonal_and_bands_of_two_standard_errors():
    made = results()
    table = made.validity.filter(pl.col("dataset") == "first")
    axes = _lines.truth(table, "x").axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["error = ε, the promise"].get_xdata()) == [0, 1]
    mean = lines["ICRS12 (mean ratio), in time order"]
    at = list(mean.get_xdata()).index(0.2)
    assert mean.get_ydata()[at] == pytest.approx(0.26)
    random = lines["ICRS12 (mean ratio), random split"]
    assert random.get_ydata()[at] == pytest.approx(0.18)
    minimum = lines["ICRS2 (minimum count), in time order"]
    assert minimum.get_ydata()[at] == pytest.approx(0.14)
    band = axes.collections[1].get_paths()[0].vertices
    heights = sorted(y for x, y in band if x == pytest.approx(0.2))
    assert heights[0] == pytest.approx(0.26 - 0.008)
    assert heights[-1] == pytest.approx(0.26 + 0.008)


@pytest.mark.parametrize("draw", [_lines.validity, _lines.efficiency])
def test_the_measures_of_the_paper_are_shown_in_both_splits(draw):
    table = results().validity.filter(pl.col("dataset") == "first")
    figure = draw(table, "x")
    assert [axes.get_title() for axes in figure.axes] == ["in time order", "random split"]
    for axes in figure.axes:
        labels = [line.get_label().split(" ")[0] for line in axes.get_lines()]
        assert labels[:5] == ["ICRS1", "ICRS3", "ICRS7", "ICRS11", "ICRS15"]
        styles = {(line.get_linestyle(), line.get_marker()) for line in axes.get_lines()[:5]}
        assert len(styles) == 5 or len({marker for _, marker in styles}) == 5


def test_a_diagram_names_every_algorithm_and_its_critical_difference():
    ranks = paper_average_ranks("ap")
    cd = paper_friedman()["critical_difference"]
    figure = _ranks.critical_differences([_ranks.Diagram("AP", ranks, cd)])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert "CD = 11.21" in words
    assert "ICRS4  4.00" in words
    assert "18.86  ICRS14" in words
    assert sum(name in text for name in ALGORITHMS for text in words) >= len(ALGORITHMS)


def test_the_groups_are_those_of_scikit_posthocs():
    posthocs = pytest.importorskip("scikit_posthocs")
    pandas = pytest.importorskip("pandas")
    cd = paper_friedman()["critical_difference"]
    for metric in ("ap", "auc", "ndcg", "rr"):
        ranks = paper_average_ranks(metric)
        names = list(ranks)
        p_values = [[0.0 if abs(ranks[a] - ranks[b]) >= cd else 1.0 for a in names] for b in names]
        drawn = posthocs.critical_difference_diagram(
            ranks, pandas.DataFrame(p_values, names, names), ax=Figure().subplots()
        )
        bars = [bar[0].get_xdata() for bar in drawn["crossbars"]]
        theirs = {(round(min(bar), 6), round(max(bar), 6)) for bar in bars}
        values = list(ranks.values())
        ours = {
            (round(values[group[0]], 6), round(values[group[-1]], 6))
            for group in cd_groups(values, cd)
        }
        assert ours == theirs


def test_bars_have_the_heights_of_the_table():
    table = metrics_table(["first", "second"])
    figure = _bars.top_k(table, {"first": "First", "second": "Second"}, 10)
    precision = table.filter(
        pl.col("split") == "time", pl.col("metric") == "precision", pl.col("dataset") == "second"
    )
    expected = dict(precision.select("algorithm", "mean").iter_rows())
    bars = figure.axes[0].containers
    heights = [patch.get_height() for patch in bars[-1].patches]
    assert heights == [expected[name] for name in (*ALGORITHMS, EXTRA)]
    assert [axes.get_ylabel() for axes in figure.axes] == ["precision@10", "recall@10", "F1@10"]


def test_times_are_on_a_logarithmic_scale_with_both_forms_of_crs_max():
    figure = _bars.times(times_table(["first"]), {"first": "First"})
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names.index(PLAIN) == names.index("CRS-Max") + 1
    middle = axes.get_lines()[0].get_xdata()
    assert middle[names.index(PLAIN)] == pytest.approx(3.6)


def test_growth_and_tuning_show_exponents_and_values():
    made = results()
    figure = _sweeps.growth(made.growth)
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "CRS-Max: 1.00" in legend
    shares = _sweeps.shares(made.tuning.filter(pl.col("dataset") == "first"), "x")
    assert [text.get_text() for text in shares.axes[0].texts] == ["0.200"] * 4
    tops = _sweeps.tops(made.tuning.filter(pl.col("dataset") == "first"), "x")
    assert [label.get_text() for label in tops.axes[0].get_xticklabels()] == ["1", "2", "all"]


def test_a_slope_that_was_not_fitted_is_said_so():
    growth = results().growth.with_columns(slope=pl.lit(None, pl.Float64))
    legend = _sweeps.growth(growth).axes[0].get_legend().get_texts()
    assert legend[0].get_text() == "Precedence Mining: not fitted"


def test_names_are_read_as_they_are():
    assert plain("a $x$ b") == r"a \$x\$ b"
    assert plain("_hidden") == " _hidden"
    assert plain("x" * 50) == "x" * 39 + "…"
