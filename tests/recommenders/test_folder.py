"""Recommenders on disk and back, those with parts among them."""

import numpy as np
import pytest

import surerec as sr
from surerec.measures import State
from surerec.recommenders import load_all, save_all
from surerec.recommenders._folder import KINDS
from surerec.storage import RecommenderSpec, load_model, read_card, save_model
from tests.recommenders.small_profiles import read

ROWS = [(user, item, (user * item) % 5) for user in range(1, 7) for item in range(1, 8)]


class PopularOnly(sr.InductiveConformal):
    """Learns which items are popular, and a word on them: an array and a text."""

    n_learned = 0

    def fit(self, data, y=None):
        super().fit(data, y)
        support = self.statistics_.support
        self.popular_ = support >= np.median(support)
        self.story_ = f"{self.popular_.sum()} popular items\n"
        type(self).n_learned += 1
        return self

    def to_spec(self):
        params = super().to_spec().params
        state = State({"popular": self.popular_}, {"story": self.story_})
        return RecommenderSpec("PopularOnly", params, state)

    def restore(self, statistics, state):
        sr.InductiveConformal.fit(self, statistics)
        self.popular_ = state.arrays["popular"]
        self.story_ = state.texts["story"]
        if self.popular_.shape != (statistics.n_items,):
            raise ValueError(f"popular has the shape {self.popular_.shape}")
        return self


@pytest.fixture(autouse=True)
def known_kind(monkeypatch):
    monkeypatch.setitem(KINDS, "PopularOnly", PopularOnly)
    monkeypatch.setattr(PopularOnly, "n_learned", 0)


@pytest.fixture
def statistics():
    uneven = [row for row in ROWS if row[1] <= row[0] + 1]
    return sr.count_precedence(read(uneven))


def answer(model):
    return model.p_values(history=[2, 4])


@pytest.mark.parametrize("verify", [True, False])
def test_a_recommender_with_parts_comes_back_without_learning_again(tmp_path, statistics, verify):
    model = PopularOnly("CM3").fit(statistics)
    model.save(tmp_path / "model", "popular")
    back = sr.load(tmp_path / "model", verify=verify)
    assert PopularOnly.n_learned == 1
    assert (type(back), repr(back)) == (PopularOnly, "PopularOnly(measure='CM3')")
    assert back.story_ == model.story_
    np.testing.assert_array_equal(back.popular_, model.popular_)
    assert not back.popular_.flags.writeable
    assert answer(back).equals(answer(model))


def test_saving_one_and_saving_all_store_the_same(tmp_path, statistics):
    models = {
        "popular": PopularOnly().fit(statistics),
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
    assert back["popular"].statistics_ is back["plain"].statistics_
    for name, model in models.items():
        assert answer(back[name]).equals(answer(model))


def test_what_was_loaded_can_be_saved_again(tmp_path, statistics):
    PopularOnly().fit(statistics).save(tmp_path / "first", "popular")
    back = sr.load(tmp_path / "first")
    for folder in ("first", "second"):
        back.save(tmp_path / folder, "again")
    assert PopularOnly.n_learned == 1
    again = load_model(tmp_path / "second").recommenders["again"]
    assert again == load_model(tmp_path / "first").recommenders["popular"]


def store(folder, statistics, *parts, kind="PopularOnly"):
    save_model(folder, statistics, {"x": RecommenderSpec(kind, {}, State(*parts))})


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (({}, {"story": ""}), r"\(there is no 'popular'\)"),
        (({"popular": np.ones(7, dtype=bool)},), r"\(there is no 'story'\)"),
        (({"popular": np.ones(3)}, {"story": ""}), r"\(popular has the shape \(3,\)\)"),
    ],
)
def test_parts_that_do_not_fit_give_a_sentence(tmp_path, statistics, parts, why):
    store(tmp_path / "model", statistics, *parts)
    with pytest.raises(sr.InputError, match=f"arrays and texts of 'x' do not fit it {why}; save"):
        sr.load(tmp_path / "model")


def test_parts_are_not_ignored_by_a_recommender_that_has_none(tmp_path, statistics):
    store(tmp_path / "model", statistics, {"a": np.ones(1)}, kind="InductiveConformal")
    with pytest.raises(sr.InputError, match=r"do not fit it \(InductiveConformal has no 'a'\)"):
        sr.load(tmp_path / "model")


def test_a_recommender_of_tomorrow_is_no_hindrance_to_the_others(tmp_path, statistics):
    store(tmp_path / "model", statistics, {"a": np.ones(1)}, kind="Tomorrow")
    sr.InductiveConformal("CM3").fit(statistics).save(tmp_path / "model")
    assert repr(sr.load(tmp_path / "model")) == "InductiveConformal(measure='CM3')"
    for question in (
        lambda: sr.load(tmp_path / "model", "x"),
        lambda: load_all(tmp_path / "model"),
    ):
        with pytest.raises(sr.InputError, match="'x' is of the unknown kind 'Tomorrow'"):
            question()


def test_asking_for_what_is_not_there(tmp_path, statistics):
    save_model(tmp_path / "model", statistics, {})
    with pytest.raises(sr.InputError, match="statistics but no recommender"):
        sr.load(tmp_path / "model")
    sr.InductiveConformal("CM3").fit(statistics).save(tmp_path / "model")
    with pytest.raises(sr.InputError, match="no recommender 'icrs4'; it has icrs3"):
        sr.load(tmp_path / "model", "icrs4")


def test_nothing_unfitted_and_nothing_mixed_is_saved(tmp_path, statistics):
    fitted = PopularOnly().fit(statistics)
    with pytest.raises(sr.SurerecError, match="not fitted"):
        save_all(tmp_path / "model", {"a": fitted, "b": PopularOnly()})
    with pytest.raises(sr.SurerecError, match="not fitted"):
        PopularOnly().save(tmp_path / "model")
    other = PopularOnly().fit(read(ROWS))
    with pytest.raises(sr.InputError, match="same statistics"):
        save_all(tmp_path / "model", {"a": fitted, "b": other})
    assert not (tmp_path / "model").exists()
