"""Nothing of a person's own future is in what scores them; a leak that is planted is found."""

import numpy as np
import pytest
from surerec.measures.learned._recency import RECENCY, Recency

import surerec as sr
from surerec._calendar import DAY
from surerec.measures import Query
from surerec.measures.als import Factorisation
from surerec.measures.learned import LearnedMeasure, LearnedScorer
from surerec.measures.learned import _choice as choice_module
from surerec.measures.learned import _examples as examples_module
from surerec.measures.learned._examples import Sampling, make_examples
from surerec.measures.learned._features import Features
from surerec.measures.learned._forward import ForwardRidge
from surerec.measures.learned._futures import TrainedFuture
from surerec.measures.learned._offered import EXTRAS, FEATURES
from surerec.measures.learned._preference import train_factors

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


def test_a_ridge_from_past_to_future_planted_with_the_persons_own_is_found(films):
    """Fitted on the person too, and on what others than the person took after the cut."""

    def planted(features, data, history, _, without=()):
        assert features.forward.n_items == data.n_items
        weights = np.ones((1, len(history)))
        own = [data.taken(user) for user in without]
        return features.forward.score(history, weights, own, np.arange(data.n_items))

    def half_left_out(features, data, history, *_):
        """Without the first half alone: what it was followed by is still in the weights."""
        own = data.taken(USER)
        known = own[: len(own) // 2]
        return features.forward.score(
            history, np.ones((1, len(history))), [known], np.arange(data.n_items)
        )

    def left_out(*case):
        return planted(*case, without=(USER,))

    assert leaks(films, planted)
    assert leaks(films, half_left_out)
    assert not leaks(films, left_out)


def test_factors_that_saw_the_person_are_found(films):
    def by_fold_of(person):
        def score(features, _, history, __):
            factors = train_factors(features.statistics, 3, 0)
            return factors.score(factors.fold_for(person), history)

        return score

    folds = train_factors(sr.count_precedence(films), 3, 0).fold_of
    stranger = int(np.flatnonzero(folds != folds[USER])[0])
    assert leaks(films, by_fold_of(stranger))
    assert not leaks(films, by_fold_of(USER))


def test_no_feature_knows_the_future_where_factors_are_among_them(films):
    def of(features, _, history, moment):
        factors = train_factors(features.statistics, 3, 0)
        every = Features(features.statistics, extras=tuple(EXTRAS), factors=factors)
        found = every.of(history, without=(USER,), moment=moment)
        assert np.abs(found[-1]).max() > 0
        return found

    assert not leaks(films, of)


@pytest.mark.parametrize(("learns", "call"), [(ForwardRidge, "fit"), (Factorisation, "train")])
def test_base_scores_of_a_fold_are_learned_without_its_users(films, monkeypatch, learns, call):
    """Those of training examples come from the other folds' profiles alone."""
    seen = []
    real = getattr(learns, call).__func__

    def watched(cls, data, *rest, **named):
        interactions = getattr(data, "interactions", data)
        seen.append({*interactions.users.ids.to_list()})
        return real(cls, data, *rest, **named)

    monkeypatch.setattr(learns, call, classmethod(watched))
    learned = LearnedMeasure.train(sr.count_precedence(films), n_users=60, n_folds=2)
    assert len(seen) == 2
    for fold, users in enumerate(seen):
        of_fold = {films.users.ids[int(u)] for u in np.flatnonzero(learned.fold_of == fold)}
        assert users.isdisjoint(of_fold)
        assert len(users) + len(of_fold) == films.n_users


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
