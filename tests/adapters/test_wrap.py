"""Anything that scores, wrapped: functions, objects with score(history)."""

import copy
from functools import partial

import numpy as np
import pytest

import surerec as sr
from surerec._words import DAY
from tests.adapters.asking import imported_with_surerec


class Popular:
    """Fitted on interactions, scores by item ids."""

    def fit(self, interactions):
        self.counts = np.bincount(interactions.items_taken, minlength=interactions.n_items)

    def score(self, history):
        assert isinstance(history, list)
        return self.counts


def neighbours(past):
    """Make a function from histories of ids to scores, in the order of the ids given with it."""
    ids = sorted(past.items.ids.to_list())
    place = {each: number for number, each in enumerate(ids)}
    taken = np.zeros((past.n_users, len(ids)))
    for user in range(past.n_users):
        taken[user, [place[past.items[code]] for code in past.taken(user)]] = 1
    likeness = taken.T @ taken / np.maximum(taken.sum(axis=0), 1)

    def near(histories):
        return np.stack([likeness[[place[each] for each in h]].sum(axis=0) for h in histories])

    return near, ids


def test_a_function_from_histories_to_scores(halves, tmp_path):
    past, future = halves
    near, ids = neighbours(past)
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
    with pytest.raises(sr.InputError, match="is not the model that was calibrated"):
        sr.load(tmp_path / "near", scorer=lambda histories: -near(histories))


def test_a_function_of_one_history_scores_as_one_of_a_list(halves):
    past, future = halves
    near, ids = neighbours(past)
    likeness = np.stack([near([[each]])[0] for each in ids])
    place = {each: number for number, each in enumerate(ids)}

    def by_index(history):  # with a list of lists of one length, it gives a table
        return likeness[np.vectorize(place.get)(history)].sum(axis=0)

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


def test_what_can_be_fitted_is_fitted_without_those_who_calibrate(films):
    sure = sr.wrap(Popular()).fit(films)
    assert sure.covers_ == "newcomers"
    in_fit = np.bincount(
        films.without_users(sure.calibration_.users).items_taken, minlength=films.n_items
    )
    assert sorted(sure.wrapped_.counts) == sorted(in_fit[in_fit > 0])
    history = films.profile(1)["item_id"].to_list()
    said = str(sure.recommend(history=history, confidence=0.8).guarantee)
    assert "over users whom the model was not fitted on. Assumes users exchangeable" in said
    held = set(sure.calibration_.users.tolist())
    inside = next(code for code in range(films.n_users) if code not in held)
    said = str(sure.recommend(films.users[inside], confidence=0.8).guarantee)
    assert said.startswith("No guarantee: Popular was fitted on this user")


def test_people_of_the_fit_are_covered_and_their_calibration_users_are_not(films):
    sure = sr.wrap(Popular(), covers="fit").fit(films)
    held = sure.calibration_.users
    said = str(sure.recommend(films.users[int(held[0])], confidence=0.8).guarantee)
    assert "set aside to calibrate" in said
    lengths = np.diff(films.offsets)
    other = next(u for u in range(films.n_users) if u not in held and 5 <= lengths[u] < 60)
    assert "over users of the fit. Assumes" in str(
        sure.recommend(films.users[other], confidence=0.8).guarantee
    )
    said = str(sure.recommend(history=films.profile(1)["item_id"], confidence=0.8).guarantee)
    assert said.startswith("No guarantee: Popular was not fitted on this user")


def test_refitting_needs_a_window():
    with pytest.raises(sr.InputError, match="refit=True needs window="):
        sr.wrap(Popular(), refit=True)


@pytest.mark.filterwarnings("ignore::surerec.StaleModelWarning")
def test_newcomers_over_the_calendar_are_not_in_the_fit(films):
    sure = sr.wrap(Popular(), window=60).fit(films)
    held = sure.calibration_.users
    assert len(held)
    begin = int(films.times.max()) + 1 - 60 * DAY
    in_fit = films.until(begin).without_users(held)
    assert sure.wrapped_.counts.sum() == in_fit.n_rows
    assert "not fitted on" in str(
        sure.recommend(films.users[int(held[0])], confidence=0.8).guarantee
    )
    again = sr.wrap(Popular(), window=60, refit=True).fit(films)
    said = str(again.recommend(films.users[int(held[0])], confidence=0.8).guarantee)
    assert said.startswith("No guarantee: Popular was fitted on this user")


@pytest.mark.filterwarnings("ignore::surerec.StaleModelWarning")
def test_the_calendar_says_of_which_days_it_speaks(films):
    sure = sr.wrap(Popular(), window=60, covers="fit").fit(films)
    user = sure.calibration_.users[0]
    said = str(sure.recommend(films.users[int(user)], confidence=0.8).guarantee)
    assert "Of items new to the user that they consume in the 60 days from 2021-10-31 on" in said
    again = sr.wrap(Popular(), window=60, covers="fit", refit=True).fit(films)
    assert again.wrapped_.counts.sum() == films.n_rows > sure.wrapped_.counts.sum()
    said = str(again.recommend(films.users[int(user)], confidence=0.8).guarantee)
    assert "Of items new to the user that they consume in the next 60 days" in said
    assert "Assumes that Popular as fitted on everything ranks as the calibrated one did" in said


def test_other_libraries_are_not_imported():
    assert imported_with_surerec("implicit", "rectools", "lenskit", "torch") == "[]"


def test_a_name_takes_the_place_of_a_class_or_a_lambda(halves, tmp_path):
    past, future = halves
    near, ids = neighbours(past)
    plain = sr.wrap(lambda histories: near(list(histories)), items=ids).calibrate(past, future)
    said = str(plain.recommend(past.users[1], confidence=0.8).guarantee)
    assert "the wrapped model learned nothing from their future" in said
    named = sr.wrap(near, items=ids, name="Shop ranking").calibrate(past, future)
    picks = named.recommend(past.users[1], confidence=0.8)
    assert "Shop ranking learned nothing from their future" in str(picks.guarantee)
    assert picks.recommender == "population-shop-ranking"
    named.save(tmp_path / "shop")
    back = sr.load(tmp_path / "shop", scorer=near)
    assert back.recommend(past.users[1], confidence=0.8).guarantee == picks.guarantee
    assert "lambda" not in plain.name_
    hidden = sr.wrap(type("_Hidden", (Popular,), {})(), items=ids)
    assert repr(hidden).startswith("WrappedRecommender(model=the wrapped model")
    bound = sr.wrap(partial(near), items=ids)
    assert repr(bound) == repr(sr.wrap(near, items=ids))
    for wrong in ("", 7):
        with pytest.raises(sr.InputError, match="name is"):
            sr.wrap(near, items=ids, name=wrong)


def test_a_fitted_one_can_be_copied(films):
    sure = sr.wrap(Popular()).fit(films)
    twin = copy.deepcopy(sure)
    assert twin.wrapped_ is not sure.wrapped_
    history = films.profile(1)["item_id"].to_list()
    picks = [each.recommend(history=history, confidence=0.8).to_frame() for each in (sure, twin)]
    assert picks[0].equals(picks[1])


def test_a_refit_calibrates_item_lists_on_the_same_items():
    """A refit knows more items, so that codes are others; the list is of the same ids."""
    films = sr.datasets.synthetic(n_users=600, n_items=80, n_rows=12_000, seed=4)
    lists = {"some": films.items.ids[:25].to_list()}
    once, again = (
        sr.wrap(Popular(), window=60, covers="fit", refit=refit).fit(films, lists=lists)
        for refit in (False, True)
    )
    assert once.items_.ids.to_list() != again.items_.ids.to_list()
    kept = [each.model_.item_lists["some"].users for each in (once, again)]
    assert kept[0].entries.tolist() == kept[1].entries.tolist()
    assert kept[0].first_ranks.tolist() == kept[1].first_ranks.tolist()
