"""The ledger: coverage by window, and drift alerts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from surerec.errors import InputError
from surerec.live import Ledger, LiveTerms

DAY = 86_400_000_000


def test_windows_report_the_observed_coverage():
    rng, ledger, closed = np.random.default_rng(0), Ledger.start(LiveTerms()), []
    for time, level in enumerate(rng.random(4_500)):
        window, _ = ledger.record(level, time)
        if time % 10 == 0:
            ledger.skip("late")
        closed += [window] if window else []
    assert [window.n for window in closed] == [2000, 2000]
    assert (closed[1].first, closed[1].last) == (2000, 3999)
    assert ledger.window.n == 500
    assert ledger.n_windows == 2
    for window in closed:
        assert np.abs(np.array(window.outside) / 2000 - [0.1, 0.2, 0.3]).max() < 0.02
        assert window.not_evaluated == {"late": 200}
    assert ledger.not_evaluated == {"late": 450}
    assert ledger.adaptive.n == 4_500


def test_a_drift_alert_is_about_unadapted_errors():
    rng, ledger, raised = np.random.default_rng(0), Ledger.start(LiveTerms()), []
    for day in range(8_000):
        if day % 10 == 0:
            ledger.skip("new item")
        # Uniform levels have nominal coverage; after the drift they are too low.
        level = rng.random() * (1.0 if day < 3_000 else 0.6)
        _, alerts = ledger.record(level, day * DAY // 10)
        raised += [(day, alert) for alert in alerts]
    first_day, message = raised[0]
    assert first_day >= 3_000
    assert "are outside the unadapted sets, instead of" in message
    assert "New items are 9% of all events. Refit or recalibrate the model." in message
    # With adapted thresholds, the observed coverage stayed nominal.
    assert np.abs(np.array(ledger.adaptive.observed()) - [0.1, 0.2, 0.3]).max() < 0.01


def test_alerts_are_repeated_on_the_next_day_or_after_a_refit():
    ledger, days = Ledger.start(LiveTerms()), []
    for n in range(600):
        day = n // 200
        _, alerts = ledger.record(0.0, day * DAY + n)
        days += [day] * len(alerts)
        ledger.skip("repeat")
        loaded = Ledger.from_state(json.loads(json.dumps(ledger, default=vars)))
        assert loaded == ledger
        ledger = loaded
    assert days == [0, 0, 0, 1, 1, 1, 2, 2, 2]  # once a day and confidence
    for n in range(600, 700):
        assert not ledger.record(0.0, 2 * DAY + n)[1]
    ledger.refit(LiveTerms(), [], 0.8)
    for n in range(500):  # consecutive events of one user raise no alert
        assert not ledger.record(0.0, 2 * DAY + n, watched=False)[1]
    raised = [ledger.record(0.0, 2 * DAY + n)[1] for n in range(600, 700)]
    assert sum(map(len, raised)) == 3


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"confidences": ()}, r"at least one confidence, without duplicates: ε is \[\]"),
        ({"confidences": (0.7, 1.2)}, "confidence is 1.2; it must be between 0 and 1"),
        ({"confidences": 0.9}, "it must be a list of confidences"),
        ({"step": 0}, "step is 0"),
    ],
)
def test_invalid_terms_are_refused(terms, message):
    with pytest.raises(InputError, match=message):
        LiveTerms(**terms)
