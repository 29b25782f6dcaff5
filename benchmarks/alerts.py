"""The rate of false drift alerts of a live model, and the delay of true ones.

``python -m benchmarks.alerts [--streams 20] [--events 10000]`` replays simulated streams to the
monitors of a live model, one for each confidence. Some streams are exchangeable with the baseline;
in others, the error rate increases by a known amount.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

import numpy as np

from surerec.conformal import is_inside
from surerec.live import LiveTerms

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BASELINE = 2000  # events of the baseline, as in a live model
_BEFORE = 2000  # events before a change
_AT = 0.1  # the ε of the reported error rates


def _levels(rate: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return levels with an error rate of `rate` at ε = 0.1; uniform levels are valid."""
    return np.asarray(rng.random(n) ** (math.log(_AT) / math.log(rate)))


def alert_times(
    terms: LiveTerms, usual: NDArray[np.float64], levels: NDArray[np.float64]
) -> list[int]:
    """Return the times of the alerts of all confidences; an event may raise several."""
    watches, found = list(terms.watches(usual.tolist())), []
    for time, level in enumerate(levels.tolist()):
        for place, epsilon in enumerate(terms.epsilons):
            error = not is_inside(level, epsilon)
            watches[place], alert = watches[place].after(error=error, time=time)
            found += [time] if alert is not None else []
    return found


def measure_false(stated: float, rate: float, n_streams: int, n_events: int) -> float:
    """Return the rate of false alerts per event on streams exchangeable with their baseline."""
    terms, n = LiveTerms(false_alarms=stated), 0
    for random_state in range(n_streams):
        rng = np.random.default_rng([random_state, round(1e3 * rate)])
        usual, levels = (_levels(rate, size, rng) for size in (_BASELINE, n_events))
        n += len(alert_times(terms, usual, levels))
    return n / (n_streams * n_events)


def measure_delays(before: float, now: float, n_streams: int, n_events: int) -> list[int]:
    """Return, for each stream, the number of events from a change to its alert."""
    terms, found = LiveTerms(), []
    for random_state in range(n_streams):
        rng = np.random.default_rng([random_state, round(1e3 * now)])
        usual, still = (_levels(before, size, rng) for size in (_BASELINE, _BEFORE))
        levels = np.concatenate([still, _levels(now, n_events, rng)])
        raised = [at - _BEFORE for at in alert_times(terms, usual, levels) if at >= _BEFORE]
        found.append(raised[0] if raised else n_events)
    return found


def main() -> None:
    """Run the streams and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--events", type=int, default=10_000)
    given = parser.parse_args()
    for stated in (1e-3, 1e-5):
        for rate in (0.1, 0.17):
            seen = measure_false(stated, rate, given.streams, given.events)
            verdict = "met" if seen <= stated else "NOT MET"
            print(
                f"false alerts, {rate:.0%} outside at 0.1 as in the baseline: one in "
                f"{1 / stated:,.0f} stated, {seen / stated:.2f} of that seen ({verdict})"
            )
    for before, now in ((0.1, 0.3), (0.1, 0.2), (0.1, 0.15), (0.1, 0.13), (0.17, 0.27)):
        delays = measure_delays(before, now, given.streams, given.events)
        low, middle, high = np.quantile(delays, [0.05, 0.5, 0.95])
        print(
            f"from {before:.0%} to {now:.0%} outside at 0.1: an alert after {middle:,.0f} events "
            f"(median; 5 to 95%: {low:,.0f} to {high:,.0f})"
        )


if __name__ == "__main__":
    main()
