"""Adaptive calibration: sets at adapted levels; guarantees state what is not adapted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import surerec as sr
from surerec.conformal import AdaptiveLevel
from surerec.errors import InputError
from surerec.live import Live
from surerec.live._adaptive import AdaptiveCalibration

LATE = "2024-05-01T12:00:00Z"
ADAPTIVE = AdaptiveLevel((0.1, 0.2), (0.04, 0.3), (3, 4), n=20, user_days=9)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)


@pytest.fixture(scope="module")
def fitted(films):
    stock = {"stock": films.items.ids[:20].to_list()}
    return sr.PopulationConformal("CM12").fit(films, item_lists=stock).model_


@pytest.fixture(scope="module")
def adapted(fitted):
    calibration = AdaptiveCalibration(fitted.calibration, ADAPTIVE, "2024-05-01T00:00:00")
    return replace(fitted, calibration=calibration)


def test_sets_are_those_of_the_adapted_levels(films, fitted, adapted):
    for user in films.users.ids[:10]:
        for nominal, level in ((0.1, 0.04), (0.2, 0.3), (0.15, 0.15)):
            mine = adapted.recommend(user, significance=nominal)
            assert mine.items == fitted.recommend(user, significance=level).items
            assert mine.significance == nominal
        whole = adapted.recommend(user, significance=0.1).to_frame()
        inside = whole.filter(whole["entry_confidence"] < 0.8)["item_id"].to_list()
        assert inside == adapted.recommend(user, significance=0.2).items


def test_single_and_batch_answers_agree(films, adapted):
    users = films.users.ids.gather(np.flatnonzero(np.diff(films.offsets) > 8)[:12]).to_list()
    many = adapted.recommend_many(users, confidence=0.9)
    assert many["covered"].all()
    for user in users:
        rows, one = many.filter(many["user_id"] == user), adapted.recommend(user).to_frame()
        assert rows["item_id"].to_list() == one["item_id"].to_list()
        np.testing.assert_array_equal(rows["entry_confidence"], one["entry_confidence"])
        of_items = adapted.p_values(user, items=one["item_id"].to_list())
        np.testing.assert_array_equal(of_items["entry_confidence"], one["entry_confidence"])
        if not len(one):
            continue
        level = adapted.level(adapted.query(user), int(films.items.code(one["item_id"][0])))
        assert level == 1 - one["entry_confidence"][0]
    assert not adapted.recommend_many(users[:2], confidence=0.85)["covered"].any()


def test_unadapted_answers_are_marked(films, fitted, adapted):
    user, some = films.users[3], films.items.ids[:30].to_list()
    for options in ({"items": some}, {"min_probability": 0.05}, {"item_list": "stock"}):
        mine, theirs = (each.recommend(user, **options) for each in (adapted, fitted))
        assert mine.to_frame().equals(theirs.to_frame())
        note = "Calibrated on 2024-05-01, not adapted to events since then."
        assert note in str(mine.guarantee)
        assert note in str(adapted.guarantee_to_all(adapted.options(**options)))
        assert note not in str(theirs.guarantee)
    group_guarantee = adapted.recommend(group=films.users.ids[:2].to_list())
    assert str(group_guarantee.guarantee).endswith("not adapted to events since then.")
    assert "not adapted" not in str(
        adapted.recommend(user, confidence=0.9, k=3, exclude=some[:2]).guarantee
    )
    assert "In the long run, at most" in str(
        adapted.guarantee_to_all(adapted.options(confidence=0.9))
    )


def test_live_segments(films, tmp_path):
    country = {user: "AT" if user % 3 else "DE" for user in films.users.ids}
    model = sr.PopulationConformal(segments="country").fit(films, user_segments=country)
    known, history = films.users[4], films.items.ids[:6].to_list()
    later = [{"user": 9_999, "item": item, "time": LATE} for item in history]
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        item = live.recommend(known, confidence=0.9).items[0]
        assert live.observe({"user": known, "item": item, "time": LATE}).evaluated == 1
        live.observe(later)
        event = {"user": 9_999, "item": films.items[9], "time": LATE}
        assert live.observe(event).not_evaluated == {"unknown segment": 1}
        assert "the country of this user is unknown" in str(live.recommend(9_999).guarantee)
        assert "In the long run" in str(live.recommend(9_999, segment="DE").guarantee)
        assert "In the long run" in str(live.recommend(history=history, segment="DE").guarantee)
        before = live.forget(films.users[int(model.calibration_.users[0])])
        assert before.calibrated
        live.refit()
        refitted = live._state.growing.model
        assert refitted.segments.label(refitted.profiles().users.code(known)) == country[known]
        assert "In the long run" in str(live.recommend(known).guarantee)
    with Live(tmp_path / "shop", refit=False) as reopened:
        assert "the country of this user is unknown" in str(reopened.recommend(9_999).guarantee)


def test_item_lists_return_with_a_refit_after_a_calibration_user_is_forgotten(films, tmp_path):
    stock = {"stock": films.items.ids[:20].to_list()}
    model = sr.PopulationConformal("CM12").fit(films, item_lists=stock)
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        live.forget(films.users[int(model.calibration_.users[0])])
        with pytest.raises(InputError, match="no item list 'stock'"):
            live.recommend(films.users[5], item_list="stock")
        live.refit()
        assert "'stock'" in str(live.recommend(films.users[5], item_list="stock").guarantee)
