"""Sums over the rows of a profile against a reference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.measures._tiles import LeftOutUser, leave_out
from surerec.measures.learned import _sums
from surerec.precedence import of_matrix


def slow_sums(forward, back, support, recent):
    """Return the sums row by row in 32 bits, from counts without the user."""
    one, found = np.float32(1), np.zeros((_sums.N_SUMS, forward.shape[1]), np.float32)
    ratios = []
    for k, (after, before) in enumerate(zip(forward, back, strict=True)):
        consumed = np.float32(support[k])
        share, back_share = after * (one / consumed), before * (one / consumed)
        ratio = after / np.maximum(one, consumed - before)
        cosine = (after + before) * (one / np.sqrt(consumed))
        late = share if k >= len(forward) - 5 else 0 * share
        for which, value in (
            (_sums.COUNT, after),
            (_sums.BACK, before),
            (_sums.SHARE, share),
            (_sums.RECENT_SHARE, recent[k] * share),
            (_sums.LAST_SHARE, late),
            (_sums.RATIO, ratio),
            (_sums.BACK_SHARE, back_share),
            (_sums.COSINE, cosine),
            (_sums.RECENT_COSINE, recent[k] * cosine),
        ):
            found[which] += value
        for which, value in (
            (_sums.HIGH_SHARE, share),
            (_sums.HIGH_RATIO, ratio),
            (_sums.HIGH_COSINE, cosine),
        ):
            found[which] = np.maximum(found[which], value)
        ratios.append(np.floor(ratio * np.float32(65536)) / 65536)
    found[_sums.MIDDLE_RATIO] = np.median(ratios, axis=0)
    return found


@given(
    random_state=st.integers(0, 10**6),
    n_rows=st.integers(1, 20),
    n_columns=st.sampled_from([5, 32, 33, 70, 1100]),
    n_own=st.integers(0, 5),
    most=st.sampled_from([2, 40, 32_700]),
    kind=st.sampled_from([np.uint16, np.uint32]),
)
def test_sums_equal_the_reference_without_the_user(
    random_state, n_rows, n_columns, n_own, most, kind
):
    rng = np.random.default_rng(random_state)
    support = rng.integers(1, most, n_rows).astype(np.uint32)
    shares = rng.random((2, n_rows, n_columns)) ** 3
    others = (shares * support[:, None] / shares.sum(axis=0)).astype(kind)
    full = rng.random((n_rows, n_columns)) < 0.1  # ratios of 1
    others[0][full] = (support[:, None] - others[1])[full]
    own = rng.permutation(n_columns)[:n_own].astype(np.uint32)
    history = rng.integers(0, n_columns, n_rows)
    wide = np.zeros(n_columns, np.uint32)
    times = np.sort(rng.integers(0, max(n_own // 2, 1), n_own))
    out = LeftOutUser(own, *leave_out(history, wide, own, times, True))._replace(
        support=support.astype(np.int64)
    )
    instants = np.full(n_columns, -1)
    instants[own] = out.instants
    counted = others.copy()
    for row, at in enumerate(out.of_rows):
        counted[0, row] += (instants > at) & (at >= 0)
        counted[1, row] += (instants < at) & (at >= 0) & (instants >= 0)
    recent = rng.random(n_rows).astype(np.float32)
    expected = slow_sums(*others.astype(np.float32), support, recent)
    places = rng.permutation(n_rows)
    sources = []
    for each in counted:
        matrix = np.empty_like(each)
        matrix[places] = each
        sources.append(of_matrix(matrix, places))
    for held in (
        sources,
        [each._replace(matrix=each.matrix[:0], counted=each.matrix) for each in sources],
    ):
        found, parts = _sums.sums_in_parts(*held, out, recent, n_columns)
        for part in parts:
            part()
        np.testing.assert_array_equal(found, expected)
