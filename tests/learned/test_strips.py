import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.measures._tiles import LeftOutUser, leave_out
from surerec.measures._vectors import aligned_room
from surerec.measures.learned import _strip_kernels as strips
from surerec.measures.learned import _sum_kernels as tiles
from surerec.precedence import of_matrix


class Case:
    """Rows of counts that a user to leave out may have a part in, held somewhere in a matrix."""

    def __init__(self, seed, n_rows, n_columns, n_own, most):
        chance = np.random.default_rng(seed)
        support = chance.integers(1, most, n_rows + 3).astype(np.uint32)
        shares = chance.random((2, len(support), n_columns)) ** 3
        both = (shares * support[:, None] / shares.sum(axis=0)).astype(np.uint16)
        both[:, :, chance.random(n_columns) < 0.1] = 0
        places = chance.permutation(len(support))[:n_rows]
        own = chance.permutation(n_columns)[:n_own].astype(np.uint32)
        # Whoever took the rows' items is counted in them, before or after.
        times = np.sort(chance.integers(0, max(n_own // 2, 1), n_own))
        history = chance.permutation(n_columns)[:n_rows]
        wide = np.zeros(n_columns, np.uint32)
        wide[history] = support[places] + 1
        self.out = LeftOutUser(own, *leave_out(history, wide, own, times, True))
        instants = np.full(n_columns, -1)
        instants[own] = self.out.instants
        for row, at in zip(places, self.out.of_rows, strict=True):
            both[0, row] += (instants > at) & (at >= 0)
            both[1, row] += (instants < at) & (at >= 0) & (instants >= 0)
        full = chance.random((len(support), n_columns)) < 0.1  # ratios of 1
        both[0][full] = np.maximum(support[:, None] - both[1].astype(np.int64), 0)[full]
        self.sources = [of_matrix(matrix, places) for matrix in both]
        self.recent = chance.random(n_rows).astype(np.float32)

    def by_tiles(self, n_columns):
        found = np.empty((tiles.N_SUMS, n_columns), np.float32)
        tiles.summarise_rows(*self.sources, self.out, self.recent, 5, found)
        return found

    def by_strips(self, n_columns, cut):
        forward, reverse = self.sources
        assert strips.in_strips(forward, reverse, self.out, n_columns)
        found = np.full((tiles.N_SUMS, n_columns), np.nan, np.float32)
        both = forward.matrix, reverse.matrix, forward.places, reverse.places
        rows = strips.strip_rows(*both, self.out, self.recent, n_columns)
        steps = aligned_room((len(self.recent), strips.N_COLUMNS), np.uint16)
        for left, right in ((0, cut), (cut, n_columns)):
            strips.sum_strips(rows, left, right, 5, steps, found)
        return found


@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 20),
    n_columns=st.sampled_from([32, 33, 64, 70, 600]),
    n_own=st.integers(0, 30),
    most=st.sampled_from([2, 40, 32_700]),
)
def test_strips_are_tiles_to_the_last_bit(seed, n_rows, n_columns, n_own, most):
    case = Case(seed, n_rows, n_columns, n_own, most)
    cut = 32 * (n_columns // 64)
    np.testing.assert_array_equal(case.by_strips(n_columns, cut), case.by_tiles(n_columns))


def test_ratios_of_one_are_a_step_above_all_others():
    case = Case(1, 3, 40, 0, 100)
    case.out.support[:] = [32_766, 32_767, 32_767]
    for source, count in zip(case.sources, (32_766, 0), strict=True):
        matrix = source.matrix.copy()
        matrix[:] = count
        case.sources[0 if count else 1] = of_matrix(matrix, source.places)
    found = case.by_strips(40, 32)
    np.testing.assert_array_equal(found, case.by_tiles(40))
    assert (found[tiles.MIDDLE_RATIO] == np.float32(65534 / 65536)).all()


@pytest.mark.parametrize(
    ("n_columns", "most", "kind"), [(31, 5, np.uint16), (40, 40_000, np.uint16), (40, 5, np.uint32)]
)
def test_other_rows_are_left_to_tiles(n_columns, most, kind):
    matrix = np.ones((2, n_columns), kind)
    rows, nothing = of_matrix(matrix, np.array([0, 1])), np.empty(0, np.int64)
    out = LeftOutUser(nothing.astype(np.uint32), nothing, np.array([-1, -1]), np.array([1, most]))
    assert not strips.in_strips(rows, rows, out, n_columns)
