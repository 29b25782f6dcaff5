"""scikit-learn manners."""

import pytest
from sklearn.base import clone

import surerec as sr
from tests.recommenders.small_profiles import read

ROWS = [(user, item, (user * item) % 5) for user in range(1, 7) for item in range(1, 8)]
MODELS = [
    (sr.PrecedenceMining(top=2, verbose=1), {"top": 2, "verbose": 1}),
    (
        sr.TransductiveConformal(
            aggregate="median", zeros="product", train_share=0.4, search="plain", verbose=1
        ),
        {
            "aggregate": "median",
            "zeros": "product",
            "train_share": 0.4,
            "search": "plain",
            "verbose": 1,
        },
    ),
    (
        sr.InductiveConformal(
            measure="cm7", top=3, literal=True, train_share=0.3, smoothed=True, seed=8, verbose=1
        ),
        {
            "measure": "cm7",  # as given: clone compares
            "top": 3,
            "literal": True,
            "train_share": 0.3,
            "smoothed": True,
            "seed": 8,
            "verbose": 1,
        },
    ),
]
every_model = pytest.mark.parametrize(("model", "settings"), MODELS, ids=repr)


def answer(model):
    promise = {} if isinstance(model, sr.PrecedenceMining) else {"confidence": 0.6}
    return model.recommend(history=[2, 4, 6], **promise).to_frame()


def test_defaults_are_the_documented_ones():
    assert sr.PrecedenceMining().get_params() == {"top": None, "verbose": 0}
    assert sr.TransductiveConformal().get_params() == {
        "aggregate": "max",
        "zeros": "exact",
        "train_share": 0.5,
        "search": "sorted",
        "verbose": 0,
    }
    assert sr.InductiveConformal().get_params() == {
        "measure": "CM12",
        "top": 1,
        "literal": False,
        "train_share": 0.5,
        "smoothed": False,
        "seed": 0,
        "verbose": 0,
    }


@every_model
def test_settings_come_back_as_given(model, settings):
    assert model.get_params() == settings
    assert model.get_params(deep=False) == settings
    for name, value in settings.items():
        assert getattr(model, name) == value
        assert f"{name}={value!r}" in repr(model)


@every_model
def test_fit_gives_the_model_itself_and_changes_no_setting(model, settings):
    assert model.fit(read(ROWS)) is model
    assert model.get_params() == settings


@every_model
def test_a_clone_has_the_settings_and_nothing_learned(model, settings):
    fitted = model.fit(read(ROWS))
    twin = clone(fitted)
    assert type(twin) is type(model)
    assert twin is not fitted
    assert twin.get_params() == settings
    with pytest.raises(sr.SurerecError, match="fit"):
        answer(twin)
    assert answer(twin.fit(read(ROWS))).equals(answer(fitted))


@every_model
def test_what_is_learned_ends_in_an_underscore(model, settings):
    fitted = clone(model).fit(read(ROWS))
    learned = {name for name in vars(fitted) if not name.startswith("_")} - set(settings)
    assert learned
    assert all(name.endswith("_") for name in learned)


def test_settings_can_be_changed_and_chained():
    model = sr.InductiveConformal(measure="CM3").fit(read(ROWS))
    assert model.set_params(measure="NCM16", train_share=0.7) is model
    assert model.get_params()["measure"] == "NCM16"
    fresh = sr.InductiveConformal(measure="NCM16", train_share=0.7).fit(read(ROWS))
    assert answer(model.fit(read(ROWS))).equals(answer(fresh))
    with pytest.raises((sr.InputError, ValueError), match=r"colour.*measure"):
        model.set_params(colour="red")


def test_settings_are_given_by_name_and_unknown_ones_refused():
    with pytest.raises(TypeError):
        sr.InductiveConformal(colour="red")


def test_fitting_again_forgets_what_was_there():
    model = sr.InductiveConformal(measure="CM4").fit(read(ROWS))
    others = read([(user, f"other {item}", time) for user, item, time in ROWS])
    names = model.fit(others).p_values(history=["other 1", "other 2"])["item_id"]
    assert sorted(names) == [f"other {item}" for item in range(3, 8)]


def test_the_same_statistics_serve_many_models():
    interactions = read(ROWS)
    statistics = sr.count_precedence(interactions)
    for model, _ in MODELS:
        by_statistics = answer(clone(model).fit(statistics))
        assert by_statistics.equals(answer(clone(model).fit(interactions)))


def test_impossible_settings_are_refused_and_change_nothing():
    model = sr.InductiveConformal("CM3")
    with pytest.raises(sr.InputError, match="train_share is 7"):
        model.set_params(train_share=7)
    assert model.train_share == 0.5
