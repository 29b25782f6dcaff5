import numpy as np
import pytest

from surerec import InputError, PrecedenceStatistics
from surerec.errors import NoUsers

# The paper's Example 3: thirty users, ten items.
COUNTS = [
    [0, 9, 8, 11, 7, 8, 6, 7, 7, 3],
    [8, 0, 10, 11, 9, 7, 7, 6, 8, 4],
    [8, 8, 0, 5, 7, 6, 5, 6, 4, 3],
    [5, 11, 12, 0, 6, 8, 6, 6, 3, 2],
    [7, 9, 7, 13, 0, 8, 7, 6, 9, 4],
    [5, 9, 6, 8, 6, 0, 5, 6, 4, 1],
    [4, 6, 5, 7, 5, 5, 0, 4, 4, 1],
    [4, 8, 6, 10, 8, 6, 5, 0, 7, 2],
    [7, 11, 10, 16, 7, 7, 6, 5, 0, 3],
    [2, 1, 0, 2, 1, 2, 1, 3, 1, 0],
]
SUPPORT = [20, 25, 21, 25, 22, 18, 15, 18, 20, 6]


def test_the_papers_example_can_be_given_as_counts():
    statistics = PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    o2, o9 = 1, 8
    assert statistics.followers(o9)[o2] == 11
    assert statistics.predecessors(o2).tolist() == [row[o2] for row in COUNTS]
    # Example 3: Score(o2) = 25/30 · 9/25 · 8/25 · 9/25 · 6/25 · 11/25 over o1, o3, o5, o7, o9
    profile = [0, 2, 4, 6, 8]
    shares = statistics.predecessors(o2)[profile] / statistics.support[o2]
    assert round(statistics.support[o2] / 30 * np.prod(shares), 4) == 0.0036


def test_given_counts_have_profiles_of_no_users():
    statistics = PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    profiles = statistics.interactions
    assert (statistics.n_users, statistics.has_profiles) == (30, False)
    assert (profiles.n_users, profiles.n_rows, profiles.titles) == (0, 0, None)
    assert profiles.items.ids.to_list() == list(range(10))
    with pytest.raises(NoUsers, match="have no users: nobody can be asked"):
        statistics.require_profiles("nobody can be asked")


def test_given_counts_cannot_leave_a_user_out():
    statistics = PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    for leave_out in (statistics.without_user, statistics.taken_by, statistics.profile_of):
        with pytest.raises(NoUsers, match="no user can be left out"):
            leave_out(0)


@pytest.mark.parametrize(
    ("counts", "support", "says"),
    [
        ([[0, 1]], [1, 1], "2 × 2, not"),
        ([[0, -1], [0, 0]], [1, 1], "never negative"),
        ([[1, 0], [0, 0]], [1, 1], "no item precedes itself"),
        ([[0, 2], [0, 0]], [1, 2], "than took either"),
        ([[0, 1], [0, 0]], [9, 1], "than took either"),
    ],
)
def test_impossible_counts_are_refused(counts, support, says):
    with pytest.raises(InputError, match=says):
        PrecedenceStatistics.from_counts(counts, support, n_users=3)
