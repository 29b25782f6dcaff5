import re
import sys
from dataclasses import replace

import polars as pl
import pytest

from surerec.errors import InputError
from surerec.evaluation import dataset_ranks
from surerec.experiments import ALGORITHMS
from surerec.experiments._algorithms import EXTRA
from surerec.experiments._comparison import (
    PAPER_NAMES,
    comparison_table,
    friedman_table,
    paper_average_ranks,
    paper_means,
    ranks_table,
)
from surerec.experiments._report import _claims, _validity_claims, write_report
from surerec.experiments._report._extra import extra_section
from surerec.experiments._report._results import results_section, statistics_section
from surerec.reports import Strong
from tests.experiments.made_up import metrics_table, results, settings, times_table, validity_table
from tests.reports.page import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The report on two data sets, one of them of the paper; drawn as SVG only, to be quick."""
    style = pytest.importorskip("surerec.reports.figures", exc_type=ImportError)
    output = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "FORMATS", ("svg",))
        write_report(results(), settings(), output)
    return output


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_measures_outside_the_paper_stand_apart():
    found, titles = results(), {"first": "First", "ml-10m": "ML"}
    assert extra_section(found, titles) == []
    renamed = pl.lit("ICRS-als").alias("algorithm")
    extra, extra_validity = (
        table.filter(algorithm="ICRS3").with_columns(renamed)
        for table in (found.metrics, found.validity)
    )
    found = replace(found, extra=extra, extra_validity=extra_validity)
    _, words, first, _ = extra_section(found, titles)
    assert "no part in ranks" in words.text
    assert [row[0] for row in first.rows] == ["ICRS12", "ICRS-als"]
    assert first.header[1:6] == ("AP", "AUC", "NDCG", "RR", "missed at ε = 0.05")
    ap = extra.filter(dataset="first", split="time", metric="ap")["mean"].item()
    assert first.rows[1][1] == f"{ap:.3f}"
    assert len(first.rows[1]) == len(first.header)


def test_the_page_needs_no_other_file(page):
    assert page.links
    for link in page.links:
        assert link.startswith(("#", "data:image/svg+xml;base64,"))
        if link.startswith("#"):
            assert link[1:] in page.ids


def test_the_page_runs_no_script_and_fits_phone_and_dark(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "@import" not in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_markdown_links_figures_that_exist(folder):
    text = (folder / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((.+?)\)", text)
    assert links
    for link in links:
        assert (folder / link).with_suffix(".svg").is_file()


def test_nothing_is_left_aside(folder):
    assert not list(folder.rglob("*.part"))


def test_what_was_left_out_of_a_run_is_left_out_of_the_report(tmp_path, monkeypatch):
    figures = pytest.importorskip("surerec.experiments._figures", exc_type=ImportError)
    drawn = {"png": b"png", "svg": b"<svg/>", "pdf": b"pdf"}
    monkeypatch.setattr(figures, "render", lambda _: drawn)
    made = results(("only",), times=False, tuning=False)
    write_report(made, settings(("only",)), tmp_path)
    kinds = {path.suffix for path in (tmp_path / "figures").iterdir()}
    assert kinds == {".png", ".svg", ".pdf"}
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Execution time" not in text
    assert "## Tuning" not in text
    assert "need at least two data sets" in text
    assert not (tmp_path / "friedman.csv").exists()
    assert (tmp_path / "comparison.csv").is_file()


def test_one_user_gives_no_standard_errors_and_still_a_report(tmp_path, monkeypatch):
    figures = pytest.importorskip("surerec.experiments._figures", exc_type=ImportError)
    monkeypatch.setattr(figures, "render", lambda _: {"svg": b"<svg/>"})
    unknown = pl.lit(None, pl.Float64).alias("standard_error")
    made = results(("a/b c",), times=False, tuning=False)
    made = replace(
        made,
        metrics=made.metrics.with_columns(unknown),
        validity=made.validity.with_columns(unknown),
    )
    write_report(made, settings(("a/b c",)), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| ICRS4 | **0.199** | **1** |" in text
    assert (tmp_path / "figures" / "truth-a-b-c.svg").is_file()


def test_the_tables_are_written_as_csv_and_parquet(folder):
    for name in ("ranks", "friedman", "comparison"):
        table = pl.read_parquet(folder / f"{name}.parquet")
        assert pl.read_csv(folder / f"{name}.csv").shape == table.shape
    ranks = pl.read_parquet(folder / "ranks.parquet")
    assert ranks.height == 4 * 2 * 21


def test_numbers_and_ranks_of_the_result_table(page):
    header = ("algorithm", "Title of first", "rank", "Title of ml-10m", "rank")
    table = {row[0]: row[1:] for row in page.table(*header)[1:]}
    # Best are the mean measures: 0.20 less 0.0001 for each place in the list.
    assert table["ICRS4"] == ["**0.199 ± 0.013**", "**1**", "**0.189 ± 0.013**", "**1**"]
    assert table["ICRS8"][:2] == ["0.199 ± 0.013", "2"]
    assert table["ICRS1"][1] == table["ICRS5"][1] == "11.5"
    assert table["Precedence Mining"] == ["0.050 ± 0.013", "20", "0.050 ± 0.013", "20"]
    assert table[EXTRA] == ["0.170 ± 0.013", "–", "0.170 ± 0.013", "–"]


def test_all_that_tie_for_best_are_bold():
    table = metrics_table(["one"]).with_columns(
        mean=pl.when(pl.col("algorithm").is_in(["ICRS2", "ICRS9"]))
        .then(0.7 + 1e-16)
        .otherwise(pl.col("mean"))
    )
    made = results_section(ranks_table(table), {"one": "One"})[2]
    bold = [row[0] for row in made.rows if isinstance(row[1], Strong)]
    assert bold == ["ICRS2", "ICRS9"]
    assert made.rows[4][1:] == ("0.700 ± 0.013", "1.5")


def test_ranks_are_those_of_the_evaluation():
    table = ranks_table(metrics_table(["one", "two"]))
    ap = table.filter(pl.col("metric") == "ap", pl.col("algorithm") != EXTRA)
    wide = ap.pivot("algorithm", index="dataset", values="mean").drop("dataset")
    expected = dataset_ranks(wide.to_numpy().round(12))
    found = ap.pivot("algorithm", index="dataset", values="rank").drop("dataset")
    assert found.to_numpy().tolist() == expected.tolist()
    assert table.filter(pl.col("algorithm") == EXTRA)["rank"].null_count() == 8


def test_the_paper_stands_beside_ours_where_it_has_the_data_set():
    table = comparison_table(ranks_table(metrics_table(["first", "ml-10m"])))
    row = table.row(
        by_predicate=(pl.col("dataset") == "ml-10m")
        & (pl.col("metric") == "ap")
        & (pl.col("algorithm") == "ICRS8"),
        named=True,
    )
    assert row["paper"] == 0.19
    assert row["difference"] == pytest.approx(row["ours"] - 0.19)
    other = table.filter(pl.col("dataset") == "first", pl.col("metric") == "ap")
    assert other["paper"].null_count() == other["difference"].null_count() == 20
    mining = other.row(0, named=True)
    assert (mining["paper_lowest"], mining["paper_highest"]) == (0.01, 0.19)


def test_the_page_shows_difference_and_range(page):
    beside = page.table("algorithm", "AP", "paper", "difference", *_triple())
    row = next(row for row in beside if row[0] == "ICRS8")
    assert row[1:4] == ["0.189", "0.19", "−0.00"] or row[1:4] == ["0.189", "0.19", "+0.00"]
    ranges = page.table("algorithm", "AP", "paper", "AUC", "paper", "NDCG", "paper", "RR", "paper")
    assert ranges[1][:3] == ["Precedence Mining", "0.050", "0.01–0.19"]


def _triple():
    return [word for name in ("AUC", "NDCG", "RR") for word in (name, "paper", "difference")]


def test_the_papers_table_is_read_as_printed():
    assert set(PAPER_NAMES) == set(paper_means("ap")["dataset"])
    found = paper_means("rr").filter(pl.col("dataset") == "flixster", algorithm="CRS-Max")
    assert found["paper"].item() == 0.92
    assert paper_average_ranks("ap")["ICRS4"] == pytest.approx(4.0)


def test_friedman_needs_two_data_sets():
    assert friedman_table(ranks_table(metrics_table(["one"]))) is None
    table = friedman_table(ranks_table(metrics_table(["one", "two", "three"])))
    assert table["datasets"].to_list() == [3] * 4
    assert table["cd"][0] == pytest.approx(17.1182, abs=1e-3)
    words = statistics_section(ranks_table(metrics_table(["one", "two"])))[1].text
    assert "cannot tell any two algorithms apart" in words


# What the report says of the paper's claims turns with the numbers.


def ranks(**strength):
    order = {"mean": 0.2, "median": 0.18, "maximum": 0.15, "minimum": 0.12, "not inductive": 0.16}
    return ranks_table(metrics_table(["One"], order | strength))


def test_mean_and_median_best():
    claim = _claims.mean_and_median_are_best(ranks())
    assert claim.verdict == "holds"
    assert "in all of 4 cases" in claim.text
    # Ranks 1–4, 5–8, 11–15 without the two CRS, 16–19.
    assert "mean 2.5, median 6.5, maximum 13.0 and minimum 17.5" in claim.text
    turned = _claims.mean_and_median_are_best(ranks(maximum=0.3))
    assert turned.verdict == "does not hold"
    assert "none of 4 cases" in turned.text
    assert "AP on One, AUC on One, NDCG on One and RR on One" in turned.text


def test_minimum_worst():
    claim = _claims.minimum_is_worst(ranks())
    assert claim.verdict == "holds"
    assert "in AP on One, and in AUC on One" in claim.text
    turned = _claims.minimum_is_worst(ranks(minimum=0.3))
    assert turned.verdict == "does not hold"
    assert "in AP on no data set" in turned.text


def test_a_claim_that_holds_on_one_of_two_data_sets_holds_in_part():
    good = metrics_table(["Good"])
    bad = metrics_table(["Bad"], {**_strength(), "minimum": 0.3})
    claim = _claims.minimum_is_worst(ranks_table(pl.concat([good, bad])))
    assert claim.verdict == "holds in part"
    assert "4 of 8 cases; not in AP on Bad" in claim.text


def _strength():
    return {"mean": 0.2, "median": 0.18, "maximum": 0.15, "minimum": 0.12, "not inductive": 0.16}


def test_precedence_mining_last():
    claim = _claims.conformal_beats_precedence_mining(ranks())
    assert claim.verdict == "holds"
    # Mean and median measures are above 0.17.
    assert claim.points == (
        "One: 19 of 19 than the plain product (0.050), 8 than the variant with I = 1 (0.170).",
    )
    turned = _claims.conformal_beats_precedence_mining(ranks(minimum=0.01))
    assert turned.verdict == "holds in part"
    assert turned.points[0].startswith("One: 15 of 19")


@pytest.mark.parametrize(
    ("sorted_search", "as_in_paper", "verdict"),
    [(3.0, 9.0, "holds"), (1.2, 9.0, "holds in part"), (0.8, 1.5, "does not hold")],
)
def test_speed_gives_the_factor_of_both_forms(sorted_search, as_in_paper, verdict):
    claim = _claims.inductive_is_faster(times_table(["One"], sorted_search, as_in_paper))
    assert claim.verdict == verdict
    assert f"{sorted_search:.1f} times as long with sorted search" in claim.points[0]
    assert f"{as_in_paper:.1f} times as long in the paper's" in claim.points[0]
    assert "not faster than Precedence Mining" in claim.text


def test_speed_against_each_rival_is_said_in_words():
    claim = _claims.inductive_is_faster(times_table(["One"], 1.2, 9.0, mining=3.0))
    assert "at least 9.0 times as fast as the paper's form of CRS-max" in claim.text
    assert "CRS-max with sorted search, but by as little as 1.2 times" in claim.text
    assert "at least 3.0 times as fast as Precedence Mining" in claim.text
    both = pl.concat([times_table(["One"], mining=0.5), times_table(["Two"], mining=2.5)])
    text = _claims.inductive_is_faster(both).text
    assert "faster than Precedence Mining on some data and not on other" in text


def test_validity_that_is_broken_in_time_order_and_kept_at_random():
    table = validity_table(["One"], {"time": 1.3, "random": 0.9})
    claim = _validity_claims.valid_in_time_order(table)
    assert claim.verdict == "does not hold"
    point = claim.points[0]
    assert point.startswith("One: 13 of 17, most ICRS1 with an error of 0.650 at ε = 0.5")
    assert "ICRS2, ICRS6, ICRS10 and ICRS14 do not" in point
    assert "at ε = 0.2 they hold 1,600 items on average, the others 800" in point
    assert "CRS-Med (0.650 at ε = 0.5) and CRS-Max (0.650 at ε = 0.5)" in point
    random = _validity_claims.valid_at_random(table)
    assert random.verdict == "holds"
    assert random.points == ("One: none of 17.",)
    assert "later items conform less" in random.text


def test_validity_that_is_kept_in_time_order_and_broken_at_random():
    table = validity_table(["One"], {"time": 0.9, "random": 1.3})
    assert _validity_claims.valid_in_time_order(table).verdict == "holds"
    random = _validity_claims.valid_at_random(table)
    assert random.verdict == "does not hold"
    assert "later items conform less" not in random.text


def test_an_error_within_two_standard_errors_does_not_exceed():
    table = validity_table(["One"], {"time": 1.01})
    assert not _validity_claims.excesses(table.with_columns(standard_error=pl.lit(0.0026)))
    found = _validity_claims.excesses(table.with_columns(standard_error=pl.lit(0.0024)))
    assert {excess.epsilon for excess in found} == {0.5}
    assert len(found) == 19 - 4
    unknown = table.with_columns(standard_error=pl.lit(None, pl.Float64))
    assert len(_validity_claims.excesses(unknown)) == 19 - 4


def test_a_few_measures_that_exceed_are_a_part():
    table = validity_table(["One"], {"time": 0.9})
    one = pl.when(pl.col("algorithm") == "ICRS3").then(0.99).otherwise(pl.col("validity_error"))
    claim = _validity_claims.valid_in_time_order(table.with_columns(validity_error=one))
    assert claim.verdict == "holds in part"
    assert claim.points[0].startswith("One: 1 of 17, most ICRS3 with an error of 0.990 at ε = 0.05")


def test_efficiency():
    table = validity_table(["One"])
    claim = _validity_claims.efficient(table)
    assert claim.verdict == "does not hold"
    assert "0.540 to 0.540 on One" in claim.text
    small = table.with_columns(efficiency_error=pl.col("efficiency_error") / 2)
    assert _validity_claims.efficient(small).verdict == "holds"


def test_the_noise_floor():
    claim = _claims.noise_floor(ranks())
    assert claim.verdict == "for comparison"
    assert "here they do" in claim.text
    assert "0.01 in AP, 0.02 in AUC, 0.01 in NDCG and 0.01 in RR" in claim.text
    apart = ranks().with_columns(
        mean=pl.when(pl.col("algorithm") == "ICRS5").then(0.5).otherwise(pl.col("mean"))
    )
    assert _claims.noise_floor(apart).verdict == "does not hold"
    assert "differ by up to" in _claims.noise_floor(apart).text


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"install surerec\[plots\]"):
        write_report(results(), settings(), tmp_path)


def test_the_order_of_the_paper_is_kept(page):
    rows = page.table("algorithm", "Title of first", "rank", "Title of ml-10m", "rank")[1:]
    assert [row[0] for row in rows] == [*ALGORITHMS, EXTRA]
