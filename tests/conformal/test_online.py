"""The live guarantee holds for any stream, and its sets are nested."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.alerts import measure_delays, measure_false
from surerec.conformal import AdaptiveLevel, UserDay, Watch
from surerec.errors import InputError

_LEVELS = st.lists(st.floats(0, 1), min_size=1, max_size=400)
_EPSILONS = st.lists(
    st.floats(0.01, 0.9), min_size=1, max_size=4, unique_by=lambda each: round(each, 3)
)


def run(adaptive, levels):
    for level in levels:
        adaptive = adaptive.after(level)
    return adaptive


@settings(max_examples=100, deadline=None)
@given(levels=_LEVELS, epsilons=_EPSILONS, queried=st.lists(st.floats(0.001, 1), min_size=1))
def test_nominal_levels_give_the_same_sets(levels, epsilons, queried):
    adaptive = run(AdaptiveLevel.start(epsilons, step=0.1), levels)
    nominal = adaptive.nominal(queried)
    assert ((nominal >= 0) & (nominal <= 1)).all()
    thresholds = adaptive.nested_thresholds
    for level, each in zip(queried, nominal, strict=True):
        for held, epsilon, threshold in zip(
            adaptive.holds(level), adaptive.epsilons, thresholds, strict=True
        ):
            assert abs(level - threshold) < 1e-7 or held == (each > epsilon)


def adversary(adaptive, rng):
    """Return a level that misses where it was expected to be inside, and the other way round."""
    thresholds = adaptive.nested_thresholds
    return float(np.clip(rng.choice(thresholds) + rng.choice([-1e-6, 1e-6]), 0, 1))


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=400),
    epsilons=_EPSILONS,
    step=st.floats(0.005, 1),
)
def test_each_user_and_day_counts_once(events, epsilons, step):
    """For any events in any order, within the bound, and at most γ per user day."""
    adaptive, days = AdaptiveLevel.start(epsilons, step=step), dict[int, UserDay]()
    for level, user in events:
        so_far = days.get(user, UserDay())
        before, missed = adaptive.nested_thresholds, adaptive.missed(level)
        assert list(before) == sorted(before)
        days[user] = so_far.after(missed)
        adaptive = adaptive.after(level, so_far)
        k = len(adaptive.thresholds)
        shares = np.mean([day.shares() for day in days.values()], axis=0)
        assert adaptive.user_days == len(days)
        np.testing.assert_allclose(adaptive.observed_by_user_day(), shares, atol=1e-9)
        for place, (threshold, epsilon) in enumerate(
            zip(adaptive.thresholds, adaptive.epsilons, strict=True)
        ):
            assert -step - 1e-9 <= threshold <= 1 + (k - place) * step + 1e-9
            assert abs(threshold - epsilon) <= step * len(days) + 1e-9
            assert abs(shares[place] - epsilon) <= adaptive.bound(place) + 1e-9


def test_an_adversary_that_knows_the_thresholds_cannot_break_it():
    rng, adaptive = np.random.default_rng(3), AdaptiveLevel.start([0.1, 0.2, 0.3])
    for _ in range(20_000):
        adaptive = adaptive.after(adversary(adaptive, rng))
    for place, epsilon in enumerate(adaptive.epsilons):
        assert abs(adaptive.observed()[place] - epsilon) <= 0.0052
    assert adaptive.bound(0) == pytest.approx((0.9 + 0.03) / (0.01 * 20_000))


def test_it_follows_drift():
    rng, adaptive, outside = np.random.default_rng(1), AdaptiveLevel.start([0.1, 0.2, 0.3]), []
    for a, b in ((1, 1), (1, 1.5), (1.5, 1)):
        for level in rng.beta(a, b, 5_000):
            outside.append(adaptive.missed(level))
            adaptive = adaptive.after(level)
    windows = np.array(outside[:14_000]).reshape(-1, 2_000, 3).mean(axis=1)
    assert np.abs(windows - [0.1, 0.2, 0.3]).max() < 0.02


def test_states_survive_json():
    adaptive, watch = (
        run(AdaptiveLevel.start([0.3, 0.1], step=0.05), [0.2, 0.02, 0.9]),
        Watch.start(0.1),
    )
    for time in range(9):
        watch, _ = watch.after(error=time % 2 == 0, time=time)
    for each, name, wrong in ((adaptive, "thresholds", [0.1]), (watch, "bets", [])):
        state = json.loads(json.dumps(each.to_state()))
        assert type(each).from_state(state) == each
        with pytest.raises(ValueError, match=name):
            type(each).from_state({**state, name: wrong})
    with pytest.raises(KeyError):
        AdaptiveLevel.from_state(
            {"epsilons": [], "thresholds": [], "errors": [], "n": 0, "step": 0.1}
        )


def test_only_stated_confidences_have_a_place():
    adaptive = AdaptiveLevel.start([0.1, 0.2])
    assert adaptive.place_of(1 - 0.9) == 0
    assert adaptive.place_of(0.15) is None


@pytest.mark.parametrize("epsilons", [[], [0.1, 0.1], [0.0], [1.0], ["a"]])
def test_invalid_confidences_are_rejected(epsilons):
    with pytest.raises(InputError):
        AdaptiveLevel.start(epsilons)


def alerts(watch, errors):
    found = []
    for time, error in enumerate(errors):
        watch, alert = watch.after(error=bool(error), time=time)
        if alert:
            found.append((time, alert))
    return found


def test_false_alarms_have_at_most_the_nominal_rate():
    # One in 500 events, so that there are enough of them, at the largest allowed rate.
    watch = Watch.start(0.2, tolerance=0.0, false_alarms=1 / 500)
    rng = np.random.default_rng(5)
    found = alerts(watch, rng.random(100_000) < 0.2)
    assert 20 <= len(found) <= 200  # at most one in 500, but not too few


@pytest.mark.parametrize(("now", "most"), [(0.2, 900), (0.15, 3_500), (0.4, 150)])
def test_drift_is_detected_soon_and_dated(now, most):
    delays, dated = [], []
    for random_state in range(10):
        rng = np.random.default_rng(random_state)
        errors = np.concatenate([rng.random(5_000) < 0.1, rng.random(8_000) < now])
        found = [(at, alert) for at, alert in alerts(Watch.start(0.1), errors) if at >= 5_000]
        at, alert = found[0]
        delays.append(at - 5_000)
        dated.append(alert.since)
        assert alert.errors / alert.n > 0.11
        assert alert.since + alert.n == at + 1
    assert np.median(delays) < most
    assert abs(np.median(dated) - 5_000) < most


def test_all_confidences_share_the_nominal_rate():
    """As `python -m benchmarks.alerts` shows at length; one in 100, so that some are seen."""
    seen = [measure_false(0.01, rate, n_streams=2, n_events=4_000) for rate in (0.1, 0.17)]
    assert 0 < min(seen) <= max(seen) <= 0.01
    delays = measure_delays(0.1, 0.4, n_streams=3, n_events=300)
    assert max(delays) < 150


def test_it_restarts_after_an_alert():
    assert [at for at, _ in alerts(Watch.start(0.1), [True] * 30)] == [13, 27]


def test_events_that_were_always_harder_raise_no_alert():
    """At the nominal rate, with a baseline exchangeable with the stream."""
    found = 0
    for random_state in range(20):
        rng = np.random.default_rng(random_state)
        usual = int((rng.random(2000) < 0.17).sum()), 2000
        watch = Watch.start(0.1, tolerance=0.0, false_alarms=1 / 500, usual=usual)
        assert watch.expected == usual[0] / 2000
        found += len(alerts(watch, rng.random(5_000) < 0.17))
    assert found <= 20 * 5_000 / 500
    assert alerts(Watch.start(0.1), np.random.default_rng(1).random(5_000) < 0.17)


def test_the_expected_rate_is_at_least_the_nominal_rate():
    watch = Watch.start(0.1, usual=(20, 2000))
    assert (watch.rate, watch.expected) == (Watch.start(0.1).rate, 0.1)
    assert Watch.start(0.1, usual=(0, 0)) == Watch.start(0.1)
