"""Nothing of a person's own future is in what scores them; a leak that is planted is found."""

import numpy as np
import pytest

import surerec as sr
from surerec._calendar import DAY
from surerec.measures import Query
from surerec.measures.learned import LearnedMeasure, LearnedScorer
from surerec.measures.learned import _choice as choice_module
from surerec.measures.learned import _examples as examples_module
from surerec.measures.learned._examples import Sampling, make_examples
from surerec.measures.learned._features import EXTRAS, FEATURES, Features
from surerec.measures.learned._futures import TrainedFuture
from surerec.measures.learned._recency import RECENCY, Recency

CALENDAR = slice(len(FEATURES), len(FEATURES) + len(RECENCY))
USER, CUT = 7, 8


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=120, n_items=60, n_rows=3000, days=400, seed=5)


def other_future(films, user, cut):
    """The same data, but that one user took other items after a cut, and later."""
    where = np.arange(films.offsets[user] + cut, films.offsets[user + 1])
    items, times = films.items_taken.copy(), films.times.copy()
    free = np.setdiff1d(np.arange(films.n_items), films.taken(user)[:cut])
    items[where] = np.random.default_rng(1).permutation(free)[: len(where)]
    times[where] += 40 * DAY
    return sr.Interactions(films.users, films.items, films.offsets, items, times)


def leaks(films, features_of):
    """Tell whether a person's features change with what they took after the cut."""
    history, moment = films.taken(USER)[:CUT].astype(int), int(films.times_of(USER)[CUT - 1])
    both = [
        features_of(
            Features(sr.count_precedence(data), extras=tuple(EXTRAS)), data, history, moment
        )
        for data in (films, other_future(films, USER, CUT))
    ]
    return not np.allclose(*both, rtol=1e-5, atol=1e-6)


def test_no_feature_knows_the_future_of_the_person(films):
    assert not leaks(
        films,
        lambda features, _, history, moment: features.of(history, without=(USER,), moment=moment),
    )


def test_the_calendar_planted_with_the_day_of_the_next_item_is_found(films):
    def planted(features, data, history, _):
        first_of_future = int(data.times_of(USER)[CUT])
        return features.of(history, without=(USER,), moment=first_of_future)[CALENDAR]

    assert leaks(films, planted)


def test_the_calendar_planted_with_the_persons_own_takings_is_found(films):
    def planted(_, data, *__):
        lately, nobody = Recency.of(data), np.empty(0, dtype=np.int64)
        return lately.features(lately.last_day, np.arange(data.n_items), nobody)

    def left_out(_, data, *__):
        lately, own = Recency.of(data), np.arange(*data.offsets[USER : USER + 2])
        return lately.features(500 + int(films.times.max()) // DAY, np.arange(data.n_items), own)

    assert leaks(films, planted)
    assert not leaks(films, left_out)


def test_examples_ask_at_the_moment_of_the_last_known_item(films, monkeypatch):
    asked = []
    real = Features.of

    def watched(features, history, **named):
        asked.append((named["without"][0], len(history), named["moment"]))
        return real(features, history, **named)

    monkeypatch.setattr(examples_module, "_USERS_AT_ONCE", 1)
    monkeypatch.setattr(Features, "of", watched)
    features = Features(sr.count_precedence(films), extras=tuple(EXTRAS))
    users = np.arange(1, 5)
    make_examples(features, users, users, Sampling(TrainedFuture(0.4), 2, 20, 0), lambda _: None)
    assert len(asked) == 8
    for user, length, moment in asked:
        assert moment == films.times_of(user)[length - 1]


def test_the_choice_of_a_fold_knows_nothing_of_its_users(films, monkeypatch):
    """Ingredients are chosen by others: a fold's choice stays as it is whatever its users took."""
    monkeypatch.setattr(choice_module, "_FEWEST_JUDGED", 5)
    learned = LearnedMeasure.train(sr.count_precedence(films), n_users=60, n_folds=2)
    changed = other_future(films, USER, CUT)
    again = LearnedMeasure.train(sr.count_precedence(changed), n_users=60, n_folds=2)
    fold = learned.fold_for(USER)
    assert again.params["ingredients"][fold] == learned.params["ingredients"][fold]
    assert again.params["ingredients"] != learned.params["ingredients"]


def test_a_user_without_times_is_asked_at_their_own_last_known_item(films):
    statistics = sr.count_precedence(films)
    features = Features(statistics, extras=tuple(EXTRAS))
    history, times = films.taken(USER)[:CUT].astype(int), films.times_of(USER)[:CUT]
    told = features.of(history, without=(USER,), moment=int(times[-1]))
    np.testing.assert_array_equal(features.of(history, without=(USER,)), told)
    newcomer = features.of(history)
    late = features.of(history, moment=int(films.times.max()) + DAY)
    np.testing.assert_array_equal(newcomer, late)
    learned = LearnedMeasure.train(statistics, n_users=60, n_folds=2)
    scorer = LearnedScorer(statistics, learned)
    scores = scorer.score_query(Query(history, (USER,), times))
    np.testing.assert_array_equal(scorer.score(history, without_user=USER), scores)
