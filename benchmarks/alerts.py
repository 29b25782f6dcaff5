"""How often a live model raises a false alarm, and after how many events a real one.

``python -m benchmarks.alerts [--streams 20] [--events 10000]`` plays simulated streams to the
watches of a live model, one for each stated confidence: exchangeable ones, in which events are as
hard as those of the baseline, and ones in which errors become more frequent by a known amount.
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

_BASELINE = 2000  # events that say what is usual, as a live model takes
_BEFORE = 2000  # events before a change
_AT = 0.1  # the ε whose rate of errors is named


def _levels(rate: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Give levels of which a share `rate` is outside at ε = 0.1; uniform ones keep all promises."""
    return np.asarray(rng.random(n) ** (math.log(_AT) / math.log(rate)))


def alarms_of(
    terms: LiveTerms, usual: NDArray[np.float64], levels: NDArray[np.float64]
) -> list[int]:
    """Give when the watches of all confidences raise alarms; an event may raise several."""
    watches, found = list(terms.watches(usual.tolist())), []
    for time, level in enumerate(levels.tolist()):
        for place, epsilon in enumerate(terms.epsilons):
            error = not is_inside(level, epsilon)
            watches[place], alert = watches[place].after(error=error, time=time)
            found += [time] if alert is not None else []
    return found


def measure_false(stated: float, rate: float, n_streams: int, n_events: int) -> float:
    """Give the false alarms for each event on streams that are as hard as their baseline."""
    terms, n = LiveTerms(false_alarms=stated), 0
    for random_state in range(n_streams):
        rng = np.random.default_rng([random_state, round(1e3 * rate)])
        usual, levels = (_levels(rate, size, rng) for size in (_BASELINE, n_events))
        n += len(alarms_of(terms, usual, levels))
    return n / (n_streams * n_events)


def measure_delays(before: float, now: float, n_streams: int, n_events: int) -> list[int]:
    """Give for each stream after how many events a change raised the alarm."""
    terms, found = LiveTerms(), []
    for random_state in range(n_streams):
        rng = np.random.default_rng([random_state, round(1e3 * now)])
        usual, still = (_levels(before, size, rng) for size in (_BASELINE, _BEFORE))
        levels = np.concatenate([still, _levels(now, n_events, rng)])
        raised = [at - _BEFORE for at in alarms_of(terms, usual, levels) if at >= _BEFORE]
        found.append(raised[0] if raised else n_events)
    return found


def main() -> None:
    """Run it and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--events", type=int, default=10_000)
    given = parser.parse_args()
    for stated in (1e-3, 1e-5):
        for rate in (0.1, 0.17):
            seen = measure_false(stated, rate, given.streams, given.events)
            verdict = "met" if seen <= stated else "NOT MET"
            print(
                f"false alarms, {rate:.0%} outside at 0.1 as in the baseline: one in "
                f"{1 / stated:,.0f} stated, {seen / stated:.2f} of that seen ({verdict})"
            )
    for before, now in ((0.1, 0.3), (0.1, 0.2), (0.1, 0.15), (0.1, 0.13), (0.17, 0.27)):
        delays = measure_delays(before, now, given.streams, given.events)
        low, middle, high = np.quantile(delays, [0.05, 0.5, 0.95])
        print(
            f"from {before:.0%} to {now:.0%} outside at 0.1: the alarm after {middle:,.0f} events "
            f"(median; 5 to 95 %: {low:,.0f} to {high:,.0f})"
        )


if __name__ == "__main__":
    main()
