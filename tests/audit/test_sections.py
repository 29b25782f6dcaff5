"""Sections of an audit: new users, probabilities, groups who choose together, point in time."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.errors import InputError
from surerec.measures import MeasureScorer
from tests.contracts.support import popular
from tests.evaluation.memoriser import Memoriser


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=150, n_rows=7_000, sequels=0, seed=4)


@pytest.fixture(scope="module")
def found(films):
    return audit(films, n_users=300, as_of=True)


def test_new_users_come_first_and_decide(found):
    kinds = [verdict.kind for verdict in found.verdicts]
    kinds = [kind for kind in kinds if not kind.endswith("-as-of")]
    assert kinds[:2] == ["new-miss-score", "new-hit-rank"]
    assert {"miss-score", "miss-rank", "hit-rank"} < set(kinds)
    at = found.coverage.filter(kind="new-miss-score", epsilon=0.1).to_dicts()[0]
    assert f"{100 * at['delivered']:.1f} %" in found.overall


def test_an_honest_measure_has_no_findings(found):
    assert found.findings == []
    assert not found.support["leak"].any()


def test_a_leak_is_a_finding(films):
    found = audit(films, Memoriser, n_users=200)
    assert {verdict.kind: verdict.verdict for verdict in found.verdicts}["new-miss-score"] == (
        "does not hold"
    )
    first, *others = found.findings
    assert first.startswith("The leave-one-out estimate and the new-user test differ by")
    assert any("other users consumed" in each for each in others)
    assert any(each.startswith("Precision@10") for each in others)
    assert "Findings" in found.to_html()


def test_probabilities_are_audited_for_all_and_for_groups(found):
    table = found.probabilities
    assert set(table["by"]) == {"all", "top", "known items", "popularity", "rank"}
    everything = table.row(0, named=True)
    assert abs(everything["said"] - everything["happened"]) < 0.03
    assert everything["log_loss"] < everything["log_loss_by_rank"]
    bins = found.reliability.filter(pl.col("by") == "all")
    assert len(bins) == 15
    assert bins["n"].max() - bins["n"].min() <= 1
    weighted = ((bins["said"] - bins["happened"]).abs() * bins["n"]).sum() / bins["n"].sum()
    assert weighted == pytest.approx(everything["calibration_error"])


def test_every_promise_is_tested_for_the_sizes_it_is_offered_for(found):
    sizes = {
        promise: sorted(part["size"].unique())
        for (promise,), part in found.together.group_by("promise")
    }
    assert sizes["any"] == sizes["worst"] == [2, 4, 8]
    assert sizes["all"] == sizes["hit-all"] == [2]
    assert set(sizes["most"]) <= {2, 4}
    kept = found.together.filter(pl.col("verdict") == "does not hold")
    assert not len(kept), kept


def test_members_are_counted_as_the_promise_to_the_worst_says(found):
    worst = found.together.filter(pl.col("promise") == "worst", pl.col("size") == 2)
    np.testing.assert_allclose(worst["least_served"], worst["delivered"], atol=0.02)
    assert (worst["members"] >= worst["least_served"]).all()


def test_who_cannot_be_left_out_is_said(films):
    found = audit(films, popular, n_users=250)
    assert found.together is None
    assert any("Groups of users are left out" in said for said in found.skipped)


def test_point_in_time_comes_first_and_hindsight_is_said(found):
    more = {"miss-rank-as-of", "miss-score-as-of", "hit-rank-as-of"}
    assert {verdict.kind for verdict in found.verdicts[:3]} == more
    assert found.coverage["kind"][0].endswith("-as-of")
    assert any("as of then: Counted up to the start of each of 12 blocks" in s for s in found.notes)
    assert "used what other users did later" in found.notes[-1]
    page = found.to_html()
    assert "used what other users did later" in page
    assert "New users: miss rate, cut by score" in page
    assert "Groups who choose together" in page


def test_below_the_floor_there_is_no_size(films):
    rows = films.to_frame().with_row_index()
    late = pl.col("datetime") > pl.col("datetime").median()
    item = pl.when(late & (pl.col("index") % 3 == 0)).then(pl.format("new {}", "index"))
    item = item.otherwise("item_id").cast(pl.String).alias("item_id")
    data = sr.read_interactions(rows.select("user_id", item, "datetime"))
    found = audit(data, n_users=200, window=30, as_of=True)
    floors = found.coverage.filter(pl.col("kind") == "miss-rank-as-of")["floor"]
    assert floors.n_unique() == 1
    assert floors[0] > 0.1
    user_level = found.coverage.filter(~pl.col("kind").str.starts_with("item"))
    for row in user_level.to_dicts():
        assert (row["size"] is None) == (row["epsilon"] + 1e-9 < row["floor"])
    page = found.to_html()
    assert f"≥ {np.ceil(1000 * floors[0]) / 1000:.3f}" in page
    assert "the smallest ε that any set can guarantee" in page
    assert ">nan<" not in page


def test_what_may_know_the_futures_is_not_counted_as_of_then(films):
    fitted = MeasureScorer(sr.count_precedence(films), "CM12")
    found = audit(films, fitted, n_users=60, as_of=True)
    assert any("comes fitted" in why and "as of then" in why for why in found.skipped)
    assert any("New users are left out" in why for why in found.skipped)
    with pytest.raises(InputError, match="as_of"):
        audit(films, as_of="yes")
