"""What nobody looks at is not computed, and whoever looks sees what there was."""

import copy

import pytest

import surerec as sr
from surerec.calibration._assessment import LaterAssessment

films = sr.datasets.synthetic(n_users=100, n_items=80, n_rows=2_000, seed=2)


@pytest.mark.parametrize("measure", ["CM3", "CM4", "CM12"])
def test_a_set_knows_its_size_without_an_order(measure, monkeypatch):
    model = sr.InductiveConformal(measure).fit(films)
    expected = [len(model.recommend(user, confidence=0.8).to_frame()) for user in range(1, 30)]

    def nobody(*_args):
        raise AssertionError("nobody looked")

    monkeypatch.setattr(LaterAssessment, "ordered", nobody)
    found = [model.recommend(user, confidence=0.8) for user in range(1, 30)]
    assert [len(picks) for picks in found] == expected
    assert [picks.full_size for picks in found] == expected
    assert all(len(model.recommend(user, confidence=0.8, k=3)) <= 3 for user in range(1, 30))
    with pytest.raises(AssertionError, match="nobody looked"):
        found[0].to_frame()


def test_a_copy_of_a_set_has_its_columns():
    picks = sr.InductiveConformal("CM12").fit(films).recommend(5, confidence=0.8, k=7)
    twin = copy.deepcopy(picks)
    assert twin.to_frame().equals(picks.to_frame())
    assert len(twin) == len(picks) == len(picks.columns["item_id"])
