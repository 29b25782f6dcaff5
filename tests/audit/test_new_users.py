import pytest

import surerec as sr
from surerec.audit import audit
from surerec.measures import MeasureScorer
from tests.evaluation.memoriser import Memoriser


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=150, n_rows=7_000, sequels=0, seed=4)


@pytest.fixture(scope="module")
def found(films):
    return audit(films, "CM12", n_users=200)


def test_new_users_come_first_and_decide(found):
    kinds = [verdict.kind for verdict in found.verdicts]
    assert kinds[:2] == ["new-miss-score", "new-hit-rank"]
    assert {"miss-score", "miss-rank", "hit-rank"} < set(kinds)
    assert found.verdicts[0].kept
    assert found.coverage["kind"][0] == "new-miss-score"
    at = found.coverage.filter(kind="new-miss-score", epsilon=0.1).to_dicts()[0]
    assert f"{100 * at['delivered']:.1f} %" in found.overall


def test_an_honest_measure_has_no_findings(found):
    assert found.findings == []
    assert not found.support["leak"].any()


def test_the_report_shows_nominal_and_observed_and_the_diagnostic(found):
    page = found.to_html()
    assert "New users: miss rate, cut by score" in page
    assert page.index("other users who consumed the item") < page.index("Do later items conform")
    assert {"support", "ranking"} <= found.tables().keys()


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


def test_what_comes_fitted_says_why_new_users_are_left_out(films):
    scorer = MeasureScorer(sr.count_precedence(films), "CM12")
    found = audit(films, scorer, n_users=60)
    assert any("New users are left out" in each for each in found.skipped)
    assert found.support is None
