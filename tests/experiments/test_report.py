import sys
from dataclasses import replace

import polars as pl
import pytest

from surerec.errors import InputError
from surerec.experiments import ALGORITHMS, _claims
from surerec.experiments._report import report_blocks, write_report
from surerec.experiments._study import EXTRA, comparison_table, friedman_table, ranks_table
from surerec.reports import Strong, Table
from tests.experiments import small_results
from tests.experiments.small_results import STRENGTH, metrics_table, results, validity_table
from tests.reports.page import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The report on two data sets, one of them of the paper; only SVG figures, for speed."""
    style = pytest.importorskip("surerec.reports.figures", exc_type=ImportError)
    output = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "FORMATS", ("svg",))
        write_report(results(), small_results.settings(), output)
    return output


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture
def quick(monkeypatch):
    """Skip rendering, which takes seconds."""
    figures = pytest.importorskip("surerec.experiments._figures", exc_type=ImportError)
    drawn = {"png": b"png", "svg": b"<svg/>", "pdf": b"pdf"}
    monkeypatch.setattr(figures, "render", lambda _: drawn)


def tables(made, names=("first", "ml-10m")):
    blocks = report_blocks(made, ranks_table(made.metrics), small_results.settings(names))
    return {block.caption: block for block in blocks if isinstance(block, Table)}


@pytest.mark.usefixtures("quick")
def test_skipped_parts_are_missing_in_the_report(tmp_path):
    made = results(("only",), times=False)
    write_report(made, small_results.settings(("only",)), tmp_path)
    kinds = {path.suffix for path in (tmp_path / "figures").iterdir()}
    assert kinds == {".png", ".svg", ".pdf"}
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Execution time" not in text
    assert "they need at least two" in text
    assert not (tmp_path / "friedman.csv").exists()
    assert (tmp_path / "comparison.csv").is_file()


@pytest.mark.usefixtures("quick")
def test_one_user_has_a_report_without_standard_errors(tmp_path):
    unknown = pl.lit(None, pl.Float64).alias("standard_error")
    made = results(("a/b c",), times=False)
    without = {name: getattr(made, name).with_columns(unknown) for name in ("metrics", "validity")}
    write_report(replace(made, **without), small_results.settings(("a/b c",)), tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">ICRS4</th><td><b>0.199</b></td><td><b>1</b></td>' in text
    assert (tmp_path / "figures" / "validity-a-b-c.svg").is_file()


def test_means_and_ranks_of_the_result_table(page):
    header = ("algorithm", "Title of first", "rank", "Title of ml-10m", "rank")
    rows = page.table(*header)[1:]
    assert [row[0] for row in rows] == [*ALGORITHMS, EXTRA]
    table = {row[0]: row[1:] for row in rows}
    # Mean measures are best: 0.20 minus 0.0001 for each position in the list.
    assert table["ICRS4"] == ["**0.199 ± 0.013**", "**1**", "**0.189 ± 0.013**", "**1**"]
    assert table["ICRS8"][:2] == ["0.199 ± 0.013", "2"]
    assert table["ICRS1"][1] == table["ICRS5"][1] == "11.5"
    assert table["Precedence Mining"] == ["0.050 ± 0.013", "20", "0.050 ± 0.013", "20"]
    assert table[EXTRA] == ["0.170 ± 0.013", "–", "0.170 ± 0.013", "–"]


def test_ties_for_the_best_are_bold():
    made, best = results(("one",)), pl.col("algorithm").is_in(["ICRS2", "ICRS9"])
    metrics = made.metrics.with_columns(
        mean=pl.when(best).then(0.7 + 1e-16).otherwise(pl.col("mean"))
    )
    found = tables(replace(made, metrics=metrics), ("one",))["AP"]
    assert [row[0] for row in found.rows if isinstance(row[1], Strong)] == ["ICRS2", "ICRS9"]
    assert found.rows[4][1:] == ("0.700 ± 0.013", "1.5")


def test_the_comparison_has_the_data_sets_of_the_paper(page):
    table = comparison_table(ranks_table(metrics_table(["first", "ml-10m"])))
    row = table.filter(dataset="ml-10m", metric="ap", algorithm="ICRS8").row(0, named=True)
    assert row["paper"] == 0.19
    assert row["difference"] == pytest.approx(row["ours"] - 0.19)
    other = table.filter(dataset="first", metric="ap")
    assert other["paper"].null_count() == other["difference"].null_count() == 20
    names = ("AP", "AUC", "NDCG", "RR")
    triple = [word for name in names for word in (name, "paper", "difference")]
    assert page.table("algorithm", *triple)[2][0] == "CRS-Med"


def test_friedman_needs_two_data_sets_and_tables_are_written(folder):
    assert friedman_table(ranks_table(metrics_table(["one"]))) is None
    table = friedman_table(ranks_table(metrics_table(["one", "two", "three"])))
    assert table["datasets"].to_list() == [3] * 4
    assert table["cd"][0] == pytest.approx(17.1182, abs=1e-3)
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "test then finds no difference" in text
    for name in ("ranks", "friedman", "comparison"):
        table = pl.read_parquet(folder / f"{name}.parquet")
        assert pl.read_csv(folder / f"{name}.csv").shape == table.shape


# The verdicts on the paper's claims.


def ranks(**strength):
    return ranks_table(metrics_table(["One"], STRENGTH | strength))


def good_and_bad():
    bad = metrics_table(["Bad"], STRENGTH | {"minimum": 0.3})
    return ranks_table(pl.concat([metrics_table(["Good"]), bad]))


def validity(time=1.3, random=0.9, **changed):
    table = validity_table(["One"], {"time": time, "random": random})
    return table.with_columns(**changed)


def one_above():
    one = pl.when(pl.col("algorithm") == "ICRS3").then(0.99).otherwise(pl.col("validity_error"))
    return validity(0.9, validity_error=one)


best, worst = _claims.mean_and_median_are_best, _claims.minimum_is_worst
beats, faster = _claims.conformal_beats_precedence_mining, _claims.inductive_is_faster
in_time, at_random = _claims.valid_in_time_order, _claims.valid_at_random
CLAIMS = [
    # Ranks 1–4, 5–8, 11–15 without the two CRS, 16–19.
    (best, ranks(), "holds", "all of 4 cases",
     "mean 2.5, median 6.5, maximum 13.0 and minimum 17.5"),
    (worst, ranks(), "holds", "in AP on One, and in AUC on One"),
    (worst, good_and_bad(), "holds in part", "4 of 8 cases", "not in AP on Bad"),
    # Mean and median measures are above 0.17.
    (beats, ranks(), "holds",
     "One: 19 of 19 beat the plain product (0.050), 8 beat the variant with I = 1 (0.170)."),
    (beats, ranks(minimum=0.01), "holds in part", "One: 15 of 19"),
    (faster, small_results.times_table(["One"]), "holds", "3.0 times as long with sorted search",
     "9.0 times as long in the paper's"),
    (faster, small_results.times_table(["One"], 1.2, 9.0, mining=3.0), "holds in part"),
    (faster, small_results.times_table(["One"], 0.8, 1.5), "does not hold"),
    (in_time, validity(), "does not hold",
     "One: 13 of 17, worst ICRS1 with an observed error of 0.650 at ε = 0.5",
     "not ICRS2, ICRS6, ICRS10 and ICRS14",
     "CRS-Med (0.650 at ε = 0.5) and CRS-Max (0.650 at ε = 0.5)"),
    (at_random, validity(), "holds", "One: none of 17.", "later items conform less"),
    (in_time, one_above(), "holds in part",
     "One: 1 of 17, worst ICRS3 with an observed error of 0.990 at ε = 0.05"),
    (_claims.efficient, validity(), "does not hold", "0.540 to 0.540 on One"),
    (_claims.efficient, validity(efficiency_error=pl.col("efficiency_error") / 2), "holds"),
]  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS, ids=lambda case: f"{case[0].__name__}-{case[2]}")
def test_the_verdict_on_a_claim(case):
    claim, table, verdict, *phrases = case
    found = claim(table)
    assert found.verdict == verdict
    text = " ".join([found.text, *found.points])
    for phrase in phrases:
        assert phrase in text


@pytest.mark.parametrize(("error", "n_above"), [(0.0026, 0), (0.0024, 15), (None, 15)])
def test_errors_within_two_standard_errors_do_not_exceed(error, n_above):
    table = validity_table(["One"], {"time": 1.01})
    found = _claims.excesses(table.with_columns(standard_error=pl.lit(error, pl.Float64)))
    assert set(found["epsilon"]) <= {0.5}
    assert len(found) == n_above


def test_the_error_without_matplotlib_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"Install surerec\[plots\]"):
        write_report(results(), small_results.settings(), tmp_path)
