"""Sets and p-values of item-level calibration equal those from all scores."""

import numpy as np
import pytest

import surerec as sr
from surerec.calibration import compare_with_items
from surerec.measures import MeasureScorer, Query


@pytest.mark.parametrize("n_items", [20, 400])
@pytest.mark.parametrize("held", [None, 0.0, 0.4])
def test_sets_and_p_values_equal_those_of_all_scores(n_items, held):
    """With all rows of counts in memory, some of them, or none."""
    n_rows = min(4_000, 75 * n_items)
    data = sr.datasets.synthetic(n_users=150, n_items=n_items, n_rows=n_rows, random_state=1)
    counts = within = sr.count_precedence(data, strategy="dense")
    if held is not None:
        n_bytes = int(held * 4 * n_items**2)
        within = sr.count_precedence(data, strategy="bounded", memory=n_bytes)
    model = sr.InductiveConformal("CM12").fit(within)
    for user in range(0, data.n_users, 3):
        profile = data.consumed(user).astype(np.int64)
        queries = (Query.of_user(data, user), None), (Query(profile), None)
        # A user who consumed more than is known, some of it candidates.
        more_than_known = Query(profile[:9], (user,)), profile[9:]
        for query, candidates in (*queries, more_than_known):
            found = model.model_.assess(query, candidates)
            n_training = len(query.history) - found.n_calibration
            scores = MeasureScorer(counts, "CM12").score_query(query.first(n_training))
            right = compare_with_items(scores, query.history[n_training:], found.candidates)
            np.testing.assert_array_equal(found.counts, right.counts)
            np.testing.assert_array_equal(found.score, right.score)


def test_kept_results_do_not_block_cached_rows():
    data = sr.datasets.synthetic(n_users=150, n_items=60, n_rows=4_000, random_state=2)
    within = sr.count_precedence(data, strategy="bounded", memory=4_000)
    model = sr.InductiveConformal("CM12").fit(within)
    ids = data.users.ids
    kept = [model.recommend(ids[user], confidence=0.8) for user in range(30)]
    assert not within.rows._cache._readers.any()
    dense = sr.InductiveConformal("CM12").fit(sr.count_precedence(data, strategy="dense"))
    for user, found in enumerate(kept):
        assert found.to_frame().equals(dense.recommend(ids[user], confidence=0.8).to_frame())
