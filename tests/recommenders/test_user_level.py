"""Groups by a column of people's own: the promise holds in each."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import observe, profile_cases
from surerec.recommenders import refitted

N_ITEMS = 80


def segments(n_users, random_state):
    """Two segments: "sure" people go through the same few items, "odd" ones take anything."""
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


def missed(model, interactions, segment, wanted, confidence):
    """What people of a segment who did not calibrate lose on average."""
    shares = []
    for user in interactions.users.ids:
        if segment[user] != wanted:
            continue
        consumed = interactions.profile(user)["item_id"].to_list()
        known, future = consumed[:12], set(consumed[12:])
        group = wanted if model.model_.segments is not None else None
        picks = model.recommend(history=known, segment=group, confidence=confidence)
        shares.append(len(future - set(picks.items)) / len(future))
    return float(np.mean(shares))


def test_a_promise_that_fails_in_a_segment_holds_in_it_with_groups(two):
    films, segment = two
    others, theirs = segments(400, random_state=4)
    plain = sr.PopulationConformal("CM12", threshold="rank").fit(films)
    apart = sr.PopulationConformal("CM12", threshold="rank", segments="segment")
    apart.fit(films, user_segments=segment)
    assert missed(plain, others, theirs, "odd", 0.8) > 0.35  # promised: 0.2
    assert missed(plain, others, theirs, "sure", 0.8) < 0.2
    for wanted in ("odd", "sure"):
        assert missed(apart, others, theirs, wanted, 0.8) == pytest.approx(0.2, abs=0.035)


def test_each_threshold_is_that_of_a_slow_reference(two):
    films, segment = two
    model = sr.PopulationConformal("CM12", threshold="rank", segments="segment")
    model.fit(films, user_segments=segment)
    statistics = model.statistics_
    outcomes = observe(model.scorer_, statistics, profile_cases(films, 0.4))
    for wanted in ("odd", "sure"):
        losses = []
        for case, user in enumerate(outcomes.cases.users):
            if segment[films.users[user]] == wanted:
                losses.append(outcomes.ranks[outcomes.owners == case])
        smallest = next(
            size
            for size in range(N_ITEMS + 1)
            if (sum((ranks > size).mean() for ranks in losses) + 1) / (len(losses) + 1) <= 0.2
        )
        history = films.items.ids[:12].to_list()
        picks = model.recommend(history=history, segment=wanted, confidence=0.8)
        assert len(picks) == smallest
        assert f"users with segment '{wanted}'" in str(picks.guarantee)
        assert f"the {len(losses)} calibration users" in str(picks.guarantee)


def test_hit_thresholds_are_those_of_crepes(two):
    crepes = pytest.importorskip("crepes")
    films, segment = two
    model = sr.PopulationConformal(
        "CM12", guarantee="hit", horizon=1, threshold="rank", segments="segment"
    ).fit(films, user_segments=segment)
    outcomes = observe(model.scorer_, model.statistics_, profile_cases(films, 1))
    bins = np.array([segment[films.users[user]] for user in outcomes.cases.users])
    mondrian = crepes.ConformalRegressor().fit(outcomes.ranks, bins=bins)
    for wanted in ("odd", "sure"):
        interval = mondrian.predict_int(np.zeros(1), bins=np.array([wanted]), confidence=0.8)
        history = films.items.ids[:19].to_list()
        picks = model.recommend(history=history, segment=wanted, confidence=0.8)
        assert len(picks) == min(int(interval[0, 1]), picks.n_candidates)


def test_who_has_no_group_is_promised_nothing(two):
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
        ("country", pl.DataFrame({"who": [0], "country": ["DE"]}), "no user column"),
        ("country", {"x": "DE"}, "no country of any of the 800 users"),
        ("country", pl.DataFrame({"user": [0, 0], "country": ["a", "b"]}), "in two groups"),
        ("country", "no such file.csv", "no such file"),
        ("", None, "segments is ''"),
        (("country", 0), None, "the number in segments is 0"),
        ((3, "country"), None, "segments is"),
    ],
)
def test_segments_that_cannot_be_used(two, segments, given, said):
    with pytest.raises(sr.InputError, match=said):
        sr.PopulationConformal(segments=segments).fit(two[0], user_segments=given)


def test_groups_go_along_when_it_is_recalibrated_or_audited(two):
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
    assert len(audit(model).groups)


def test_histories_have_a_column_of_groups(two):
    films, segment = two
    model = sr.PopulationConformal("CM12", threshold="rank", segments="segment")
    model.fit(films, user_segments=segment)
    consumed = films.items.ids[:8].to_list()
    rows = [(who, item, who) for who in ("odd", "sure", "new") for item in consumed]
    people = pl.DataFrame(rows, schema=["user", "item", "segment"], orient="row")
    with pytest.warns(sr.HistoriesWarning, match="1 user is without a guarantee.*'new'"):
        many = model.recommend_many(histories=people, confidence=0.8)
    sizes = dict(many.group_by("user_id").len().iter_rows())
    for who in ("odd", "sure", "new"):
        assert sizes[who] == len(model.recommend(history=consumed, segment=who, confidence=0.8))
    assert sizes["odd"] > sizes["sure"]
    for given in ({"ann": consumed}, films):
        with pytest.raises(sr.InputError, match="with a column 'segment'"):
            model.recommend_many(histories=given, confidence=0.8)
