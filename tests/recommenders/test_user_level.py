"""Segments by a column of users: the guarantee holds in each."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import observe, profile_cases
from surerec.recommenders import refitted

N_ITEMS = 80


def segments(n_users, random_state):
    """Two segments: "sure" users consume the same few items, "odd" users any item."""
    rng = np.random.default_rng(random_state)
    rows, segment = [], {}
    for user in range(n_users):
        odd = user % 4 == 0
        segment[user] = "odd" if odd else "sure"
        consumed = rng.permutation(N_ITEMS if odd else 24)[:20]
        rows += [(user, int(item), at) for at, item in enumerate(consumed)]
    frame = pl.DataFrame(rows, schema=["user_id", "item_id", "timestamp"], orient="row")
    return sr.read_interactions(frame, time_format="s"), segment


@pytest.fixture(scope="module")
def two():
    return segments(800, random_state=3)


def missed(model, interactions, segment, label, confidence):
    """Return the mean loss of users of a segment who did not calibrate."""
    shares = []
    for user in interactions.users.ids:
        if segment[user] != label:
            continue
        consumed = interactions.profile(user)["item_id"].to_list()
        known, future = consumed[:12], set(consumed[12:])
        chosen = label if model.model_.segments is not None else None
        picks = model.recommend(history=known, segment=chosen, confidence=confidence)
        shares.append(len(future - set(picks.items)) / len(future))
    return float(np.mean(shares))


def test_a_guarantee_that_fails_in_a_segment_holds_with_segments(two):
    films, segment = two
    others, theirs = segments(400, random_state=4)
    plain = sr.PopulationConformal("CM12", threshold="rank").fit(films)
    apart = sr.PopulationConformal("CM12", threshold="rank", segments="segment")
    apart.fit(films, user_segments=segment)
    assert missed(plain, others, theirs, "odd", 0.8) > 0.35  # nominal: 0.2
    assert missed(plain, others, theirs, "sure", 0.8) < 0.2
    for label in ("odd", "sure"):
        assert missed(apart, others, theirs, label, 0.8) == pytest.approx(0.2, abs=0.035)


def test_users_without_a_segment_have_no_guarantee(two):
    films, segment = two
    some = {user: label for user, label in segment.items() if user > 20}
    model = sr.PopulationConformal(segments="segment").fit(films, user_segments=some)
    for asked, said in (
        ({"user": 5}, "No guarantee: the segment of this"),
        ({"user": 40}, "users with segment 'odd'"),
        ({"user": 40, "segment": "sure"}, "users with segment 'sure'"),
    ):
        assert said in str(model.recommend(**asked, confidence=0.8).guarantee)


@pytest.mark.parametrize(
    ("segments", "given", "said"),
    [
        ("segment", None, "fit needs the segment of each user"),
        (2, {0: "a"}, "segments is a number. Name their column"),
        ("contry", pl.DataFrame({"user": [0], "country": ["DE"]}), "no column 'contry'"),
        ("country", {"x": "DE"}, "no country for any of the 800 users"),
        ("country", pl.DataFrame({"user": [0, 0], "country": ["a", "b"]}), "has two segments"),
        ("", None, "segments is ''"),
        (("country", 0), None, "the number in segments is 0"),
        ((3, "country"), None, "segments is"),
    ],
)
def test_segments_that_cannot_be_used(two, segments, given, said):
    with pytest.raises(sr.InputError, match=said):
        sr.PopulationConformal(segments=segments).fit(two[0], user_segments=given)


def test_segments_survive_recalibration_and_audit(two):
    films, segment = two
    early = films.until(int(12 * 1e6))
    model = sr.PopulationConformal("CM12", segments="segment").fit(early, user_segments=segment)
    model.recalibrate(films)
    assert "users with segment 'odd'" in str(model.recommend(4, confidence=0.8).guarantee)
    flipped = {user: "odd" if label == "sure" else "sure" for user, label in segment.items()}
    other = sr.PopulationConformal("CM12", segments="segment").fit(early, user_segments=segment)
    other.recalibrate(films, refit=False, user_segments=flipped)
    assert "users with segment 'sure'" in str(other.recommend(4, confidence=0.8).guarantee)
    again = refitted(model, sr.count_precedence(films), threshold="rank")
    assert again.model_.segments.names == ("odd", "sure")
    assert len(audit(model).segments)


def test_histories_need_the_segment_column(two):
    films, segment = two
    model = sr.PopulationConformal("CM12", threshold="rank", segments="segment")
    model.fit(films, user_segments=segment)
    consumed = films.items.ids[:8].to_list()
    rows = [(who, item, who) for who in ("odd", "sure", "new") for item in consumed]
    histories = pl.DataFrame(rows, schema=["user", "item", "segment"], orient="row")
    with pytest.warns(sr.HistoriesWarning, match="1 user is without a guarantee.*'new'"):
        many = model.recommend_many(histories=histories, confidence=0.8)
    sizes = dict(many.group_by("user_id").len().iter_rows())
    for who in ("odd", "sure", "new"):
        assert sizes[who] == len(model.recommend(history=consumed, segment=who, confidence=0.8))
    assert sizes["odd"] > sizes["sure"]
    for given in ({"ann": consumed}, films):
        with pytest.raises(sr.InputError, match="with a column 'segment'"):
            model.recommend_many(histories=given, confidence=0.8)


def test_hit_thresholds_are_those_of_crepes(two):
    crepes = pytest.importorskip("crepes")
    films, segment = two
    model = sr.PopulationConformal(
        "CM12", guarantee="hit", horizon=1, threshold="rank", segments="segment"
    ).fit(films, user_segments=segment)
    outcomes = observe(model.scorer_, model.statistics_, profile_cases(films, 1))
    bins = np.array([segment[films.users[user]] for user in outcomes.cases.users])
    mondrian = crepes.ConformalRegressor().fit(outcomes.ranks, bins=bins)
    for label in ("odd", "sure"):
        interval = mondrian.predict_int(np.zeros(1), bins=np.array([label]), confidence=0.8)
        history = films.items.ids[:19].to_list()
        picks = model.recommend(history=history, segment=label, confidence=0.8)
        assert len(picks) == min(int(interval[0, 1]), picks.n_candidates)
