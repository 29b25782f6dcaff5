from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.conformal import RiskCurve, users_needed
from surerec.errors import InputError

ENTRIES = st.one_of(st.integers(1, 12).map(float), st.just(np.inf))
USERS = st.lists(st.lists(ENTRIES, min_size=1, max_size=5), min_size=1, max_size=12)
EPSILONS = st.integers(1, 99).map(lambda percent: percent / 100)


def curve_of(users, kind="of_shares"):
    owners = [who for who, entries in enumerate(users) for _ in entries]
    return getattr(RiskCurve, kind)([e for entries in users for e in entries], owners, len(users))


def miss(entries, threshold):
    return Fraction(sum(e > threshold or np.isinf(e) for e in entries), len(entries))


def no_hit(entries, threshold):
    return Fraction(all(e > threshold or np.isinf(e) for e in entries))


def slow_threshold(users, loss, epsilon):
    """Try every threshold, smallest first, in fractions."""
    epsilon = Fraction(epsilon).limit_denominator(100)
    for threshold in [-np.inf, *sorted({e for entries in users for e in entries if e < np.inf})]:
        if (sum(loss(entries, threshold) for entries in users) + 1) / (len(users) + 1) <= epsilon:
            return threshold
    return np.inf


@given(USERS, EPSILONS, st.sampled_from([("of_shares", miss), ("of_first", no_hit)]))
def test_the_threshold_is_the_smallest_with_the_risk(users, epsilon, kind):
    name, loss = kind
    assert curve_of(users, name).threshold(epsilon) == slow_threshold(users, loss, epsilon)


@given(USERS, EPSILONS, st.integers(1, 13))
def test_an_item_is_in_the_set_exactly_below_its_level(users, epsilon, entry):
    curve = curve_of(users)
    level = curve.levels([entry])[0]
    assert (level > epsilon + 1e-9) == (entry <= curve.threshold(epsilon))


@given(USERS.filter(lambda users: len(users) > 1), st.data())
def test_leaving_a_user_out_equals_calibrating_without_them(users, data):
    who = data.draw(st.integers(0, len(users) - 1))
    others = curve_of(users[:who] + users[who + 1 :])
    entries = np.arange(0, 14)
    assert curve_of(users).levels(entries, without=who) == pytest.approx(others.levels(entries))
    assert curve_of(users).lowest_level(without=who) == pytest.approx(others.lowest_level())


@given(USERS.filter(len), st.lists(st.tuples(st.integers(0, 13), st.integers(-1, 30))))
def test_levels_of_many_equal_those_of_each(users, queried):
    curve = curve_of(users)
    entries = np.array([entry for entry, _ in queried], dtype=np.float64)
    without = np.array([who if who < len(users) else -1 for _, who in queried], dtype=np.int64)
    right = [
        curve.levels([entry], without=None if who < 0 else int(who))[0]
        for entry, who in zip(entries, without, strict=True)
    ]
    assert curve.levels(entries, without=without).tolist() == right


@given(USERS, st.data())
def test_a_segment_depends_on_its_users_alone(users, data):
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(users), max_size=len(users))))
    group = [entries for entries, kept in zip(users, chosen, strict=True) if kept]
    if not group:
        return
    entries = np.arange(0, 14)
    assert curve_of(users).of_owners(chosen).levels(entries) == pytest.approx(
        curve_of(group).levels(entries)
    )


@pytest.mark.parametrize(("epsilon", "needed"), [(0.5, 1), (0.1, 9), (0.05, 19), (0.01, 99)])
def test_too_few_users_support_no_threshold(epsilon, needed):
    assert users_needed(epsilon) == needed
    perfect = RiskCurve.of_shares(np.ones(needed), np.arange(needed), needed)
    assert perfect.threshold(epsilon) == 1
    if needed > 1:
        fewer = RiskCurve.of_shares(np.ones(needed - 1), np.arange(needed - 1), needed - 1)
        assert fewer.threshold(epsilon) == np.inf


def test_nan_entries_are_rejected():
    with pytest.raises(InputError, match="entries are NaN"):
        RiskCurve.of_shares([np.nan], [0], 1)


def test_the_expected_loss_is_at_most_epsilon_over_many_draws():
    """The mean loss of the next exchangeable user, over 2,000 calibrations on 99 users."""
    rng = np.random.default_rng(1)
    owners, losses = np.repeat(np.arange(99), 3), []
    for _ in range(2_000):
        entries = rng.exponential(size=(100, 3))
        curve = RiskCurve.of_shares(entries[:99].ravel(), owners, 99)
        losses.append((entries[99] > curve.threshold(0.3)).mean())
    spread = np.std(losses) / np.sqrt(len(losses))
    assert 0.3 - 0.01 - 3 * spread < np.mean(losses) < 0.3 + 3 * spread


@given(USERS, EPSILONS, st.sampled_from([("of_shares", miss), ("of_first", no_hit)]))
def test_the_floor_is_the_unknown_loss_of_users_and_the_finite_sample_term(users, epsilon, kind):
    name, loss = kind
    curve = curve_of(users, name)
    unknown = sum(loss(entries, np.inf) for entries in users)
    assert curve.unknown_loss == pytest.approx(float(unknown / len(users)))
    assert curve.lowest_level() == pytest.approx(float((unknown + 1) / (len(users) + 1)))
    assert (curve.threshold(epsilon) == np.inf) == (epsilon + 1e-9 < curve.lowest_level())
