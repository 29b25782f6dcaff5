"""Wrapped functions and classes: answers, coverage, storage and refusals."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec._words import DAY
from surerec.storage import read_card
from tests.contracts.support import Refitted


def neighbours(past):
    """Return a function from histories of ids to scores, and the ids in the order of the scores."""
    ids = sorted(past.items.ids.to_list())
    place = {each: number for number, each in enumerate(ids)}
    consumed = np.zeros((past.n_users, len(ids)))
    for user in range(past.n_users):
        consumed[user, [place[past.items[code]] for code in past.consumed(user)]] = 1
    similarity = consumed.T @ consumed / np.maximum(consumed.sum(axis=0), 1)

    def near(histories):
        return np.stack([similarity[[place[each] for each in h]].sum(axis=0) for h in histories])

    return near, ids


@pytest.fixture(scope="module")
def by_similarity(halves):
    return neighbours(halves[0])


def test_a_function_from_histories_to_scores(halves, by_similarity, tmp_path):
    past, future = halves
    near, ids = by_similarity
    sure = sr.wrap(near, items=ids).calibrate(past, future)
    user = past.users[1]
    picks = sure.recommend(user, confidence=0.8)
    history = past.profile(user)["item_id"].to_list()
    scores = dict(zip(ids, near([history])[0], strict=True))
    ranked = sorted(set(ids) - set(history), key=lambda each: -scores[each])
    assert [scores[each] for each in picks.items] == [scores[each] for each in ranked[: len(picks)]]
    assert "over users of the fit" in str(picks.guarantee)
    sure.save(tmp_path / "near")
    back = sr.load(tmp_path / "near", scorer=near)
    assert back.recommend(user, confidence=0.8).to_frame().equals(picks.to_frame())
    with pytest.raises(sr.InputError, match="is not the calibrated model"):
        sr.load(tmp_path / "near", scorer=lambda histories: -near(histories))


def test_a_function_of_one_history_scores_as_one_of_a_list(halves, by_similarity):
    past, future = halves
    near, ids = by_similarity
    similarity = np.stack([near([[each]])[0] for each in ids])
    place = {each: number for number, each in enumerate(ids)}

    def by_index(history):  # with a list of lists of one length, it gives a table
        return similarity[np.vectorize(place.get)(history)].sum(axis=0)

    def strict(history):
        return near([history])[0]

    expected = sr.wrap(near, items=ids).calibrate(past, future)
    for function in (by_index, strict):
        sure = sr.wrap(function, items=ids).calibrate(past, future)
        for ask in ({"user": past.users[1]}, {"history": ids[:2]}, {"history": ids[:1]}):
            picks, others = (each.recommend(**ask, confidence=0.8) for each in (sure, expected))
            assert picks.items == others.items

    def failing(_):
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        sr.wrap(failing, items=ids).calibrate(past, future)


def test_a_copy_is_fitted_without_calibration_users(films):
    sure = sr.wrap(Refitted(), covers="new-users").fit(films)
    in_fit = np.bincount(
        films.without_users(sure.calibration_.users).item_codes, minlength=films.n_items
    )
    assert sorted(sure.wrapped_.counts) == sorted(in_fit[in_fit > 0])
    history = films.profile(1)["item_id"].to_list()
    said = str(sure.recommend(history=history, confidence=0.8).guarantee)
    assert "on average over users whom the model was not fitted on" in said
    held = set(sure.calibration_.users.tolist())
    inside = next(code for code in range(films.n_users) if code not in held)
    said = str(sure.recommend(films.users[inside], confidence=0.8).guarantee)
    assert said.startswith("No guarantee: Refitted was fitted on this user")


def test_users_of_the_fit_are_covered_except_calibration_users(films):
    sure = sr.wrap(Refitted(), covers="fit").fit(films)
    held = sure.calibration_.users
    said = str(sure.recommend(films.users[int(held[0])], confidence=0.8).guarantee)
    assert "held out for calibration" in said
    lengths = np.diff(films.offsets)
    other = next(u for u in range(films.n_users) if u not in held and 5 <= lengths[u] < 60)
    assert "on average over users of the fit" in str(
        sure.recommend(films.users[other], confidence=0.8).guarantee
    )
    said = str(sure.recommend(history=films.profile(1)["item_id"], confidence=0.8).guarantee)
    assert said.startswith("No guarantee: Refitted was not fitted on this user")


def test_users_of_the_fit_and_new_users_have_their_own_thresholds(films):
    sure = sr.wrap(Refitted()).fit(films)
    assert sure.covers_ == "both"
    users, lengths = sure.calibration_.users, np.diff(films.offsets)
    in_fit = sure.scorer_.rows[users] >= 0
    assert 0.4 < in_fit.mean() < 0.6
    curves = [sure.calibration_.curve("recall").of_owners(some) for some in (in_fit, ~in_fit)]
    other = next(u for u in range(films.n_users) if u not in users and 5 <= lengths[u] < 40)
    queries = ({"user": films.users[other]}, {"history": films.profile(other)["item_id"]})
    for curve, query, kind in zip(curves, queries, ("a history", "no history"), strict=True):
        found = sure.recommend(**query, confidence=0.8)
        assert len(found) == min(curve.threshold(0.2), found.n_candidates)
        assert f"on average over users with {kind} in the fit" in str(found.guarantee)
        assert found.guarantee.n_calibration == curve.n_users
    held_out, left_out = (int(users[some][0]) for some in (in_fit, ~in_fit))
    said = str(sure.recommend(films.users[held_out], confidence=0.8).guarantee)
    assert "held out for calibration" in said
    assert sure.recommend(films.users[left_out], confidence=0.8).guarantee.holds
    with pytest.raises(sr.InputError, match=r"covers='both' cannot be combined with refit=True"):
        sr.wrap(Refitted(), window=60, covers="both", refit=True)


def test_refitting_needs_a_window():
    with pytest.raises(sr.InputError, match="refit=True needs window="):
        sr.wrap(Refitted(), refit=True)


@pytest.mark.filterwarnings("ignore::surerec.StaleModelWarning")
def test_a_temporal_split_leaves_new_users_out_of_the_fit(films):
    sure = sr.wrap(Refitted(), window=60, covers="new-users").fit(films)
    held = sure.calibration_.users
    assert len(held)
    begin = int(films.times.max()) + 1 - 60 * DAY
    in_fit = films.until(begin).without_users(held)
    assert sure.wrapped_.counts.sum() == in_fit.n_rows
    assert "not fitted on" in str(
        sure.recommend(films.users[int(held[0])], confidence=0.8).guarantee
    )
    again = sr.wrap(Refitted(), window=60, refit=True).fit(films)
    said = str(again.recommend(films.users[int(held[0])], confidence=0.8).guarantee)
    assert said.startswith("No guarantee: Refitted was fitted on this user")


@pytest.mark.filterwarnings("ignore::surerec.StaleModelWarning")
def test_a_temporal_guarantee_names_its_period(films):
    sure = sr.wrap(Refitted(), window=60, covers="fit").fit(films)
    user = sure.calibration_.users[0]
    said = str(sure.recommend(films.users[int(user)], confidence=0.8).guarantee)
    assert "of what a user consumes in the 60 days from 2021-10-31 (without repeats)" in said
    again = sr.wrap(Refitted(), window=60, covers="fit", refit=True).fit(films)
    assert again.wrapped_.counts.sum() == films.n_rows > sure.wrapped_.counts.sum()
    said = str(again.recommend(films.users[int(user)], confidence=0.8).guarantee)
    assert "of what a user consumes in the next 60 days (without repeats)" in said
    assert "and that Refitted refitted on all data ranks like the calibrated model" in said


def test_other_libraries_are_not_imported():
    code = (
        "import sys, surerec as sr; sr.wrap(lambda h: [[0.0, 1.0]] * len(h), items=[1, 2])\n"
        "libraries = {'cornac', 'implicit', 'lenskit', 'pandas', 'recbole', 'rectools', 'torch'}\n"
        "assert not libraries.intersection(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_a_given_name_replaces_that_of_a_class_or_a_lambda(halves, by_similarity, tmp_path):
    past, future = halves
    near, ids = by_similarity
    plain = sr.wrap(lambda histories: near(list(histories)), items=ids).calibrate(past, future)
    said = str(plain.recommend(past.users[1], confidence=0.8).guarantee)
    assert "the wrapped model was not trained on their future items" in said
    named = sr.wrap(near, items=ids, name="Shop ranking").calibrate(past, future)
    picks = named.recommend(past.users[1], confidence=0.8)
    assert "Shop ranking was not trained on their future items" in str(picks.guarantee)
    assert picks.recommender == "recall-shop-ranking"
    named.save(tmp_path / "shop")
    back = sr.load(tmp_path / "shop", scorer=near)
    assert back.recommend(past.users[1], confidence=0.8).guarantee == picks.guarantee
    assert "lambda" not in plain.name_
    hidden = sr.wrap(type("_Hidden", (Refitted,), {})(), items=ids)
    assert repr(hidden).startswith("WrappedRecommender(model=the wrapped model")
    with pytest.raises(sr.InputError, match="name is 7"):
        sr.wrap(near, items=ids, name=7)


def test_a_refit_calibrates_item_lists_on_the_same_items():
    """A refit knows more items, so that codes are others; the list is of the same ids."""
    films = sr.datasets.synthetic(n_users=600, n_items=80, n_rows=12_000, random_state=4)
    lists = {"some": films.items.ids[:25].to_list()}
    once, again = (
        sr.wrap(Refitted(), window=60, covers="fit", refit=refit).fit(films, item_lists=lists)
        for refit in (False, True)
    )
    assert once.items_.ids.to_list() != again.items_.ids.to_list()
    kept = [each.model_.item_lists["some"].users for each in (once, again)]
    assert kept[0].entries.tolist() == kept[1].entries.tolist()
    assert kept[0].first_ranks.tolist() == kept[1].first_ranks.tolist()


def test_item_lists_are_calibrated_before_saving(halves, by_similarity, tmp_path):
    near, ids = by_similarity
    sure = sr.wrap(near, items=ids).calibrate(*halves).add_item_list("even", ids[::2])
    asked = {"user": 1, "confidence": 0.8, "item_list": "even"}
    picks = sure.recommend(**asked)
    assert set(picks.items) <= set(ids[::2])
    said = "users of the fit who consume at least one of the 40 items of the list"
    assert said in str(picks.guarantee)
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=near)
    assert back.recommend(**asked).to_frame().equals(picks.to_frame())
    with pytest.raises(sr.InputError, match="before saving it"):
        back.add_item_list("odd", ids[1::2])


def flat(histories):
    return np.zeros((len(histories), 3))


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (5, {}, r"cannot be wrapped. Pass a model of implicit .*score\(history\), a function"),
        (dict, {}, "the class dict cannot be wrapped"),
        (flat, {"items": [1, 2, 3], "covers": "all"}, "covers is 'all'; choose one of both, fit, "),
        (flat, {}, "The items that flat scores are unknown. Pass items="),
        (flat, {"items": [1, 2, 2]}, "items= has 2 twice"),
        (flat, {"items": [1.5, None]}, "items= is not a list of ids"),
        (flat, {"items": ["x", "y", "z"]}, "80 of the 80 items of the past are not in the cata"),
    ],
)
def test_invalid_models_and_ids_are_refused(halves, model, settings, said):
    with pytest.raises(sr.InputError, match=said):
        sr.wrap(model, **settings).calibrate(*halves)


def test_a_function_cannot_be_fitted(halves):
    with pytest.raises(
        sr.InputError, match=r"flat is fitted already, .*Call calibrate\(past, future\)"
    ):
        sr.wrap(flat, items=[1, 2, 3]).fit(halves[0])


def some(halves, change=lambda scores: scores):
    """Return a wrapped function that scores items by their position."""
    ids = halves[0].items.ids.to_list()

    def score(histories):
        return change(np.tile(np.arange(len(ids), dtype=float), (len(histories), 1)))

    return sr.wrap(score, items=ids)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: np.where(rows == 3, np.nan, rows), "scores that are not numbers. Return a"),
        (np.zeros_like, "score gives all items the same score for all tried users"),
        (
            lambda rows: rows[:, :79],
            r"returned scores of shape \(\d+, 79\). Return one .* one row for each",
        ),
    ],
)
def test_invalid_scores_are_refused(halves, change, said):
    with pytest.raises(sr.InputError, match=said):
        some(halves, change).calibrate(*halves)


def test_held_out_interactions_of_unknown_users(halves):
    past, future = halves
    later, moved = future.to_frame(), pl.col("user_id") + 10_000
    with pytest.raises(sr.InputError, match=r"None of the \d+ users of the future is in the past"):
        some(halves).calibrate(past, later.with_columns(moved))
    few = pl.when(pl.col("user_id") < 20).then(moved).otherwise("user_id")
    with pytest.warns(sr.LeftOutWarning, match=r"\d+ of the \d+ users of the future are not in th"):
        sure = some(halves).calibrate(past, later.with_columns(user_id=few))
    assert len(sure.calibration_) > 100
    with pytest.raises(sr.InputError, match="No user with 5 known items in the past consumed"):
        some(halves).calibrate(past.keeping(np.arange(past.n_rows) < 4), future)


def test_requests_that_a_calibrated_function_refuses(halves, tmp_path, cli):
    sure = some(halves).calibrate(*halves)
    with pytest.raises(sr.InputError, match="Both user= and history= were given"):
        sure.recommend(halves[0].users[1], history=[1, 2], confidence=0.8)
    with pytest.raises(sr.InputError, match="no precedence counts, because a wrapped model"):
        sr.InductiveConformal("CM12").fit(sure.statistics_).recommend(1, confidence=0.8)
    sure.save(tmp_path / "model")
    assert read_card(tmp_path / "model")["settings"]["rows"] == "none"
    asked = cli("recommend", tmp_path / "model", "--user", "1", "--confidence", "0.8")
    asked.assert_refused("was saved without its scorer (score)")


N_AGAIN = 37


@pytest.fixture(scope="module")
def again(halves):
    """Return the held-out rows with 37 rows of the users' past."""
    past, future = (each.to_frame() for each in halves)
    moved = past.head(N_AGAIN).with_columns(datetime=pl.lit(future["datetime"].max()))
    return pl.concat([future, moved])


def test_repeats_are_refused_unless_dropped(halves, again):
    said = (
        r"37 of the [\d,]+ rows of the future \(1\.\d%\) repeat an item of the user's past, such as"
        r' user .* and item .*\. .* items new to the user\. Pass repeats="drop"'
    )
    with pytest.raises(sr.InputError, match=said):
        some(halves).calibrate(halves[0], again)
    with pytest.raises(sr.InputError, match=r"\(100\.0%\) repeat .* Nothing is left to calibrate"):
        some(halves).calibrate(halves[0], halves[0], repeats="drop")
    with pytest.raises(sr.InputError, match="repeats is 'keep'"):
        some(halves).calibrate(*halves, repeats="keep")


def test_dropped_repeats_are_counted_and_reported(halves, again, tmp_path):
    with pytest.warns(sr.LeftOutWarning, match=r"Dropped repeats: 37 of the .* such as user"):
        sure = some(halves).calibrate(halves[0], again, repeats="drop")
    without = some(halves).calibrate(*halves)
    user = halves[0].users[3]
    picks, same = (each.recommend(user, confidence=0.8) for each in (sure, without))
    assert picks.to_frame().equals(same.to_frame())
    said = "was not trained on their future items, from which 37 repeats were dropped"
    assert said in str(picks.guarantee)
    assert "dropped" not in str(same.guarantee)
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=sure.wrapped_)
    assert back.recommend(user, confidence=0.8).guarantee == picks.guarantee
