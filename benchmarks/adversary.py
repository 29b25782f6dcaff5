"""How far one user can change the sets of other users in a live model.

``python -m benchmarks.adversary [ml-100k]`` fits CM12 without the last interaction of each user. It
runs three attacks, each with the events of one user on one day. It prints the median set size of
other users at 0.9 before and after, and the miss rate of honest users.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import surerec as sr
from surerec.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ATTACKER = 999_999
_DAY = 86_400
_OTHERS = 100  # users whose sets are measured
_HONEST = 100  # events


def _split(films: sr.Interactions) -> tuple[sr.Interactions, list[dict[str, Any]]]:
    """Return the data without the last interaction of each user, and the last interactions."""
    last = pl.int_range(pl.len()).over("user_id") == pl.len().over("user_id") - 1
    frame = films.to_frame().with_columns(is_last=last)
    latest = frame.filter("is_last").sample(fraction=1, shuffle=True, seed=0)
    return sr.read_interactions(frame.filter(~pl.col("is_last")).drop("is_last")), latest.to_dicts()


def _median_set(live: Live, users: Sequence[Any]) -> float:
    sizes = [live.recommend(user, confidence=0.9).full_size for user in users]
    return float(np.median(sizes))


def _send(live: Live, user: Any, items: Sequence[Any], since: int) -> None:
    live.observe([{"user": user, "item": item, "time": since + k} for k, item in enumerate(items)])


def _misses(live: Live, past: sr.Interactions) -> str:
    """Send 44 events of a new user, each outside their set, with stated times of 44 days."""
    order = np.argsort(np.bincount(past.item_codes, minlength=past.n_items), kind="stable")
    unpopular = past.items.ids.gather(order).to_list()
    _send(live, _ATTACKER, unpopular[:5], 0)
    sent = set(unpopular[:5])
    for day in range(1, 40):
        inside = {*live.recommend(_ATTACKER, confidence=0.7).items, *sent}
        rest = [each for each in unpopular if each not in sent]
        item = next((each for each in rest if each not in inside), rest[0])
        sent.add(item)
        live.observe({"user": _ATTACKER, "item": item, "time": day * _DAY})
    return "44 misses of one new user"


def _hits(live: Live, past: sr.Interactions) -> str:
    """Send 840 events of one user on their best items."""
    user, end = past.users[0], int(past.times.max()) // 1_000_000
    for first in range(0, 840, 60):
        items = live.recommend(user, confidence=0.999999, k=60).items
        _send(live, user, items, end + first)
    return "840 hits of one user"


def _hidden(live: Live, past: sr.Interactions, latest: list[dict[str, Any]]) -> str:
    """Send nine hits of one user for each honest event, and count the misses of honest users."""
    attacker, end = past.users[0], int(past.times.max()) // 1_000_000
    honest = [row for row in latest if row["user_id"] != attacker][:_HONEST]
    n = misses = 0
    for number, row in enumerate(honest):
        items = live.recommend(attacker, confidence=0.999999, k=9).items
        _send(live, attacker, items, end + 10 * number)
        missed = row["item_id"] not in live.recommend(row["user_id"], confidence=0.9).items
        event = {"user": row["user_id"], "item": row["item_id"], "time": end + 10 * number + 9}
        judged = live.observe(event).evaluated
        n, misses = n + judged, misses + (judged and missed)
    status = live.status()
    return (
        f"nine hits of one user per honest event: honest users miss {misses / n:.0%} of {n}, "
        f"observed {status.observed[0]:.1%} of all events, by users' days "
        f"{status.observed_by_user_day[0]:.1%}"
    )


def main() -> None:
    """Run the attacks and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="ml-100k")
    given = parser.parse_args()
    past, latest = _split(sr.load_dataset(given.data))
    model = sr.PopulationConformal("CM12", n_calibration=500).fit(past)
    others = [row["user_id"] for row in latest[-_OTHERS:] if row["user_id"] != past.users[0]]
    attacks: tuple[Callable[[Live, sr.Interactions], str], ...]
    attacks = _misses, _hits, partial(_hidden, latest=latest)
    with TemporaryDirectory() as name:
        for number, attack in enumerate(attacks):
            with Live.create(Path(name) / str(number), model, refit=False) as live:
                before = _median_set(live, others)
                result = attack(live, past)
                after = _median_set(live, others)
                alerts = len(live.status().alerts)
            print(
                f"{result}; the median set of others at 0.9: {before:,.0f} → {after:,.0f} "
                f"({after / before:.2f} times); {alerts} alerts"
            )


if __name__ == "__main__":
    main()
