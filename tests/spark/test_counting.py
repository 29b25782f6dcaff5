"""The grid that is counted: which one moves the fewest bytes, within a task's memory."""

import numpy as np

from surerec.spark._counting import plan_counting
from surerec.spark._profiles import ProfilePart


def test_user_blocks_are_used_only_to_move_fewer_bytes():
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
