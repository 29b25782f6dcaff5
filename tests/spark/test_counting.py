"""The grid that is counted: which one moves the fewest bytes, within a task's memory."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.spark._counting import item_blocks, plan_counting
from surerec.spark._profiles import ProfilePart


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40).map(lambda x: sorted(x, reverse=True)),
    st.integers(1, 6),
    st.integers(1, 7),
)
def test_item_blocks_cover_all_items_once_and_none_is_too_large(support, n_blocks, most_rows):
    blocks = item_blocks(np.array(support, dtype=np.uint32), n_blocks, most_rows)
    assert (blocks[0][0], blocks[-1][1]) == (0, len(support))
    assert all(before[1] == after[0] for before, after in pairwise(blocks))
    assert all(0 < last - first <= most_rows for first, last in blocks)


def test_users_are_cut_only_where_that_moves_fewer_bytes():
    few_items = np.full(100, 1_000_000, dtype=np.uint32)
    parts = tuple(ProfilePart(k, 1_000, 0, 2_000_000) for k in range(50))
    by_users = plan_counting(parts, few_items, (0, 100), n_tasks=64, task_memory=1 << 20)
    assert len(by_users.user_blocks) > 1
    many_items = np.full(20_000, 50, dtype=np.uint32)
    small = tuple(ProfilePart(k, 1_000, 0, 20_000) for k in range(50))
    by_items = plan_counting(small, many_items, (0, 20_000), n_tasks=64, task_memory=1 << 28)
    assert len(by_items.user_blocks) == 1
    assert by_items.n_cells >= 64
    one = (ProfilePart(0, 1, 0, 32_000),)  # a long profile is spread over many tasks
    spread = plan_counting(
        one, np.ones(32_000, np.uint32), (0, 32_000), n_tasks=16, task_memory=256_000_000
    )
    assert max(last - first for first, last in spread.item_blocks) <= 32_000 / 8
