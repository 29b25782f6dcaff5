"""Many profiles scored at once get the scores that each gets alone, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures import MeasureScorer, Query


def drawn(random, n_users, n_items):
    """Profiles with ties in time, of very different lengths; some items that nobody took."""
    profiles = [
        random.permutation(n_items)[: random.integers(1, n_items + 1)] for _ in range(n_users)
    ]
    offsets = np.concatenate(([0], np.cumsum([len(profile) for profile in profiles])))
    times = [np.sort(random.integers(0, 5, len(profile))) for profile in profiles]
    return sr.Interactions.from_profiles(offsets, np.concatenate(profiles), np.concatenate(times))


def asked(random, consumed, n_people):
    """People known by all they took, by its beginning, by something else, and newcomers."""
    for kind in random.integers(0, 4, n_people):
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
@given(random_state=st.integers(0, 2**32), n_people=st.integers(1, 30), n_items=st.integers(1, 150))
def test_together_as_alone(measure, ties, random_state, n_people, n_items):
    random = np.random.default_rng(random_state)
    consumed = drawn(random, 12, n_items)
    scorer = MeasureScorer(sr.count_precedence(consumed, ties=ties), measure)
    queries = list(asked(random, consumed, n_people))
    for query, found in zip(queries, scorer.score_candidates(queries), strict=True):
        expected = scorer.score_query(query).copy()
        expected[query.history] = -np.inf
        np.testing.assert_array_equal(found, expected)
