"""Probabilities of items, precision, item lists and short lists."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.calibration import ItemProbabilities, Ranking, profile_cases
from surerec.errors import InputError
from surerec.measures import Query


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=600, n_items=80, n_rows=18_000, random_state=2)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal("CM12").fit(films)


@pytest.fixture(scope="module")
def precise(films):
    return sr.PopulationConformal("CM12", guarantee="precision").fit(films)


def slow_rows(model):
    """Count one calibration user's candidates by bin, item by item."""
    probabilities, users = model.model_.calibration.probabilities, model.calibration_
    interactions = model.statistics_.interactions
    for place in (0, 7, 31):
        user, n_known = int(users.users[place]), int(users.n_known[place])
        consumed = interactions.consumed(user).astype(np.int64)
        scores = model.scorer_.score(consumed[:n_known], without_user=user)
        outside = model.statistics_.items_outside(consumed[:n_known])
        ranking = Ranking.of(outside, scores, scores, model.statistics_.popularity)
        w, edges = probabilities.weights, probabilities.edges
        counts, hits = np.zeros(len(edges) + 1, int), np.zeros(len(edges) + 1, int)
        for rank, (item, share) in enumerate(zip(ranking.items, ranking.shares, strict=True), 1):
            at = w[0] * np.log(share) - w[1] * np.log(rank) + w[2] * np.log(n_known)
            counts[(edges <= at).sum()] += 1
            hits[(edges <= at).sum()] += item in consumed[n_known:]
        yield place, counts, hits


def test_candidates_are_counted_by_bin_with_the_user_left_out(model):
    probabilities = model.model_.calibration.probabilities
    for place, counts, hits in slow_rows(model):
        assert counts.tolist() == probabilities.counts[place].tolist()
        assert hits.tolist() == probabilities.hits[place].tolist()


def halves(films, horizon=0.4):
    """Return the data of every other user, and what the rest knew and consumed next."""
    half, ids = np.arange(0, films.n_users, 2), films.items.ids
    cases = profile_cases(films, horizon)
    places = np.flatnonzero(np.isin(cases.users, half))
    known = (ids.gather(cases.known(case)).to_list() for case in places)
    later = (ids.gather(cases.future(case)).to_list() for case in places)
    return films.without_users(half), list(zip(known, later, strict=True))


@pytest.mark.parametrize("which", [0, 1])
def test_probabilities_do_not_depend_on_the_users_own_future(model, which):
    """If a calibration user consumed everything, their probabilities must not change."""
    calibrated = model.model_.calibration
    probabilities = calibrated.probabilities
    place = int(np.flatnonzero(probabilities.chooses == bool(which))[3])
    hits = probabilities.hits.copy()
    hits[place] = probabilities.counts[place]
    other = ItemProbabilities(**{**probabilities.state().arrays, "hits": hits})
    shares = np.geomspace(0.1, 1e-4, 60)
    result, same = (each.probabilities(shares, 9, place) for each in (probabilities, other))
    np.testing.assert_allclose(np.stack(result), np.stack(same), rtol=1e-6)


def test_missing_probabilities_are_null_and_pass_no_filter(model, precise):
    """A user of whom too little is known has no probability: a filter must not show their items."""
    asked = model.recommend_many(histories={"new": [1, 2]}, confidence=0.9, k=5, hits=True)
    alone = model.recommend(history=[1, 2], confidence=0.9, k=5).to_frame()
    plain = model.recommend_many(histories={"new": [1, 2]}, confidence=0.9, k=5)
    for frame in (asked, alone, plain):
        assert len(frame) == 5
        assert frame["probability"].null_count() == 5
        assert not len(frame.filter(pl.col("probability") > 0.3))
    assert not len(asked.filter(pl.col("at_least_1") > 0.3))
    assert not len(asked.filter(pl.col("expected_hits") > 0.3))
    assert not len(precise.p_values(7).filter(pl.col("entry_confidence") > 0.3))
    assert model.recommend(history=[1, 2], k=3).to_frame()["probability"].null_count() == 3


def test_min_probability_filters_items_and_voids_the_guarantee(model):
    whole = model.recommend(user=7, confidence=0.95).to_frame()
    median = float(whole["probability"].median())
    picks = model.recommend(user=7, confidence=0.95, min_probability=median)
    assert picks.items == whole.filter(pl.col("probability") >= median)["item_id"].to_list()
    assert picks.guarantee.full is not None
    many = model.recommend_many([7, 9], confidence=0.95, min_probability=median)
    assert len(many)
    assert many.filter(user_id=7)["item_id"].to_list() == picks.items


def test_probabilities_are_refused_where_there_are_none(films, model):
    with pytest.raises(InputError, match="InductiveConformal has no probabilities of items"):
        sr.InductiveConformal().fit(films).recommend(user=7, confidence=0.8, min_probability=0.1)
    with pytest.raises(InputError, match=r"min_probability is 20; .*did you mean 0.2"):
        model.recommend(user=7, confidence=0.8, min_probability=20)
    few = model.recommend(history=[3, 5], confidence=0.8, min_probability=0.1)
    assert few.items == []
    assert "this user has 2 known items" in few.about_probability


# ---- precision


def test_a_level_that_cannot_be_reached_is_refused_with_the_best_that_can(precise):
    why = r"A precision of 0.99 .* Request at most 0\.\d\d"
    with pytest.raises(InputError, match=why) as caught:
        precise.recommend(user=7, precision=0.99)
    best = float(str(caught.value).rsplit(" ", 1)[1].rstrip("."))
    assert precise.recommend(user=7, precision=best).precision == best
    with pytest.raises(InputError, match="cannot be guaranteed"):
        precise.recommend(user=7, precision=best + 0.005)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"precision": 1}, "precision is 1; it must be a number between 0 and 1"),
        ({"precision": 50}, "did you mean 0.5"),
        ({"precision": 0.2, "confidence": 1.5}, "confidence is 1.5; it must be between 0 and 1"),
        ({"confidence": 0.9}, "This recommender guarantees precision. Pass the share"),
        (
            {"precision": 0.2, "item_list": "stock"},
            "There is no item list 'stock'. Add it with add_item_list",
        ),
        ({"precision": 0.2, "items": "12"}, "it must be a list of item ids"),
        ({"precision": 0.2, "items": [12, 9998, 9999]}, "2 of 3 items are unknown: 9998, 9999"),
    ],
)
def test_invalid_precision_requests(precise, asked, sentence):
    with pytest.raises(InputError, match=sentence):
        precise.recommend(user=7, **asked)


def test_a_recommender_of_another_promise_has_no_precision(model, films):
    with pytest.raises(InputError, match="guarantees recall, not precision"):
        model.recommend(user=7, precision=0.3)
    with pytest.raises(InputError, match="does not guarantee precision"):
        sr.InductiveConformal().fit(films).recommend(user=7, precision=0.3)


def test_too_few_calibration_users_for_a_precision(films):
    few = sr.PopulationConformal("CM12", guarantee="precision", n_calibration=24).fit(films)
    with pytest.raises(InputError, match="its test needs at least 51 calibration users"):
        few.recommend(user=7, precision=0.05 + 0.9)
    none = sr.PopulationConformal("CM12", guarantee="precision", n_calibration=10).fit(films)
    with pytest.raises(InputError, match="probabilities: they need at least 20 calibration users"):
        none.recommend(user=7, precision=0.2)


def test_too_few_calibration_users_for_probabilities(films):
    few = sr.PopulationConformal("CM12", n_calibration=10).fit(films)
    found = few.recommend(user=7, confidence=0.8)
    assert found.to_frame()["probability"].is_null().all()
    assert "at least 20 calibration users" in found.about_probability
    with pytest.raises(InputError, match="at least 20 calibration users"):
        few.recommend(user=7, confidence=0.8, min_probability=0.1)
    with pytest.raises(InputError, match="this model has fewer"):
        few.add_item_list("some", [1, 2])


def test_a_calibration_user_gets_the_threshold_tested_without_them(precise):
    users = precise.calibration_
    user = int(users.users[11])
    found = precise.model_.assess(
        Query.of_user(precise.statistics_.interactions, user),
        options=precise.model_.options(precision=0.3),
    )
    own = found.own
    assert found.served._members[own] == 11
    slow = found.served._test.passed(0.3, without=own)
    assert (found.bins >= slow.threshold).tolist() == found.included(0.1).tolist()


# ---- which items


def test_given_items_restrict_a_set_without_a_guarantee(model):
    whole = model.recommend(user=7, confidence=0.9)
    some = whole.items[1::2]
    picks = model.recommend(user=7, confidence=0.9, items=[*some, *some])
    assert picks.items == some
    assert picks.guarantee.full is not None
    many = model.recommend_many([7], confidence=0.9, items=some)
    assert many["item_id"].to_list() == some


@pytest.fixture(scope="module")
def listed(films):
    some = films.items.ids.to_list()[1::3]
    return some, sr.PopulationConformal("CM12").fit(films, item_lists={"some": some})


def test_an_item_list_has_its_own_guarantee(films):
    fitted, others = halves(films)
    some = films.items.ids.to_list()[1::3]
    model = sr.PopulationConformal("CM12").fit(fitted, item_lists={"some": some})
    missed = []
    for known, later in others:
        next_ = [item for item in later if item in some]
        if next_:
            shown = model.recommend(history=known, confidence=0.8, item_list="some").items
            assert set(shown) <= set(some)
            missed.append(1 - np.mean([item in shown for item in next_]))
    assert abs(np.mean(missed) - 0.2) < 0.05


def test_lists_are_saved_and_renewed(listed, tmp_path):
    some, model = listed
    model.save(tmp_path / "model")
    same = sr.load(tmp_path / "model")
    one, two = (each.recommend(user=7, confidence=0.8, item_list="some") for each in (model, same))
    assert one.to_frame().equals(two.to_frame())
    same.add_item_list("some", some[:9])
    assert set(same.recommend(user=7, confidence=0.8, item_list="some").items) <= set(some[:9])


def test_lists_live_through_recalibration(films):
    then = films.until(int(np.quantile(films.times, 0.7)))
    some = then.items.ids.to_list()[::2]
    model = sr.PopulationConformal("CM12").fit(then, item_lists={"half": some}).recalibrate(films)
    assert set(model.recommend(user=7, confidence=0.8, item_list="half").items) <= set(some)
    fresh = sr.PopulationConformal("CM12").fit(then).recalibrate(films).add_item_list("half", some)
    one, two = (
        each.recommend(user=7, confidence=0.8, item_list="half").items for each in (model, fresh)
    )
    assert one == two
    kept = sr.PopulationConformal("CM12").fit(then).recalibrate(films, refit=False)
    with pytest.raises(InputError, match="recalibrated without a refit"):
        kept.add_item_list("half", some)


@pytest.mark.parametrize(
    ("name", "items", "sentence"),
    [
        ("some", [], "items is empty"),
        ("some", [777], "There is no item 777"),
        ("some", [1, 777, 778], "2 of 3 items are unknown"),
        ("in stock", [1, 2], "'in stock' is not a valid name"),
    ],
)
def test_impossible_lists_are_refused(model, name, items, sentence):
    with pytest.raises(InputError, match=sentence):
        model.add_item_list(name, items)


def test_unknown_items_of_a_list_are_skipped_counted_and_named(model, films):
    stock = films.items.ids.to_list()[::2]
    new = [*stock, *(f"new-{n}" for n in range(6))]
    warned = (
        rf"^6 of {len(new)} items are unknown and were skipped: 'new-0', 'new-1', 'new-2', "
        r"'new-3', 'new-4', …\.$"
    )
    with pytest.warns(sr.LeftOutWarning, match=warned):
        model.add_item_list("new", new)
    assert model.item_lists_["new"] == model.add_item_list("stock", stock).item_lists_["stock"]
    asked = {"history": films.items.ids.to_list()[:9]}
    last = films.items.ids.to_list()[-3:]
    with pytest.warns(sr.LeftOutWarning, match="1 of 4 items is unknown"):
        picks = model.recommend(**asked, items=[*last, "new-0"], confidence=0.8)
    assert picks.items == model.recommend(**asked, items=last, confidence=0.8).items
    mostly = [*stock[:2], 901, 902, 903]
    with pytest.warns(sr.LeftOutWarning, match="3 of 5"):
        model.add_item_list("few", mostly, unknown="skip")
    assert sorted(model.item_lists_["few"]) == sorted(stock[:2])


# ---- budgeted lists


def test_a_short_list_has_its_probabilities(model):
    top = model.recommend(7, k=6)
    frame = model.recommend(7, confidence=0.999).to_frame().head(6)
    assert top.to_frame().equals(frame)
    assert top.expected_hits == pytest.approx(frame["probability"].sum())
    one, two, three = top.hit_probabilities
    low, high = top.hit_interval
    assert low <= top.hit_probability <= high
    assert top.hit_probability == one >= two >= three > 0
    assert "without repeats" in top.about_hit_probability
    assert top.confidence is None
    assert top.full_size == top.n_candidates
    assert top.guarantee.reason == f"this is a list of the {len(top)} best items"
    assert top.guarantee.full == model.recommend(7, confidence=0.9).guarantee


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"confidence": 0.8}, "up to 100 items. Pass k"),
        ({"k": 101}, "up to 100 items"),
        ({"k": 3, "items": [1, 2, 3, 4, 5, 6]}, "Omit items="),
        ({"k": 3, "exclude": [1]}, "Omit items=, exclude="),
        ({"k": 3, "min_probability": 0.1}, "Omit items=, exclude= and min_probability="),
        ({"k": 3, "confidence": 0.001}, "the list is empty"),
    ],
)
def test_other_lists_have_no_probability_of_a_hit_and_a_reason(model, asked, reason):
    found = model.recommend(7, **asked)
    assert (found.hit_probability, found.hit_interval, found.expected_hits) == (None, None, None)
    assert found.hit_probabilities == ()
    assert reason in found.about_hit_probability


def test_a_short_list_of_an_item_list_has_the_hits_of_that_list(films):
    some = films.items.ids[::2].to_list()
    listed = sr.PopulationConformal("CM12").fit(films, item_lists={"some": some})
    top = listed.recommend(7, k=4, item_list="some")
    assert set(top.items) <= set(some)
    assert "the list 'some'" in top.about_hit_probability
    rows = listed.recommend_many([7], k=4, item_list="some", hits=True)
    assert rows.row(0)[-5:-1] == (*top.hit_probabilities, top.expected_hits)


def test_hit_probabilities_are_calibrated_for_other_users(films):
    fitted, others = halves(films, horizon=5)
    model = sr.PopulationConformal("CM12", horizon=5).fit(fitted)
    said, happened, expected, hits = [], [], [], []
    for known, later in others:
        top = model.recommend(history=known, k=10)
        n_hits = len(set(top.items) & set(later))
        said.append(top.hit_probabilities)
        happened.append([n_hits >= n for n in (1, 2, 3)])
        expected.append(top.expected_hits)
        hits.append(n_hits)
    np.testing.assert_allclose(np.mean(said, axis=0), np.mean(happened, axis=0), atol=0.07)
    assert np.mean(expected) == pytest.approx(np.mean(hits), abs=0.15)


def test_batches_have_the_hit_probabilities_of_single_requests(model):
    frame = model.recommend_many([7, 9, 11], k=5, hits=True)
    assert frame.filter(user_id=9)["at_least_1"].is_null().all()  # too little is known of them
    for user in (7, 11):
        top, rows = model.recommend(user, k=5), frame.filter(user_id=user)
        assert rows["item_id"].to_list() == top.items
        assert rows.row(0)[-5:-1] == (*top.hit_probabilities, top.expected_hits)
    assert frame.columns[-5:-1] == ["at_least_1", "at_least_2", "at_least_3", "expected_hits"]
    with pytest.raises(InputError, match="lists of up to 100 items"):
        model.recommend_many([7], confidence=0.9, hits=True)
    with pytest.raises(InputError, match="Omit items="):
        model.recommend_many([7], confidence=0.9, k=3, items=[1], hits=True)
    with pytest.raises(InputError, match="has no probabilities of hits"):
        sr.InductiveConformal().fit(model.statistics_).recommend_many(
            [7], confidence=0.9, k=3, hits=True
        )


def test_hit_probabilities_do_not_depend_on_the_users_own_future(model):
    """Let one calibration user have no highly ranked hit."""
    calibrated, user = model.model_.calibration, int(model.calibration_.users[23])
    query = Query.of_user(model.statistics_.interactions, user)
    found = [model.model_.assess(query)]
    before = calibrated.list_hits([query], found, [5])
    ranks = calibrated.probabilities.hit_ranks.copy()
    ranks[23] = np.inf
    changed = ItemProbabilities(**{**calibrated.probabilities.state().arrays, "hit_ranks": ranks})
    after = dataclasses.replace(calibrated, probabilities=changed).list_hits([query], found, [5])
    np.testing.assert_allclose(before.probability, after.probability)


@pytest.fixture(scope="module")
def country(films):
    return {user: "AT" if user % 3 else "DE" for user in films.users.ids}


@pytest.fixture(scope="module")
def by_country(films, country):
    made = sr.PopulationConformal(guarantee="precision", segments="country")
    return made.fit(films, user_segments=country)


def test_each_segment_is_tested_by_its_own_users(by_country, films, country, tmp_path):
    history = films.items.ids[:8].to_list()
    users, probabilities = (
        by_country.calibration_.users,
        by_country.model_.calibration.probabilities,
    )
    found = {}
    for label in ("AT", "DE"):
        picks = by_country.recommend(history=history, segment=label, precision=0.15)
        assert f"over users with country '{label}' who are shown any" in str(picks.guarantee)
        mine = np.array([country[films.users[int(user)]] == label for user in users])
        n_testing = int((mine & ~probabilities.chooses).sum())
        assert f"as the {n_testing:,} calibration users who tested it" in str(picks.guarantee)
        found[label] = picks.items
    nobody = by_country.recommend(history=history, segment="CH", precision=0.15)
    assert str(nobody.guarantee).startswith("No guarantee: no calibration user has country 'CH'")
    assert nobody.to_frame()["probability"].is_not_nan().all()  # which is not by country
    by_country.save(tmp_path / "model")
    back = sr.load(tmp_path / "model")
    assert back.recommend(history=history, segment="DE", precision=0.15).items == found["DE"]


def test_probabilities_are_calibrated_for_other_users(films):
    fitted, others = halves(films)
    model = sr.PopulationConformal("CM12").fit(fitted)
    said, happened = [], []
    for known, later in others[:150]:
        frame = model.recommend(history=known, confidence=0.999).to_frame()
        said += frame["probability"].to_list()
        happened += frame["item_id"].is_in(later).to_list()
    assert abs(np.mean(said) - np.mean(happened)) < 0.01
    top = np.array(said) >= np.quantile(said, 0.95)
    assert abs(np.mean(np.array(said)[top]) - np.mean(np.array(happened)[top])) < 0.05
    assert np.mean(np.array(happened)[top]) > 1.5 * np.mean(happened)


def test_precision_holds_for_other_users(films):
    fitted, others = halves(films)
    model = sr.PopulationConformal("CM12", guarantee="precision").fit(fitted)
    shares = []
    for known, later in others:
        picks = model.recommend(history=known, precision=0.3)
        if len(picks):
            shares.append(np.mean([item in later for item in picks.items]))
    assert np.mean(shares) >= 0.3 - 0.03
    said = float(str(picks.guarantee).split("shown any (")[1].split("% are)")[0]) / 100
    assert abs(len(shares) / len(others) - said) < 0.12
