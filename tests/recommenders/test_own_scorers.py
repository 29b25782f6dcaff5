"""Custom scorers in every recommender, saved with and without state."""

import numpy as np
import pytest

import surerec as sr
from surerec.measures import Contribution, Query, Scorer, State
from surerec.recommenders import load_all, measure_of, save_all


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=200, n_items=50, n_rows=4_000, random_state=4)


class Habit:
    """Learns the support of each item, and implements all methods of a scorer."""

    name = "habit"
    leaves_users_out = True

    def __init__(self, statistics, counts=None):
        self.statistics = statistics
        self.counts = statistics.support.astype(float) if counts is None else counts

    def score(self, history, *, without_user=None):  # noqa: ARG002
        scores = self.counts.copy()
        scores[self.statistics.consumed_by(without_user)[0]] -= 1
        return scores

    def value(self, scores, history_length, n_users):  # noqa: ARG002
        return scores / n_users

    def contributions(self, query, item):  # noqa: ARG002
        return [("number of consumers", float(self.counts[item]), 1.0)]

    def state(self):
        return State({"counts": self.counts}, {"note": "support"})

    @classmethod
    def from_state(cls, statistics, state):
        assert state.texts == {"note": "support"}
        return cls(statistics, np.array(state.arrays["counts"]))


class Bare:
    """Nothing but a score."""

    def __init__(self, n_items):
        self.n_items = n_items

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return np.arange(self.n_items) % (history[-1] + 2) * 1.0


@pytest.mark.parametrize("kind", [sr.InductiveConformal, sr.PopulationConformal])
def test_parts_are_stored_and_restored(films, tmp_path, kind):
    model = kind(Habit).fit(films)
    model.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=Habit)
    assert back.scorer_.own.counts is not films
    picks = model.recommend(user=7, confidence=0.7)
    assert back.recommend(user=7, confidence=0.7).to_frame().equals(picks.to_frame())
    why = back.explain(user=7, item=picks.items[0])
    assert why.contributions[0] == Contribution(
        "number of consumers",
        float(films.item_codes.tolist().count(films.items.code(why.item))),
        1.0,
    )
    assert "Largest effects on its score: number of consumers" in str(why)


class _Private(Bare):
    leaves_users_out = False


@pytest.mark.parametrize(
    ("given", "sentence", "recommender"),
    [
        (_Private(50), "your scorer is already fitted", "recall-own"),
        (lambda _: _Private(50), "your scorer", "recall-own"),
        (Bare(50), "the scorer Bare does not declare", "recall-bare"),
    ],
)
def test_no_private_name_is_shown(films, given, sentence, recommender):
    model = sr.PopulationConformal(given).fit(films)
    picks = model.recommend(user=3, confidence=0.8)
    assert picks.recommender == model.name_ == recommender
    assert model.scorer_.called in sentence
    if model.scorer_.leaves_users_out is None or not measure_of(model).refits:
        assert sentence in str(picks.guarantee)
    for private in ("lambda", "_Private"):
        assert private not in str(picks.guarantee) + picks.recommender


def test_a_folder_without_the_scorer_says_what_to_give(films, tmp_path):
    own = sr.PopulationConformal(Bare(films.n_items)).fit(sr.count_precedence(films))
    other = sr.InductiveConformal("CM4").fit(own.statistics_)
    save_all(tmp_path / "model", {"mine": own, "theirs": other})
    sentence = r"'mine' was saved without its scorer \(Bare\).*scorer=\"package\.module:object\""
    for ask in (lambda: sr.load(tmp_path / "model"), lambda: load_all(tmp_path / "model")):
        with pytest.raises(sr.InputError, match=sentence):
            ask()
    assert sr.load(tmp_path / "model", "theirs").measure == "CM4"
    with pytest.raises(
        sr.InputError, match=r"'theirs' was saved with its scorer\. Load it without scorer="
    ):
        sr.load(tmp_path / "model", "theirs", scorer=Bare(films.n_items))
    back = sr.load(tmp_path / "model", scorer=Bare(films.n_items))
    assert back.recommend(user=3, confidence=0.8).items == (
        own.recommend(user=3, confidence=0.8).items
    )


def test_what_cannot_score_is_refused(films):
    for wrong in (3.5, None, object()):
        with pytest.raises(sr.InputError, match=r"is no measure. Pass a name"):
            sr.InductiveConformal(wrong).fit(films)
    with pytest.raises(sr.InputError, match=r"str is no scorer. Give it a method score"):
        sr.InductiveConformal(lambda _: "scores").fit(films)
    with pytest.raises(NotImplementedError, match="Scorer defines neither score nor score_query"):
        Scorer().score_query(Query(np.array([1])))
    assert Scorer().state() is None
    assert State().is_empty


class Spoiled:
    """Scores that are right but for one thing."""

    leaves_users_out = True

    def __init__(self, change):
        self.change = change

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return self.change(np.arange(50) % 7.0)


class SpoiledDerived(Spoiled, Scorer):
    """The same, derived from Scorer."""

    def score_query(self, query):
        return self.score(query.history)


def with_one(value):
    def change(scores):
        scores[3] = value
        return scores

    return change


@pytest.mark.parametrize("kind", [sr.InductiveConformal, sr.PopulationConformal])
@pytest.mark.parametrize("scorer", [Spoiled, SpoiledDerived])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda scores: scores[:-1], r"returned scores of shape \(49,\). Return one score"),
        (lambda _: None, r"shape \(\)"),
        (lambda _: "scores", "returned 'scores' for scores"),
        (lambda _: [[1.0], [2.0, 3.0]], "for scores"),
        (with_one(np.inf), "1 scores that are infinite"),
        (with_one(-np.inf), "1 scores that are infinite.*the lowest for items"),
        (with_one(np.nan), "1 scores that are not numbers"),
    ],
)
def test_scores_that_are_not_scores_are_refused(films, kind, scorer, change, says):
    with pytest.raises(sr.InputError, match=says):
        kind(lambda _: scorer(change)).fit(films).recommend(user=7, confidence=0.7)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("leaves_users_out", "x", "leaves_users_out of Spoiled is 'x'"),
        ("uses_times", "sometimes", "uses_times of Spoiled is 'sometimes'. Set it to True"),
        ("value", lambda scores, *_: scores[:-1], "returned scores of shape"),
        ("value", lambda *_: "x", "returned 'x' for scores"),
        ("contributions", lambda *_: [("words", "x")], "for contributions"),
        ("state", lambda: 5, "returned 5 for its state"),
    ],
)
def test_other_declarations_of_a_scorer_are_checked(films, tmp_path, name, value, says):
    scorer = Spoiled(lambda scores: scores)
    setattr(scorer, name, value)

    def use():
        model = sr.PopulationConformal(scorer).fit(films)
        model.explain(user=7, item=model.recommend(user=7, confidence=0.9).items[0])
        model.save(tmp_path / "model")

    with pytest.raises(sr.InputError, match=says):
        use()
