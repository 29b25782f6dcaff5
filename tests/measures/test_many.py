"""A batch of queries gets the scores of single queries, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures import MeasureScorer, Query


def drawn(random, n_users, n_items):
    """Return profiles of different lengths with ties in time; some items have no consumers."""
    profiles = [
        random.permutation(n_items)[: random.integers(1, n_items + 1)] for _ in range(n_users)
    ]
    offsets = np.concatenate(([0], np.cumsum([len(profile) for profile in profiles])))
    times = [np.sort(random.integers(0, 5, len(profile))) for profile in profiles]
    return sr.Interactions.from_profiles(offsets, np.concatenate(profiles), np.concatenate(times))


def draw_queries(random, consumed, n_queries):
    """Yield queries by whole profiles, by parts, by other histories, and of new users."""
    for kind in random.integers(0, 4, n_queries):
        user = int(random.integers(consumed.n_users))
        own = consumed.consumed(user).astype(np.int64)
        other = random.permutation(consumed.n_items)[: random.integers(1, consumed.n_items + 1)]
        if kind == 0:
            yield Query(own, (user,))
        elif kind == 1:
            yield Query(own[: 1 + len(own) // 2], (user,))
        else:
            yield Query(other, (user,) if kind == 2 else ())


@pytest.mark.parametrize("measure", ["CM12", "CM3", "NCM14"])
@pytest.mark.parametrize("ties", ["strict", "order"])
@given(
    random_state=st.integers(0, 2**32), n_queries=st.integers(1, 30), n_items=st.integers(1, 150)
)
def test_batches_equal_single_queries(measure, ties, random_state, n_queries, n_items):
    random = np.random.default_rng(random_state)
    consumed = drawn(random, 12, n_items)
    scorer = MeasureScorer(sr.count_precedence(consumed, ties=ties), measure)
    queries = list(draw_queries(random, consumed, n_queries))
    for query, found in zip(queries, scorer.score_candidates(queries), strict=True):
        expected = scorer.score_query(query).copy()
        expected[query.history] = -np.inf
        np.testing.assert_array_equal(found, expected)
