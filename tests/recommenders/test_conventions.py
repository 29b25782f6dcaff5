"""scikit-learn and Python conventions, for every estimator and every result."""

import copy
import inspect
import io
import pickle

import joblib
import polars as pl
import pytest
from sklearn.base import clone

import surerec as sr
from surerec import errors
from tests.contracts.support import Refitted

DATA = sr.datasets.synthetic(n_users=120, n_items=60, n_rows=2_400, random_state=1)
TITLES = pl.DataFrame({"item_id": list(range(1, 61)), "title": [f"Film {n}" for n in range(1, 61)]})
TITLED = sr.read_interactions(DATA.to_frame(), titles=TITLES)
ESTIMATORS = {
    "InductiveConformal": lambda: sr.InductiveConformal("CM3", train_share=0.4),
    "TransductiveConformal": lambda: sr.TransductiveConformal("median"),
    "PrecedenceMining": lambda: sr.PrecedenceMining(top=1),
    "PopulationConformal": lambda: sr.PopulationConformal("CM12", n_calibration=60),
    "WrappedRecommender": lambda: sr.wrap(Refitted(), n_calibration=40),
}
METHODS = {
    "add_item_list", "age", "calibrate_groups", "explain", "explain_group", "fit", "get_params",
    "histories", "iter_recommendations", "p_values", "recommend", "recommend_groups",
    "recommend_many", "save", "set_params",
}  # fmt: skip
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def fitted():
    return {name: make().fit(TITLED) for name, make in ESTIMATORS.items()}


@every_estimator
def test_an_estimator_follows_scikit_learn(name):
    model = ESTIMATORS[name]()
    params = model.get_params()
    assert list(params) == list(inspect.signature(type(model)).parameters)
    with pytest.raises(sr.NotFittedError, match=r"is not (fitted|calibrated)\. Call"):
        model.recommend(7)
    assert model.fit(TITLED).__sklearn_is_fitted__()
    learned = {each for each in vars(model) if not each.startswith("_")} - set(params)
    assert learned
    assert all(each.endswith("_") for each in learned)
    assert not clone(model).__sklearn_is_fitted__()
    with pytest.raises(sr.InputError, match=r"has no parameter 'colour'\. Use one of"):
        model.set_params(colour="red")


@every_estimator
def test_the_public_surface_is_small(name):
    model = ESTIMATORS[name]()
    public = {each for each in dir(model) if not each.startswith("_")} - set(model.get_params())
    public = {each for each in public if not each.endswith("_")}
    assert public - METHODS <= {"recalibrate", "calibrate"}
    assert public >= METHODS


def through_joblib(each):
    file = io.BytesIO()
    joblib.dump(each, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each)), through_joblib],  # noqa: S301
    ids=["deepcopy", "pickle", "joblib"],
)
@every_estimator
def test_a_copy_gives_the_same_results(fitted, name, duplicate):
    model = fitted[name]
    twin = duplicate(model)
    assert repr(twin) == repr(model)
    picks = model.recommend(7, k=5)
    assert twin.recommend(7, k=5) == picks
    assert duplicate(picks) == picks
    assert duplicate(picks).to_frame().equals(picks.to_frame())


@every_estimator
def test_a_result_is_a_sequence_of_item_ids(fitted, name):
    picks = fitted[name].recommend(7, k=8)
    assert len(picks) == 8
    assert list(picks) == picks.items == [picks[rank] for rank in range(8)]
    assert (picks[-1], picks[2:4]) == (picks.items[-1], picks.items[2:4])
    assert picks[0] in picks
    assert "no such item" not in picks
    assert picks == fitted[name].recommend(7, k=8)
    for other in (fitted[name].recommend(7, k=7), picks.items, None, picks.to_frame()):
        assert (picks == other) is False
    frame = picks.to_frame()
    assert frame["item_id"].to_list() == picks.items
    printed = str(picks).splitlines()
    assert len(printed) == 7
    assert f"Film {picks[0]}" in printed[1]
    assert printed[-1].strip() == "and 3 more"
    assert "\n" not in repr(picks)


@every_estimator
@pytest.mark.parametrize(
    "users", [[7, 9], (7, 9), pl.Series([7, 9])], ids=["list", "tuple", "series"]
)
def test_several_users_are_for_recommend_many(fitted, name, users):
    with pytest.raises(sr.InputError, match=r"(?s)one id\..*recommend_many.*group="):
        fitted[name].recommend(user=users)


def test_results_of_groups_compare_and_print(fitted):
    model = fitted["PopulationConformal"]
    one, other = (model.recommend(group=[7, 3], confidence=0.8) for _ in range(2))
    assert one == other
    assert one != model.recommend(group=[7, 9], confidence=0.8)
    assert one != model.recommend(7, confidence=0.8)
    assert str(one.guarantee).count(". ") < 3
    assert len(str(one).splitlines()) <= 7


def test_warnings_are_user_warnings():
    warnings = [each for name, each in vars(errors).items() if name.endswith("Warning")]
    assert warnings
    assert all(issubclass(each, UserWarning) for each in warnings)
    for name in sr.__all__:
        if name.endswith("Warning"):
            assert getattr(sr, name) in warnings


def test_users_can_import_the_classes_that_they_receive(fitted):
    model = fitted["PopulationConformal"]
    received = [
        model.recommend(7, k=1), model.recommend(7).guarantee, model.model_, model.statistics_,
        model.explain(7, item=model.recommend(7, k=1)[0]), model.recommend(group=[7, 3]),
        model.histories({"new": [1, 2, 3]}), TITLED,
    ]  # fmt: skip
    for each in received:
        assert getattr(sr, type(each).__name__) is type(each)
