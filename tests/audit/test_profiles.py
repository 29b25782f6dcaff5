"""Findings on near-duplicate users and bots, and none on clean data."""

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.audit._profiles import bot_like, near_duplicates, profile_findings
from tests.audit.audited_data import with_bots, with_duplicates


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=600, n_items=2_000, n_rows=24_000, random_state=3)


def jaccard(data, one, other):
    first, second = set(data.consumed(one).tolist()), set(data.consumed(other).tolist())
    return len(first & second) / len(first | second)


@pytest.mark.parametrize("kept", [1.0, 0.9])
def test_exactly_the_near_duplicates_are_found(films, kept):
    data = with_duplicates(films, 0.1, kept=kept)
    lengths = np.diff(data.offsets)
    long = np.flatnonzero(lengths >= 10)
    expected = {
        int(user)
        for user in long
        if any(other != user and jaccard(data, user, other) >= 0.8 for other in long)
    }
    found = set(near_duplicates(data).tolist())
    assert len(expected) > 50
    assert found <= expected
    assert len(found) >= 0.98 * len(expected)


@pytest.mark.parametrize("n_bots", [1, 20])
@pytest.mark.parametrize("n_items", [900, 2_000])
def test_exactly_the_bots_are_found(films, n_bots, n_items):
    data = with_bots(films, n_bots, min(n_items, films.n_items))
    assert bot_like(data).tolist() == list(range(films.n_users, data.n_users))


@pytest.mark.parametrize("random_state", range(5))
@pytest.mark.parametrize(
    ("n_users", "n_items", "n_rows"),
    [(800, 80, 16_000), (600, 60, 9_000), (1_000, 400, 30_000), (500, 1_500, 20_000)],
)
def test_clean_data_have_no_finding(n_users, n_items, n_rows, random_state):
    data = sr.datasets.synthetic(
        n_users=n_users, n_items=n_items, n_rows=n_rows, random_state=random_state
    )
    assert profile_findings(data) == []


@pytest.mark.registry
def test_movielens_has_no_finding():
    assert profile_findings(sr.load_dataset("ml-100k")) == []


def test_an_audit_reports_near_duplicates(films):
    duplicated = audit(with_duplicates(films, 0.3), n_users=400)
    (finding,) = duplicated.findings
    assert "share at least 80% of their items with another user" in finding
    assert "Merge duplicate accounts" in finding
    assert finding.split("(")[1].split(")")[0].count(",") == 5  # five ids and an ellipsis
    assert "may fail for users without a near-duplicate" in duplicated.overall
    verdicts = {each.kind: each for each in duplicated.verdicts}
    assert not {"holds", "conservative"} & {each.verdict for each in verdicts.values()}
    recall = verdicts["recall-rank"]
    assert recall.verdict == "holds in part"
    assert "may fail for users without a near-duplicate in the data" in recall.sentence
    assert duplicated.tables()["findings"]["finding"].to_list() == [finding]


def test_an_audit_reports_bots(films):
    found = audit(with_bots(films, 30, 1_000), n_users=100)
    assert found.findings[0].startswith("30 of ")
    assert "look like bots" in found.findings[0]
    assert "601, 602, 603, 604, 605, …" in found.findings[0]
    assert "users who are not bots" in found.overall
    pytest.importorskip("matplotlib")
    assert "look like bots" in found.to_html()
