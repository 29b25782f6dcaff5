"""Wrapped models have probabilities, precision, short lists and named lists, too."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from tests.adapters.test_wrap import Popular, neighbours


@pytest.fixture(scope="module")
def near(halves):
    return neighbours(halves[0])


def wrapped(halves, near, **settings):
    return sr.wrap(near[0], items=near[1], **settings).calibrate(*halves)


def test_precision_is_promised_saved_and_refused(halves, near, tmp_path):
    sure = wrapped(halves, near, promise="precision")
    picks = sure.recommend(1, precision=0.15)
    assert (
        "is among items new to the user that they consume next on average over users of the fit"
        in str(picks.guarantee)
    )
    assert "Assumes that near learned nothing" in str(picks.guarantee)
    with pytest.raises(sr.InputError, match=r"cannot be promised to users of the fit here"):
        sure.recommend(1, precision=0.95)
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=near[0])
    assert back.recommend(1, precision=0.15).to_frame().equals(picks.to_frame())
    assert back.recommend(1, precision=0.15).guarantee == picks.guarantee


def test_named_lists_are_calibrated_before_saving(halves, near, tmp_path):
    some = near[1][::2]
    sure = wrapped(halves, near).allow("even", some)
    picks = sure.recommend(1, confidence=0.8, item_list="even")
    assert set(picks.items) <= set(some)
    assert "users of the fit who consume at least one of the 40 items of the list" in str(
        picks.guarantee
    )
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=near[0])
    assert back.recommend(1, confidence=0.8, item_list="even").to_frame().equals(picks.to_frame())
    with pytest.raises(sr.InputError, match="before saving it"):
        back.allow("odd", near[1][1::2])


@pytest.mark.filterwarnings("ignore::surerec.errors.StaleModelWarning")
@pytest.mark.parametrize("settings", [{}, {"covers": "fit"}, {"window": 60.0, "refit": True}])
def test_a_copy_that_is_fitted_here_has_them_as_well(films, settings):
    sure = sr.wrap(Popular(), **settings).fit(films, lists={"some": films.items.ids[:40]})
    history = films.profile(1)["item_id"].to_list()
    asked = {"history": history} if sure.covers_ == "newcomers" else {}
    held = set(sure.calibration_.users.tolist())
    user = next(code for code in range(films.n_users) if code not in held)
    asked = asked or {"user": films.users[user]}
    whole = sure.recommend(**asked, confidence=0.95)
    assert whole.to_frame()["probability"].is_not_nan().any()
    listed = sure.recommend(**asked, confidence=0.8, item_list="some")
    assert set(listed.items) <= set(films.items.ids[:40])
    assert "items of the list 'some'" in str(listed.guarantee)


def test_lists_of_the_best_have_no_probability_for_what_is_in_none(halves, near):
    past = halves[0]
    rows = []
    for user in range(past.n_users):
        known = [past.items[code] for code in past.taken(user)]
        scores = near[0]([known])[0] if known else np.zeros(len(near[1]))
        best = [place for place in np.argsort(-scores) if near[1][place] not in known][:20]
        rows += [(past.users[user], near[1][place], float(scores[place])) for place in best]
    frame = pl.DataFrame(rows, schema=["user_id", "item_id", "score"], orient="row")
    sure = sr.wrap(frame).calibrate(*halves)
    found = sure.recommend(1, confidence=0.01 if sure.floor_ < 0.9 else 0.05)
    assert len(found) <= 20
    query = sure.query(1)
    assessment = sure.model_.assess(query)
    listed = set(frame.filter(user_id=1)["item_id"])
    inside = np.array([sure.items_[int(code)] in listed for code in assessment.candidates])
    assert np.isnan(assessment.chances(np.flatnonzero(~inside)).probability).all()
    assert np.isfinite(assessment.chances(np.flatnonzero(inside)).probability).all()
