"""Saving and loading recommenders."""

import numpy as np
import pytest

import surerec as sr
from surerec.measures import State
from surerec.recommenders import load_all, save_all
from surerec.storage import RecommenderSpec, load_model, read_card, save_model
from tests.storage.stored_models import same


@pytest.fixture(scope="module")
def statistics():
    return sr.count_precedence(
        sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, random_state=5)
    )


def answer(model):
    return model.recommend(history=[2, 4, 6, 8, 10], confidence=0.7).to_frame()


def test_saving_one_and_saving_all_store_the_same(tmp_path, statistics):
    models = {
        "users": sr.PopulationConformal().fit(statistics),
        "plain": sr.InductiveConformal().fit(statistics),
    }
    save_all(tmp_path / "all", models)
    for name, model in models.items():
        model.save(tmp_path / "one", name)
    cards = [read_card(tmp_path / folder) for folder in ("all", "one")]
    assert cards[0]["recommenders"] == cards[1]["recommenders"]
    assert cards[0]["files"] == cards[1]["files"]
    back = load_all(tmp_path / "all")
    assert back.keys() == models.keys()
    assert back["users"].statistics_ is back["plain"].statistics_
    for name, model in models.items():
        assert answer(back[name]).equals(answer(model))


@pytest.mark.parametrize("verify", [True, False])
def test_what_was_loaded_can_be_saved_again(tmp_path, statistics, verify):
    model = sr.PopulationConformal().fit(statistics)
    model.save(tmp_path / "first", "users")
    back = sr.load(tmp_path / "first", verify=verify)
    assert not back.calibration_.entries.flags.writeable  # memory-mapped
    assert answer(back).equals(answer(model))
    for folder in ("first", "second"):
        back.save(tmp_path / folder, "again")
    again = load_model(tmp_path / "second").recommenders["again"]
    assert same({"x": again}, {"x": load_model(tmp_path / "first").recommenders["users"]})


def store(folder, statistics, arrays, kind):
    save_model(folder, statistics, {"x": RecommenderSpec(kind, {}, State(arrays))})


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("PopulationConformal", "calibration_users", r"of 'x' is invalid \(.*\). Save it again"),
        ("InductiveConformal", "a", r"is invalid \(InductiveConformal: unexpected 'a'\)"),
    ],
)
def test_invalid_state_is_reported(tmp_path, statistics, kind, name, why):
    store(tmp_path / "model", statistics, {name: np.arange(3)}, kind)
    with pytest.raises(sr.InputError, match=why):
        sr.load(tmp_path / "model")


def test_unknown_kinds_do_not_block_other_recommenders(tmp_path, statistics):
    store(tmp_path / "model", statistics, {"a": np.ones(1)}, "Tomorrow")
    sr.InductiveConformal("CM3").fit(statistics).save(tmp_path / "model")
    assert repr(sr.load(tmp_path / "model")) == "InductiveConformal(measure='CM3')"
    for question in (
        lambda: sr.load(tmp_path / "model", "x"),
        lambda: load_all(tmp_path / "model"),
    ):
        with pytest.raises(sr.InputError, match="'x' is of the unknown kind 'Tomorrow'"):
            question()


def test_missing_recommenders(tmp_path, statistics):
    save_model(tmp_path / "model", statistics, {})
    with pytest.raises(sr.InputError, match="the folder has no recommender"):
        sr.load(tmp_path / "model")
    sr.InductiveConformal("CM3").fit(statistics).save(tmp_path / "model")
    with pytest.raises(sr.InputError, match=r"no recommender 'icrs4'\. Use one of icrs3"):
        sr.load(tmp_path / "model", "icrs4")


def test_unfitted_and_mixed_recommenders_are_not_saved(tmp_path, statistics):
    fitted = sr.InductiveConformal().fit(statistics)
    with pytest.raises(sr.SurerecError, match="not fitted"):
        save_all(tmp_path / "model", {"a": fitted, "b": sr.InductiveConformal()})
    with pytest.raises(sr.SurerecError, match="not fitted"):
        sr.InductiveConformal().save(tmp_path / "model")
    other = sr.InductiveConformal().fit(
        sr.datasets.synthetic(n_users=9, n_items=9, n_rows=60, random_state=1)
    )
    with pytest.raises(sr.InputError, match="different statistics"):
        save_all(tmp_path / "model", {"a": fitted, "b": other})
    assert not (tmp_path / "model").exists()
