"""What an event may be, and a sentence for all that it may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from surerec.errors import InputError
from surerec.live import Event

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
def test_times_of_all_kinds(time):
    assert of(time=time).time == 1_794_913_200_000_000
    assert of().moment == NOW
    assert of(time=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)).time == -1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"time": NOW + timedelta(hours=1)}, "is more than 5 minutes ahead of the server's clock"),
        ({"time": "tomorrow"}, "must be an ISO time"),
        ({"time": float("nan")}, "must be an ISO time"),
        ({"time": 1e30}, "must be an ISO time"),
        ({"time": True}, "must be an ISO time"),
        ({"rating": 5}, "has the field 'rating'; there are user, item, time, id"),
        ({"user": None}, "has no user"),
        ({"item": None}, "has no item"),
        ({"item": 1.5}, "must be a text or a whole number"),
        ({"item": True}, "must be a text or a whole number"),
        ({"user": ""}, "cannot be stored"),
        ({"user": "a\0b"}, "cannot be stored"),
        ({"user": "\ud800"}, "cannot be stored"),
        ({"user": "a" * 501}, "cannot be stored"),
        ({"id": ["x"]}, "must be a text or a whole number"),
    ],
)
def test_what_cannot_be_an_event_is_one_sentence(given, says):
    with pytest.raises(InputError, match=says) as caught:
        of(**given)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="must have the fields user and item"):
        Event.of([1, 2])


def test_keys_tell_events_apart():
    keys = [
        of(time=1).key, of(time=2).key, of(time=1, id="a").key, of(time=1, item=3).key,
        of(time=1, user="1 2", item="3").key, of(time=1, user="1", item="2 3").key,
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert of(time=1, id=7).key == of(time=2, id="7").key
    assert of(time=1, user="1").key == of(time=1).key
