"""Errors of the library as HTTP says them, and what they must not say."""

import numpy as np
import pytest

import surerec as sr
from surerec import errors
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.interactions import IdMap
from surerec.recommenders import make_recommender
from surerec.serving import _operations as answers
from surerec.serving import _requests as ask
from surerec.serving._models import ServedModel, load_served
from surerec.serving._problems import REFUSALS, problem_of
from surerec.serving._search import TitleSearch


@pytest.fixture(scope="module")
def model(model_folder):
    return load_served(model_folder)


@pytest.fixture(scope="module")
def without_users():
    """A model of given counts, which have no users."""
    counts = sr.PrecedenceStatistics.from_counts(np.triu(np.full((6, 6), 2), 1), [4] * 6, 5)
    fitted = make_recommender("icrs3").fit(counts)
    search = TitleSearch(fitted.items_.ids, None, counts.popularity)
    return ServedModel("counts", {"icrs3": fitted.model_}, {}, search)


def never(*_):
    raise AssertionError("near ids are other people's: nobody may ask for them here")


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (errors.UnknownId("user", "ann", never), 404, "There is no such user."),
        (errors.UnknownId("item", "jaws", never), 404, "There is no item 'jaws'."),
        (errors.UnknownId("item", "x" * 300, never), 404, f"There is no item '{'x' * 80}'."),
        (
            errors.UnknownHistory(["jaws"], never),
            404,
            "None of the items of the history is known.",
        ),
        (errors.InProfile(302, "no p-value"), 409, "Item '302' is in the known profile."),
        (errors.NoUsers("None."), 409, "This model holds no users; post a history."),
        (
            errors.NoConfidence("None."),
            409,
            "This recommender ranks items and knows no confidence; leave it out.",
        ),
        (errors.NotOffered("It has no lists."), 409, "It has no lists."),
        (errors.UnknownMembers("There are no users 7, 9."), 404, "There are no users 7, 9."),
        (errors.RepeatedMember("User 1 is in it twice."), 409, "User 1 is in it twice."),
        (errors.InputError("k is 0; at least 1."), 422, "k is 0; at least 1."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_error_has_its_status_and_its_sentence(error, status, says):
    problem = problem_of(error)
    assert (problem.status, problem.detail) == (status, says)


def test_no_error_of_a_question_is_left_to_its_own_sentence():
    kinds = {getattr(errors, name) for name in errors.__all__}
    of_input = {kind for kind in kinds if issubclass(kind, errors.InputError)}
    # Before anybody asks, models are fitted and loaded; a recommender is looked for in the model.
    elsewhere = {errors.InputError, errors.TooFewUsers, errors.UnknownRecommender}
    assert set(REFUSALS) == of_input - elsewhere


@pytest.mark.parametrize(
    ("answer", "asked", "kind"),
    [
        (answers.recommend, ask.RecommendRequest(user="ann"), errors.UnknownId),
        (answers.recommend, ask.RecommendRequest(history=["jaws"]), errors.UnknownHistory),
        (answers.assess, ask.EntryConfidencesRequest(user=-1), errors.UnknownId),
        (answers.p_values, ask.PValuesRequest(user=1, items=["jaws"]), errors.UnknownId),
        (answers.explain, ask.ExplanationRequest(user=1, item="jaws"), errors.UnknownId),
        (
            answers.recommend,  # the person comes before the level
            ask.RecommendRequest(user="ann", confidence=0.9, recommender="precedence-mining"),
            errors.UnknownId,
        ),
        (
            answers.recommend_many,
            ask.BatchRequest(users=[1], confidence=0.9, recommender="precedence-mining"),
            errors.NoConfidence,
        ),
    ],
)
def test_near_ids_are_never_looked_for(model, monkeypatch, answer, asked, kind):
    monkeypatch.setattr(IdMap, "near", never)
    with pytest.raises(kind) as refused:
        answer(model, asked)
    assert problem_of(refused.value).status in {404, 409}


def test_a_model_without_users_answers_histories_alone(without_users):
    for answer, asked in (
        (answers.recommend, ask.RecommendRequest(user=1)),
        (answers.recommend_many, ask.BatchRequest(users=[1])),
    ):
        with pytest.raises(errors.NoUsers):
            answer(without_users, asked)
    assert answers.recommend(without_users, ask.RecommendRequest(history=[1, 2, 3]))


def test_ids_are_looked_up_once(model, monkeypatch):
    looked_up, inside = [], []
    code, codes = IdMap.code, IdMap.codes

    def noted(self, values):
        values = list(values)
        if not inside:
            looked_up.append((self.noun, values))
        return codes(self, values)

    def noted_one(self, value):  # which may ask for several in turn
        looked_up.append((self.noun, [value]))
        inside.append(value)
        try:
            return code(self, value)
        finally:
            inside.pop()

    monkeypatch.setattr(IdMap, "codes", noted)
    monkeypatch.setattr(IdMap, "code", noted_one)
    history = model.first.items.ids[:5].to_list()
    item = model.first.items[9]
    for answer, asked in (
        (answers.recommend, ask.RecommendRequest(user=1, history=history)),
        (answers.assess, ask.EntryConfidencesRequest(user=1, history=history)),
    ):
        looked_up.clear()
        answer(model, asked)
        assert looked_up == [("user", [1]), ("item", history)]
    looked_up.clear()
    answers.explain(model, ask.ExplanationRequest(user=1, history=history, item=item))
    assert looked_up == [("user", [1]), ("item", history), ("item", [item])]


def test_without_a_level_the_default_confidence_is_meant(model):
    given = ask.RecommendRequest(user=1, confidence=DEFAULT_CONFIDENCE)
    left_out = ask.RecommendRequest(user=1)
    assert answers.recommend(model, left_out) == answers.recommend(model, given)


def test_a_model_past_its_window_is_served_with_a_warning(tmp_path):
    films = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2400, seed=1)
    sr.PopulationConformal("CM12", window=120).fit(films).save(tmp_path / "model")
    warned = r"population-cm12 was calibrated .*recalibrate"
    with pytest.warns(errors.StaleModelWarning, match=warned):
        load_served(tmp_path / "model")
