"""Times of a history are read as in a file, from any type of list."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from surerec.errors import InputError
from surerec.interactions import History, read_time

FIRST, SECOND = 1_714_521_600_000_000, 1_714_608_000_000_000  # 2024-05-01 and 02
DAYS = ["2024-05-01", "2024-05-02"]
BERLIN = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        ["2024-05-01T00:00:00Z", "2024-05-02T02:00:00+02:00"],
        [date(2024, 5, 1), date(2024, 5, 2)],
        [datetime(2024, 5, 1), datetime(2024, 5, 2, 2, tzinfo=BERLIN)],  # noqa: DTZ001
        [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, 2, tzinfo=BERLIN)],
        [FIRST // 10**6, SECOND // 10**6],
        [FIRST / 1e6, SECOND / 1e6],
        np.array([FIRST // 1000, SECOND // 1000]),
        np.array(DAYS, dtype="datetime64[D]"),
        [np.datetime64(day) for day in DAYS],
        pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("UTC"),
        pd.DatetimeIndex(DAYS),
        [pd.Timestamp(day) for day in DAYS],
        pl.Series(DAYS).str.to_datetime(),
        pa.array([FIRST // 10**6, SECOND // 10**6]),
    ],
    ids=lambda times: f"{type(times).__module__}-{times[0]}",
)
def test_every_kind_of_time_is_read(times):
    assert History.read(["a", "b"], times).times.tolist() == [FIRST, SECOND]


def test_histories_are_sorted_by_time_and_ties_keep_their_order():
    found = History.read(["a", "b", "c", "d"], [3, 1, 3, 1])
    assert found.items == ["b", "d", "a", "c"]
    assert found.times.tolist() == [10**6, 10**6, 3 * 10**6, 3 * 10**6]


@pytest.mark.parametrize(
    "history",
    [
        [("b", DAYS[1]), ("a", DAYS[0])],
        pl.DataFrame({"item_id": ["b", "a"], "timestamp": DAYS[::-1]}),
        pl.LazyFrame({"item_id": ["b", "a"], "timestamp": DAYS[::-1]}),
        pd.DataFrame({"user": [7, 7], "sku": ["b", "a"], "ts": pd.to_datetime(DAYS[::-1])}),
    ],
    ids=["pairs", "polars", "lazy", "pandas"],
)
def test_pairs_and_frames_include_their_times(history):
    found = History.read(history)
    assert (found.items, found.times.tolist()) == (["a", "b"], [FIRST, SECOND])


def test_without_times_every_item_has_the_time_of_the_request():
    assert History.read(["b", "a"]) == (["b", "a"], None, None)
    found = History.read(["b", "a"], at=DAYS[0])
    assert (found.items, found.times.tolist(), found.moment) == (["b", "a"], [FIRST] * 2, FIRST)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"times": ["2024-05-01", "soon"]}, r"times\[1\] is 'soon'; it must be a date such as"),
        ({"times": [5, None]}, r"times\[1\] is None"),
        ({"times": [5, -5]}, r"times\[1\] is -5"),
        ({"times": [5, "2024-05-01"]}, "it must be a list of dates, or of Unix times"),
        ({"times": 5}, "times is 5"),
        ({"times": [5]}, "times has 1 values and history has 2 items. Pass one time for each item"),
        ({"times": [5, 9], "at": 7}, "at is 1970-01-01T00:00:07, before the last time of the his"),
        ({"at": "soon"}, "at is 'soon'; it must be a date such as 2024-05-01T09:30"),
        ({"history": [("a", 5), "b"]}, r"1 \(item, time\) pairs among 2 entries"),
        ({"history": [("a", 5)], "times": [5]}, "history= has its own times"),
        ({"history": pl.DataFrame({"user": [1, 2], "item": [3, 4]})}, "rows of several users"),
        ({"history": pl.DataFrame({"x": [1]})}, "no item column"),
    ],
)
def test_invalid_times_are_refused(given, said):
    with pytest.raises(InputError, match=said) as refused:
        History.read(**{"history": ["a", "b"], **given})
    assert "\n" not in str(refused.value)


def test_a_single_time_is_read():
    assert read_time("at", datetime(2024, 5, 1, 2, tzinfo=BERLIN)) == FIRST
