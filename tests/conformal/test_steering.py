"""The live promise holds over any stream, and its sets are nested."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.conformal import Steering, UserDay
from surerec.errors import InputError

_LEVELS = st.lists(st.floats(0, 1), min_size=1, max_size=400)
_EPSILONS = st.lists(
    st.floats(0.01, 0.9), min_size=1, max_size=4, unique_by=lambda each: round(each, 3)
)


def run(steering, levels):
    for level in levels:
        steering = steering.after(level)
    return steering


@settings(max_examples=200, deadline=None)
@given(levels=_LEVELS, epsilons=_EPSILONS, step=st.floats(0.005, 1))
def test_the_share_of_misses_is_within_the_bound(levels, epsilons, step):
    steering = Steering.start(epsilons, step=step)
    for level in levels:
        before = steering.cuts_nested
        assert list(before) == sorted(before)
        held = steering.holds(level)
        assert list(held) == sorted(held, reverse=True)  # nested
        steering = steering.after(level)
        k = len(steering.cuts)
        for place, cut in enumerate(steering.cuts):
            assert -step - 1e-9 <= cut <= 1 + (k - place) * step + 1e-9
            off = abs(steering.delivered()[place] - steering.epsilons[place])
            assert off <= steering.bound(place) + 1e-9
            assert steering.bound(place) <= (1 + k * step) / (step * steering.n) + 1e-9


@settings(max_examples=100, deadline=None)
@given(levels=_LEVELS, epsilons=_EPSILONS, asked=st.lists(st.floats(0.001, 1), min_size=1))
def test_nominal_levels_give_the_same_sets(levels, epsilons, asked):
    steering = run(Steering.start(epsilons, step=0.1), levels)
    nominal = steering.nominal(asked)
    assert ((nominal >= 0) & (nominal <= 1)).all()
    for level, said in zip(asked, nominal, strict=True):
        near = [abs(level - cut) < 1e-7 for cut in steering.cuts_nested]
        for held, epsilon, is_near in zip(
            steering.holds(level), steering.epsilons, near, strict=True
        ):
            assert is_near or held == (said > epsilon)


def adversary(steering, rng):
    """Give a level that misses where it was expected to be inside, and the other way round."""
    cuts = steering.cuts_nested
    return float(np.clip(rng.choice(cuts) + rng.choice([-1e-6, 1e-6]), 0, 1))


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=400),
    epsilons=_EPSILONS,
    step=st.floats(0.005, 1),
)
def test_each_user_and_day_counts_once(events, epsilons, step):
    """Whatever users send, and in whatever order: within the bound, and γ for each user's day."""
    steering, days = Steering.start(epsilons, step=step), dict[int, UserDay]()
    for level, user in events:
        so_far = days.get(user, UserDay())
        before, missed = steering.cuts_nested, steering.missed(level)
        assert list(before) == sorted(before)
        days[user] = so_far.after(missed)
        steering = steering.after(level, so_far)
        k, shares = len(steering.cuts), np.mean([day.shares() for day in days.values()], axis=0)
        assert steering.user_days == len(days)
        np.testing.assert_allclose(steering.observed_by_user_day(), shares, atol=1e-9)
        for place, (cut, epsilon) in enumerate(zip(steering.cuts, steering.epsilons, strict=True)):
            assert -step - 1e-9 <= cut <= 1 + (k - place) * step + 1e-9
            assert abs(cut - epsilon) <= step * len(days) + 1e-9
            assert abs(shares[place] - epsilon) <= steering.bound(place) + 1e-9


def test_an_adversary_that_knows_the_cuts_cannot_break_it():
    rng, steering = np.random.default_rng(3), Steering.start([0.1, 0.2, 0.3])
    for _ in range(20_000):
        steering = steering.after(adversary(steering, rng))
    for place, epsilon in enumerate(steering.epsilons):
        assert abs(steering.delivered()[place] - epsilon) <= 0.0052
    assert steering.bound(0) == pytest.approx((0.9 + 0.03) / (0.01 * 20_000))


def test_it_follows_a_world_that_changes():
    rng = np.random.default_rng(1)
    levels = np.concatenate(
        [rng.beta(1, 1, 5_000), rng.beta(1, 1.5, 5_000), rng.beta(1.5, 1, 5_000)]
    )
    steering, outside = Steering.start([0.1, 0.2, 0.3]), []
    for level in levels:
        outside.append([not held for held in steering.holds(level)])
        steering = steering.after(level)
    windows = np.array(outside[: 15_000 // 2_000 * 2_000]).reshape(-1, 2_000, 3).mean(axis=1)
    assert np.abs(windows - [0.1, 0.2, 0.3]).max() < 0.02


def test_its_state_is_json_and_comes_back():
    steering = run(Steering.start([0.3, 0.1], step=0.05), [0.2, 0.02, 0.9])
    assert Steering.from_state(json.loads(json.dumps(steering.to_state()))) == steering
    with pytest.raises(ValueError, match="cuts"):
        Steering.from_state({**steering.to_state(), "cuts": [0.1]})
    without = {name: each for name, each in steering.to_state().items() if name != "user_days"}
    with pytest.raises(KeyError):
        Steering.from_state(without)


def test_only_stated_confidences_have_a_place():
    steering = Steering.start([0.1, 0.2])
    assert steering.place_of(1 - 0.9) == 0
    assert steering.place_of(0.15) is None


@pytest.mark.parametrize("epsilons", [[], [0.1, 0.1], [0.0], [1.0], ["a"]])
def test_impossible_confidences_are_refused(epsilons):
    with pytest.raises(InputError):
        Steering.start(epsilons)
