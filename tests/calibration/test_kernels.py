"""p-values by rough scores are those by exact ones, ties and all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration import LengthGroups, compare_with_items
from surerec.calibration.kernels import count_sure, rank_among
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


def check_all(model, data, counts, users):
    """Compare sets, p-values and scores with those of exact scores by other counts of the same."""
    for user in users:
        for query in (Query.of_user(data, user), Query(data.taken(user).astype(np.int64))):
            found = model.model_.assess(query)
            n_training = len(query.history) - found.n_calibration
            expected = one_by_one(counts, query, n_training, found.candidates)
            assert "_exact" not in vars(found)  # rough scores decide
            for epsilon in (0.05, 0.3, 0.8):
                np.testing.assert_array_equal(found.included(epsilon), expected.included(epsilon))
            np.testing.assert_array_equal(found.counts, expected.counts)
            np.testing.assert_array_equal(found.score, expected.score)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_items", [20, 60, 400])
@pytest.mark.parametrize("held", [None, 0.0, 0.4])
def test_sets_and_p_values_are_those_of_exact_scores(seed, n_items, held):
    """Whether all rows are held, or a share of them, or none: the others are counted."""
    data = films(seed, n_items, min(4_000, 75 * n_items))
    counts = within = sr.count_precedence(data, strategy="dense")
    if held is not None:
        n_bytes = int(held * 4 * n_items**2)
        within = sr.count_precedence(data, strategy="bounded", memory=n_bytes)
    model = sr.InductiveConformal("CM12").fit(within)
    check_all(model, data, counts, range(0, data.n_users, 3))


def test_rows_that_16_bits_do_not_hold_are_among_the_others():
    random = np.random.default_rng(3)
    ones = np.arange(4 * 33_000 + 1) * 3
    profiles = random.integers(2, 40, (4 * 33_000, 3))
    profiles[:, :2] = (0, 1)
    profiles[::4, 2] = 40 + np.arange(33_000) % 3
    few = random.permuted(np.tile(np.arange(43), (30, 1)), axis=1)[:, :20]
    offsets = np.concatenate((ones, ones[-1] + 20 * np.arange(1, 31)))
    data = sr.Interactions.from_profiles(offsets, np.concatenate((profiles.ravel(), few.ravel())))
    within = sr.count_precedence(data, strategy="bounded", memory=3_000)
    rows = within.rows
    kept = rows.source("followers", np.arange(data.n_items))
    assert kept.counts.max() > 2**16
    assert kept.counted.itemsize == kept.matrix.itemsize == 2
    assert len(kept.matrix) > 0 < len(kept.counted)
    del kept
    model = sr.InductiveConformal("CM12").fit(within)
    counts = sr.count_precedence(data, strategy="dense")
    check_all(model, data, counts, range(data.n_users - 30, data.n_users))


def test_answers_that_are_kept_keep_no_rows_from_others():
    data = films(2)
    within = sr.count_precedence(data, strategy="bounded", memory=4_000)
    model = sr.InductiveConformal("CM12").fit(within)
    ids = data.users.ids
    kept = [model.recommend(ids[user], confidence=0.8) for user in range(30)]
    assert not within.rows._cache._readers.any()
    dense = sr.InductiveConformal("CM12").fit(sr.count_precedence(data, strategy="dense"))
    for user, found in enumerate(kept):
        assert found.to_frame().equals(dense.recommend(ids[user], confidence=0.8).to_frame())


def test_who_took_more_than_is_known_and_what_is_known_are_scored_exactly():
    data = films(7)
    counts = sr.count_precedence(data)
    model = sr.InductiveConformal("CM12").fit(counts)
    profile = data.taken(3).astype(np.int64)
    less = Query(profile[:9], (3,))
    for query, candidates in ((less, profile[9:]), (Query.of_user(data, 3), profile[::2])):
        found = model.model_.assess(query, candidates)
        n_training = len(query.history) - found.n_calibration
        expected = one_by_one(counts, query, n_training, candidates)
        np.testing.assert_array_equal(found.included(0.3), expected.included(0.3))
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_array_equal(found.score, expected.score)


COUNTS = st.one_of(st.integers(0, 50), st.integers(2**20 - 2, 2**20 + 2), st.just(2**32 - 1))


@given(st.lists(COUNTS, min_size=1), st.lists(COUNTS))
def test_ranks_among_huge_counts_are_searched(thresholds, values):
    ordered = np.sort(np.array(thresholds, dtype=np.uint32))
    wanted = np.array(values, dtype=np.uint32)
    ranks = np.empty(len(wanted), dtype=np.int32)
    rank_among(ordered, wanted, ranks)
    assert ranks.tolist() == [sum(count <= value for count in thresholds) for value in values]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_more_groups_than_people_are_as_many_as_people(lengths):
    known = np.array(lengths)
    found = [LengthGroups.equal(known, n).edges.tolist() for n in (len(lengths), 500, 10**9)]
    shares = np.arange(1, 500) / 500
    edges = np.unique(np.quantile(known, shares, method="higher"))
    assert found == [edges[edges > known.min()].tolist()] * 3
