"""Sections of an audit: new users, item probabilities and groups."""

import re

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from tests.calibration.test_declaration import Undeclared
from tests.contracts.support import popular


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=150, n_rows=7_000, sequels=0, random_state=4)


@pytest.fixture(scope="module")
def found(films):
    return audit(films, n_users=300)


def test_new_users_come_first_and_decide(found):
    kinds = [verdict.kind for verdict in found.verdicts]
    assert kinds[:2] == ["new-recall-score", "new-hit-rank"]
    assert {"recall-score", "recall-rank", "hit-rank"} < set(kinds)
    at = found.coverage.filter(kind="new-recall-score", epsilon=0.1).to_dicts()[0]
    assert f"{100 * at['observed']:.1f}%" in found.overall
    assert found.findings == []
    assert not found.support["leak"].any()


def test_a_leak_is_a_finding(films):
    found = audit(films, Undeclared, n_users=200)
    verdicts = {verdict.kind: verdict.verdict for verdict in found.verdicts}
    assert verdicts["new-recall-score"] == "does not hold"
    first, *others = found.findings
    assert re.match(r"Recall of new users is [\d.]+% at ε = .* below the leave-one-out", first)
    assert any("other users consumed" in each for each in others)
    assert "Findings" in found.to_html()


def test_item_probabilities_are_audited(found):
    rows = {row["group"]: row for row in found.probabilities.to_dicts()}
    assert {"top 10", "all items", "a hit in the top 10"} <= set(rows)
    for row in rows.values():
        assert abs(row["predicted"] - row["observed"]) < 4 * row["error"]


def test_group_guarantees_are_tested_for_the_sizes_they_cover(found):
    sizes = {
        guarantee: sorted(part["members"].unique())
        for (guarantee,), part in found.group_guarantees.group_by("guarantee")
    }
    assert sizes["any"] == sizes["worst"] == [2, 4, 8]
    assert sizes["all"] == sizes["hit-all"] == [2]
    assert set(sizes["most"]) <= {2, 4}
    failed = found.group_guarantees.filter(pl.col("verdict") == "does not hold")
    assert not len(failed), failed


def test_the_page_notes_that_scores_used_later_interactions(found):
    page = found.to_html()
    assert "used later interactions of other users" in page
    assert "New users: recall, score threshold" in page
    assert ">Groups</h2>" in page


def test_set_sizes_are_missing_below_the_floor(films):
    rows = films.to_frame().with_row_index()
    late = pl.col("datetime") > pl.col("datetime").median()
    item = pl.when(late & (pl.col("index") % 3 == 0)).then(pl.format("new {}", "index"))
    item = item.otherwise("item_id").cast(pl.String).alias("item_id")
    data = sr.read_interactions(rows.select("user_id", item, "datetime"))
    found = audit(data, n_users=200, window=30)
    floors = found.coverage.filter(pl.col("kind") == "temporal-1")["floor"]
    assert floors.n_unique() == 1
    assert floors[0] > 0.1
    user_level = found.coverage.filter(~pl.col("kind").str.starts_with("item"))
    for row in user_level.to_dicts():
        assert (row["size"] is None) == (row["epsilon"] + 1e-9 < row["floor"])
    page = found.to_html()
    assert f"≥ {np.ceil(1000 * floors[0]) / 1000:.3f}" in page
    assert "the smallest ε that any set can guarantee" in page
    assert ">nan<" not in page


def test_sections_that_a_scorer_does_not_allow_are_skipped(films):
    found = audit(films, popular, n_users=250)
    assert found.group_guarantees is None
    assert any("Groups of users are left out" in why for why in found.skipped)
