"""Validation of events, and reference levels of drift detectors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import surerec as sr
from surerec.conformal import Watch, is_inside
from surerec.errors import InputError
from surerec.live import Event, Live
from surerec.live._events import usual_levels
from surerec.measures import Query

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def of(**given):
    return Event.of({"user": 1, "item": 2, **given}, now=NOW)


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-17T11:00:00Z",
        "2026-11-17T11:00:00",
        "2026-11-17 12:00:00+01:00",
        1_794_913_200,
        1_794_913_200.0,
        np.int64(1_794_913_200),
        datetime(2026, 11, 17, 11, tzinfo=UTC),
    ],
)
def test_all_time_formats(time):
    assert of(time=time).time == 1_794_913_200_000_000
    assert of().time == 1_794_916_800_000_000
    assert of(time=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)).time == -1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": NOW + timedelta(hours=1)}, "is more than 5 minutes ahead of the server's clock"),
        ({"time": "tomorrow"}, "Use an ISO time"),
        ({"time": float("nan")}, "Use an ISO time"),
        ({"rating": 5}, "has the unknown field 'rating'. Use only user, item, time, id"),
        ({"user": None}, "has no user"),
        ({"item": None}, "has no item"),
        ({"item": 1.5}, "Use a string or an integer"),
        ({"user": ""}, "cannot be stored"),
        ({"user": "a\0b"}, "cannot be stored"),
        ({"user": "\ud800"}, "cannot be stored"),
        ({"user": "a" * 501}, "cannot be stored"),
        ({"id": ["x"]}, "Use a string or an integer"),
    ],
)
def test_invalid_events_are_one_line_errors(given, message):
    with pytest.raises(InputError, match=message) as caught:
        of(**given)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="Pass a mapping with the fields user and item"):
        Event.of([1, 2])


def test_keys_identify_events():
    keys = [
        of(time=1).key, of(time=2).key, of(time=1, id="a").key, of(time=1, item=3).key,
        of(time=1, user="1 2", item="3").key, of(time=1, user="1", item="2 3").key,
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert of(time=1, id=7).key == of(time=2, id="7").key
    assert of(time=1, user="1").key == of(time=1).key


def slow_levels(model, most):
    films, found = model.statistics_.interactions, []
    for user in range(films.n_users):
        items, times = films.consumed(user).astype(np.int64), films.times_of(user)
        for place in range(model.min_history, len(items)):
            if times[place] // 86_400_000_000 == times[place - 1] // 86_400_000_000:
                continue
            if model.statistics_.support[items[place]] == 1:
                continue
            query = Query(items[:place], (user,), times[:place])
            level = model.model_.assess(query, items[place : place + 1]).levels_below[0]
            found.append((-times[place], user, place, level))
    return [level for *_, level in sorted(found)[:most]]


def test_reference_levels_are_those_of_the_latest_first_events_of_a_day() -> None:
    films = sr.datasets.synthetic(n_users=80, n_items=40, n_rows=1600, days=60, random_state=2)
    model = sr.PopulationConformal("CM12").fit(films)
    assert usual_levels(model.model_, 90).tolist() == slow_levels(model, 90)
    assert (
        len(usual_levels(model.model_, 10**6))
        == len(slow_levels(model, 10**6))
        < films.n_rows - 400
    )


def test_every_refit_updates_the_reference_levels(tmp_path) -> None:
    films = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2400, days=400, random_state=2)
    model = sr.PopulationConformal("CM12").fit(films)

    def watches(live):
        levels = usual_levels(sr.load(live._state.folder.model(live.base_)).model_).tolist()
        for watch, epsilon in zip(live._state.ledger.watches, (0.1, 0.2, 0.3), strict=True):
            errors = sum(not is_inside(level, epsilon) for level in levels)
            assert watch.rate == Watch.start(epsilon, usual=(errors, len(levels))).rate
        return [watch.rate for watch in live._state.ledger.watches]

    with Live.create(tmp_path / "shop", model, refit=False) as live:
        before = watches(live)
        user = films.users[3]
        live.observe([{"user": user, "item": 900 + n, "time": 1.7e9 + n} for n in range(5)])
        live.refit()
        assert watches(live) != before
