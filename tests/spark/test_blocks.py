"""What tasks do, without Spark: cells of the grid, packed counts, blocks of items."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import surerec as sr
from surerec.spark._counting import add_packed, count_cell, item_blocks, pack, plan_counting
from surerec.spark._profiles import ProfilePart
from surerec.spark._staging import Staging

counts = st.sampled_from([0, 0, 0, 1, 255, 256, 70_000])
matrices = st.tuples(st.integers(1, 5), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.uint32, shape, elements=counts)
)


@given(matrices)
def test_packed_counts_add_up_to_themselves(rows):
    total = np.ones((len(rows) + 1, rows.shape[1]), dtype=np.uint32)
    for _ in range(2):
        add_packed(pack(rows), total)
    np.testing.assert_array_equal(total[:-1], 1 + 2 * rows)
    assert (total[-1] == 1).all()


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40).map(lambda x: sorted(x, reverse=True)),
    st.integers(1, 6),
    st.integers(1, 7),
)
def test_item_blocks_cover_all_items_once_and_none_is_too_large(support, n_blocks, most_rows):
    blocks = item_blocks(np.array(support, dtype=np.uint32), n_blocks, most_rows)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == len(support)
    assert all(before[1] == after[0] for before, after in pairwise(blocks))
    assert all(0 < last - first <= most_rows for first, last in blocks)


def stage_parts(folder, interactions, cuts):
    """Write profiles as parts of consecutive users."""
    staging, parts = Staging(str(folder)), []
    for number, (first, last) in enumerate(pairwise(cuts)):
        where = slice(interactions.offsets[first], interactions.offsets[last])
        part = ProfilePart(number, last - first, where.start, where.stop - where.start)
        lengths = np.diff(interactions.offsets[first : last + 1])
        staging.write_array(part.name("lengths"), lengths)
        staging.write_array(part.name("items_taken"), interactions.items_taken[where])
        staging.write_array(part.name("times"), interactions.times[where])
        parts.append(part)
    return staging, parts


@pytest.mark.parametrize("ties", ["order", "strict"])
def test_cells_add_up_to_the_counts_in_memory(tmp_path, ties):
    taken = sr.datasets.synthetic(40, 30, 600, ties=0.5, seed=6)
    expected = sr.count_precedence(taken, ties=ties)
    staging, parts = stage_parts(tmp_path, taken, [0, 13, 14, 40])
    for direction in ("followers", "predecessors"):
        rows = sum(
            count_cell(
                staging, users, (4, 11), direction, 30, counter="uint16", strict=ties == "strict"
            )
            for users in (parts[:2], parts[2:])
        )
        give = getattr(expected, direction)
        np.testing.assert_array_equal(rows, [give(item) for item in range(4, 11)])


def test_the_plan_shuffles_counts_only_where_that_moves_fewer_bytes():
    few_items = np.full(100, 1_000_000, dtype=np.uint32)
    parts = [ProfilePart(k, 1_000, 0, 2_000_000) for k in range(50)]
    cut_by_users = plan_counting(parts, few_items, (0, 100), n_tasks=64, task_memory=1 << 20)
    assert len(cut_by_users.user_blocks) > 1
    assert cut_by_users.most_shuffled == 2 * len(cut_by_users.user_blocks) * 100 * 100
    many_items = np.full(20_000, 50, dtype=np.uint32)
    small = [ProfilePart(k, 1_000, 0, 20_000) for k in range(50)]
    by_items = plan_counting(small, many_items, (0, 20_000), n_tasks=64, task_memory=1 << 28)
    assert len(by_items.user_blocks) == 1
    assert by_items.most_shuffled == 0
    assert by_items.n_cells >= 64


def test_a_long_profile_is_spread_over_many_tasks():
    n_items = 32_000
    plan = plan_counting(
        [ProfilePart(0, 1, 0, n_items)],
        np.ones(n_items, dtype=np.uint32),
        (0, n_items),
        n_tasks=16,
        task_memory=256_000_000,
    )
    largest = max(last - first for first, last in plan.item_blocks)
    assert largest * n_items * 2 <= 256_000_000
    assert largest <= n_items / 8
