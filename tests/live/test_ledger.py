"""What is delivered is told by window and group, and alarms in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from surerec.errors import InputError
from surerec.live import Ledger, LiveTerms

DAY = 86_400_000_000


def test_windows_close_and_say_what_was_delivered():
    rng, ledger, closed = np.random.default_rng(0), Ledger.start(LiveTerms()), []
    for time, level in enumerate(rng.random(4_500)):
        window, _ = ledger.judge(level, time)
        if time % 10 == 0:
            ledger.pass_over("late")
        closed += [window] if window else []
    assert [window.n for window in closed] == [2000, 2000]
    assert (closed[1].first, closed[1].last) == (2000, 3999)
    assert ledger.window.n == 500
    assert ledger.n_windows == 2
    for window in closed:
        assert np.abs(np.array(window.outside) / 2000 - [0.1, 0.2, 0.3]).max() < 0.02
        assert window.not_judged == {"late": 200}
    assert ledger.not_judged == {"late": 450}
    assert ledger.adaptive.n == 4_500


def test_an_alarm_is_a_sentence_on_unsteered_errors():
    rng, ledger, said = np.random.default_rng(0), Ledger.start(LiveTerms()), []
    for day in range(8_000):
        if day % 10 == 0:
            ledger.pass_over("new item")
        # Uniform levels keep every promise; later they come too low.
        level = rng.random() * (1.0 if day < 3_000 else 0.6)
        _, alerts = ledger.judge(level, day * DAY // 10)
        said += [(day, alert) for alert in alerts]
    assert said
    assert said[0][0] >= 3_000
    assert "recount or recalibrate" in said[0][1]
    assert "new items are 9% of what is taken" in said[0][1]
    assert "instead of" in said[0][1]
    # Steered, it went on as promised all the time.
    assert np.abs(np.array(ledger.adaptive.delivered()) - [0.1, 0.2, 0.3]).max() < 0.01


def test_an_alarm_is_not_repeated_on_its_day_but_on_the_next_or_after_a_recount():
    ledger, days = Ledger.start(LiveTerms()), []
    for n in range(600):
        day = n // 200
        _, alerts = ledger.judge(0.0, day * DAY + n)
        days += [day] * len(alerts)
        ledger.pass_over("repeat")
        again = Ledger.from_state(json.loads(json.dumps(ledger, default=vars)))
        assert again == ledger
        ledger = again
    assert days == [0, 0, 0, 1, 1, 1, 2, 2, 2]  # once a day and confidence
    for n in range(600, 700):
        assert not ledger.judge(0.0, 2 * DAY + n)[1]
    ledger.refit(LiveTerms(), [], 0.8)
    for n in range(500):  # what one user consumes in a row raises no alarm
        assert not ledger.judge(0.0, 2 * DAY + n, watched=False)[1]
    said = [ledger.judge(0.0, 2 * DAY + n)[1] for n in range(600, 700)]
    assert sum(map(len, said)) == 3


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"confidences": ()}, "needs confidences, each once"),
        ({"confidences": (0.7, 1.2)}, "confidence is 1.2; it must be between 0 and 1"),
        ({"confidences": (1.0,)}, "confidence is 1.0; it must be between 0 and 1"),
        ({"confidences": 0.9}, "it must be a list of confidences"),
        ({"step": 0}, "step is 0"),
        ({"false_alarms": 0}, "false_alarms is 0"),
    ],
)
def test_impossible_terms_are_refused(terms, says):
    with pytest.raises(InputError, match=says):
        LiveTerms(**terms)
