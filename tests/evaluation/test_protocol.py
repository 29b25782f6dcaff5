import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.conformal import in_set
from surerec.evaluation import EPSILONS, choose_users, split_user, validity

DATA = sr.datasets.synthetic(n_users=60, n_items=80, n_rows=1_500, random_state=4)


def test_histories_are_split_in_time_order_as_in_the_paper():
    # n = 25: ⌊7.5 + ½⌋ = 8 training, 8 calibration, 9 test items
    one = sr.Interactions.from_profiles([0, 25], np.arange(25))
    split = split_user(one, 0)
    consumed = one.item_codes
    assert split.training.tolist() == consumed[:8].tolist()
    assert split.calibration.tolist() == consumed[8:16].tolist()
    assert split.test.tolist() == consumed[16:].tolist()


@given(st.integers(0, 59), st.integers(0, 3))
def test_the_random_split_shuffles_only_items_after_training(user, random_state):
    ordered, random = (
        split_user(DATA, user),
        split_user(DATA, user, order="random", random_state=random_state),
    )
    assert ordered.training.tolist() == random.training.tolist()
    assert len(ordered.calibration) == len(random.calibration)
    rest = np.concatenate((ordered.calibration, ordered.test))
    shuffled = np.concatenate((random.calibration, random.test))
    assert sorted(rest) == sorted(shuffled)
    again = split_user(DATA, user, order="random", random_state=random_state)
    assert again.test.tolist() == random.test.tolist()


def test_chosen_users_are_distinct_and_have_long_histories():
    users = choose_users(DATA, 20, min_length=12, random_state=1)
    assert len(set(users.tolist())) == 20
    assert (np.diff(DATA.offsets)[users] >= 12).all()
    assert users.tolist() == choose_users(DATA, 20, min_length=12, random_state=1).tolist()
    assert users.tolist() != choose_users(DATA, 20, min_length=12, random_state=2).tolist()
    with pytest.raises(sr.InputError, match="no user has 99 items or more"):
        choose_users(DATA, min_length=99)


@given(st.data(), st.integers(1, 12))
def test_validity_counts_the_items_of_sets(data, levels):
    counts = np.array(data.draw(st.lists(st.integers(1, levels), min_size=1)))
    relevant = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    )
    found = validity(counts, levels, relevant)
    for place, epsilon in enumerate(EPSILONS):
        inside = in_set(counts, levels, epsilon)
        assert found.size[place] == inside.sum()
        if relevant.any():
            assert found.missed[place] == pytest.approx((~inside[relevant]).mean())
        if not relevant.all():
            assert found.let_in[place] == pytest.approx(inside[~relevant].mean())
