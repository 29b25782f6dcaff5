"""p-values by rough scores are those by exact ones, ties and all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration._evidence import RoughScores
from surerec.calibration._items import compare_with_items
from surerec.calibration._rough import count_sure
from surerec.measures import MeasureScorer, Query
from surerec.measures.kernels import ROUGH


def films(seed, n_items=60, n_rows=4_000):
    return sr.datasets.synthetic(n_users=150, n_items=n_items, n_rows=n_rows, seed=seed)


def one_by_one(counts, query, n_training, candidates):
    """Score all items exactly and compare them with the calibration items."""
    scores = MeasureScorer(counts, "CM12").score_query(query.first(n_training))
    return compare_with_items(scores, query.history[n_training:], candidates)


@given(
    st.lists(st.floats(0, 100), max_size=30).map(sorted),
    st.lists(st.floats(0, 100), min_size=1, max_size=30),
    st.data(),
)
def test_what_is_told_is_right_however_scores_are_off(calibration, scores, data):
    """Rough scores anywhere within what they may be off, and many on a calibration score."""
    ordered = np.array(calibration, float)
    exact = np.array([
        data.draw(st.sampled_from(calibration)) if calibration and data.draw(st.booleans()) else s
        for s in scores
    ])  # fmt: skip
    off = data.draw(st.lists(st.floats(-0.5, 0.5), min_size=len(exact), max_size=len(exact)))
    found, n_unsure = count_sure(exact * (1 + np.array(off) * ROUGH), ordered)
    assert n_unsure == np.count_nonzero(found < 0)
    right = np.searchsorted(ordered, exact, side="right") + 1
    np.testing.assert_array_equal(found[found >= 0], right[found >= 0])
    apart = [np.abs(ordered - s).min(initial=np.inf) > 2 * ROUGH * s + 1e-300 for s in exact]
    assert (found[apart] >= 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_items", [20, 60, 400])
def test_sets_and_p_values_are_those_of_exact_scores(seed, n_items):
    data = films(seed, n_items, min(4_000, 75 * n_items))
    counts = sr.count_precedence(data)
    model = sr.InductiveConformal("CM12").fit(counts)
    for user in range(0, data.n_users, 3):
        for query in (Query.of_user(data, user), Query(data.taken(user).astype(np.int64))):
            found = model.assess(query)
            n_training = len(query.history) - found.n_calibration
            expected = one_by_one(counts, query, n_training, found.candidates)
            assert isinstance(found.evidence, RoughScores)
            for epsilon in (0.05, 0.3, 0.8):
                np.testing.assert_array_equal(found.included(epsilon), expected.included(epsilon))
            np.testing.assert_array_equal(found.counts, expected.counts)
            np.testing.assert_array_equal(found.score, expected.score)


def test_looking_at_scores_first_changes_nothing():
    data = films(5)
    model = sr.InductiveConformal("CM12").fit(data)
    for user in range(20):
        query = Query.of_user(data, user)
        looked, not_looked = model.assess(query), model.assess(query)
        assert len(looked.score) == len(looked.candidates)
        np.testing.assert_array_equal(looked.included(0.2), not_looked.included(0.2))
        np.testing.assert_array_equal(looked.counts, not_looked.counts)


def test_who_took_more_than_is_known_and_what_is_known_are_scored_exactly():
    data = films(7)
    counts = sr.count_precedence(data)
    model = sr.InductiveConformal("CM12").fit(counts)
    profile = data.taken(3).astype(np.int64)
    less = Query(profile[:9], (3,))
    for query, candidates in ((less, profile[9:]), (Query.of_user(data, 3), profile[::2])):
        found = model.assess(query, candidates)
        n_training = len(query.history) - found.n_calibration
        expected = one_by_one(counts, query, n_training, candidates)
        np.testing.assert_array_equal(found.included(0.3), expected.included(0.3))
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_array_equal(found.score, expected.score)
