import os
import signal
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec._grouping import group_rows
from surerec._threads import equal_blocks, run_blocks, run_together

amounts = st.lists(st.integers(0, 1_000)).map(np.array)


@given(amounts, st.integers(1, 9))
def test_blocks_cover_all_positions_and_balance_the_work(work, n_blocks):
    blocks = equal_blocks(work.astype(np.int64), n_blocks)
    assert [place for start, stop in blocks for place in range(start, stop)] == list(
        range(len(work))
    )
    assert len(blocks) <= n_blocks
    largest = max((work[a:b].sum() for a, b in blocks), default=0)
    assert largest <= (work.sum() + len(work)) / n_blocks + work.max(initial=0) + 1


@given(st.lists(st.integers(0, 20)))
def test_grouping_is_a_stable_sort(codes):
    offsets, order = group_rows(np.array(codes, dtype=np.uint32), 21)
    assert order.tolist() == sorted(range(len(codes)), key=codes.__getitem__)
    assert offsets.tolist() == [sum(c < g for c in codes) for g in range(22)]


def test_an_error_in_a_block_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(run_blocks(lambda block: 1 // block, [1, 0, 2]))


def test_a_few_blocks_run_together_and_an_error_reaches_the_caller():
    done = set()
    run_together(done.add, [1, 2, 3])
    run_together(done.add, [4])
    run_together(done.add, [])
    assert done == {1, 2, 3, 4}
    for bad in ([0, 1, 2], [1, 0, 2]):
        with pytest.raises(ZeroDivisionError):
            run_together(lambda block: 1 // block, bad)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_wait_for_threads_of_the_parent():
    run_together(lambda _: None, [1, 2])
    child = os.fork()
    if child == 0:  # would wait forever for threads of the parent
        run_together(lambda _: None, [1, 2])
        os._exit(7)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 7
