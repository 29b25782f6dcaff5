"""False alarms come at the stated rate at the most, and real ones soon."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.alarms import measure_delays, measure_false
from surerec.conformal import Watch


def alarms(watch, errors):
    found = []
    for time, error in enumerate(errors):
        watch, alarm = watch.after(error=bool(error), time=time)
        if alarm:
            found.append((time, alarm))
    return found


def test_false_alarms_come_at_the_stated_rate_at_the_most():
    # One in 500 events, so that enough of them are seen; at the rate that is just allowed.
    watch = Watch.start(0.2, tolerance=0.0, false_alarms=1 / 500)
    rng = np.random.default_rng(5)
    found = alarms(watch, rng.random(100_000) < 0.2)
    assert 20 <= len(found) <= 200  # at most one in 500; not so few that it sleeps


def test_hardly_ever_at_the_default_rate():
    rng = np.random.default_rng(6)
    assert len(alarms(Watch.start(0.1), rng.random(100_000) < 0.105)) <= 2


@pytest.mark.parametrize(("now", "most"), [(0.2, 900), (0.15, 3_500), (0.4, 150)])
def test_a_drift_is_seen_soon_and_dated(now, most):
    delays, dated = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        errors = np.concatenate([rng.random(5_000) < 0.1, rng.random(8_000) < now])
        found = [(at, alarm) for at, alarm in alarms(Watch.start(0.1), errors) if at >= 5_000]
        at, alarm = found[0]
        delays.append(at - 5_000)
        dated.append(alarm.since)
        assert alarm.errors / alarm.n > 0.11
        assert alarm.since + alarm.n == at + 1
    assert np.median(delays) < most
    assert abs(np.median(dated) - 5_000) < most


def test_all_confidences_share_the_stated_rate():
    """As `python -m benchmarks.alarms` shows at length; one in 100, so that some are seen."""
    seen = [measure_false(0.01, rate, n_streams=2, n_events=4_000) for rate in (0.1, 0.17)]
    assert 0 < min(seen) <= max(seen) <= 0.01
    delays = measure_delays(0.1, 0.4, n_streams=3, n_events=300)
    assert max(delays) < 150


def test_after_an_alarm_it_begins_anew():
    found = alarms(Watch.start(0.1), [True] * 30)
    assert [at for at, _ in found] == [13, 27]


def test_its_state_is_json_and_comes_back():
    watch = Watch.start(0.1)
    for time in range(9):
        watch, _ = watch.after(error=time % 2 == 0, time=time)
    assert Watch.from_state(json.loads(json.dumps(watch.to_state()))) == watch
    with pytest.raises(ValueError, match="bets"):
        Watch.from_state({**watch.to_state(), "sums": []})


def test_events_that_were_harder_from_the_beginning_raise_no_alarm():
    """At the stated rate, with a baseline that is drawn as the stream is: exchangeable."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        usual = int((rng.random(2000) < 0.17).sum()), 2000
        watch = Watch.start(0.1, tolerance=0.0, false_alarms=1 / 500, usual=usual)
        assert watch.expected == usual[0] / 2000
        found += len(alarms(watch, rng.random(5_000) < 0.17))
    assert found <= 20 * 5_000 / 500
    assert alarms(Watch.start(0.1), np.random.default_rng(1).random(5_000) < 0.17)


def test_fewer_errors_than_promised_are_not_what_is_expected():
    watch = Watch.start(0.1, usual=(20, 2000))
    assert (watch.rate, watch.expected) == (Watch.start(0.1).rate, 0.1)
    assert Watch.start(0.1, usual=(0, 0)) == Watch.start(0.1)


def test_a_state_from_before_there_was_a_baseline_comes_back():
    state = Watch.start(0.1).to_state()
    del state["expected"]
    assert Watch.from_state(state).rate == Watch.start(0.1).rate
