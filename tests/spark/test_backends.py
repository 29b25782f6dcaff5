"""One test body for every backend that counts, against the oracle and against each other."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.spark import Counting, SparkBackend, read_frame
from surerec.storage import read_card, save_model
from tests import oracle


class MemoryBackend:
    """Counts in this machine's memory."""

    def __init__(self, reading=None):
        self.reading = reading or {}

    def count(self, frame, **how):
        return sr.count_precedence(sr.read_interactions(frame, **self.reading), **how)


pytestmark = pytest.mark.spark


def some_rows(seed=3, n=400):
    """Rows with repeats, ties, and ids that are no codes."""
    chance = np.random.default_rng(seed)
    users, items = chance.integers(0, 30, n) * 7 + 1, chance.zipf(1.4, n) % 25 + 100
    return list(
        zip(users.tolist(), items.tolist(), chance.integers(0, 12, n).tolist(), strict=True)
    )


def as_frame(rows):
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    return frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))


def to_spark(spark, frame):
    """Rows in no order of their own: the sequence column alone knows it."""
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    return spark.createDataFrame(shuffled.rows(), shuffled.columns).repartition(3)


@pytest.fixture(params=["memory", "spark"])
def backend(request, tmp_path):
    """A backend, and what turns a polars frame into what it counts."""
    if request.param == "memory":
        return lambda **_: MemoryBackend(), lambda frame: frame
    spark = request.getfixturevalue("spark")

    def make(**counting):
        return SparkBackend(tmp_path / "model", {"sequence": "row"}, Counting(**counting))

    return make, lambda frame: to_spark(spark, frame)


@pytest.mark.parametrize(("ties", "blocks"), [("order", None), ("strict", (3, 4))])
def test_every_backend_counts_what_the_oracle_counts(backend, ties, blocks):
    make, given = backend
    counter = make(blocks=blocks)
    rows = some_rows()
    users = oracle.profiles(rows)
    statistics = counter.count(given(as_frame(rows)), ties=ties, strategy="dense")
    ids = statistics.interactions.items.ids.to_list()
    expected = oracle.precedence(users, ties)
    support = oracle.support(users)
    assert statistics.n_users == len(users)
    assert statistics.support.tolist() == [support[item] for item in ids]
    for code, first in enumerate(ids):
        assert statistics.followers(code).tolist() == [expected[first, other] for other in ids]
        assert statistics.predecessors(code).tolist() == [expected[other, first] for other in ids]


def test_a_folder_from_spark_is_that_from_memory_byte_for_byte(spark, tmp_path):
    frame = as_frame(some_rows(seed=5)).with_columns(pl.format("u-{}", "user").alias("user"))
    in_memory = MemoryBackend({"min_profile_length": 5}).count(frame)
    save_model(tmp_path / "memory", in_memory, {})
    SparkBackend(
        tmp_path / "spark", {"sequence": "row", "min_profile_length": 5}, Counting(blocks=(2, 3))
    ).count(to_spark(spark, frame))
    ours, theirs = read_card(tmp_path / "spark"), read_card(tmp_path / "memory")
    for part in ("files", "counts", "settings"):
        assert ours[part] == theirs[part]
    assert ours["data"]["rows_read"] == theirs["data"]["rows_read"]
    assert ours["data"]["rows_read"]["short_profiles"] > 0
    assert ours["data"]["rows_read"]["repeats"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory", "spark"]


def crowd():
    """Users of whom 2 ** 16 took items 0 and 1 in this order, and one of 2 … 9 later."""
    users = np.arange(2**16).repeat(3)
    items = np.column_stack([np.zeros(2**16), np.ones(2**16), 2 + np.arange(2**16) % 8])
    return users, items.astype(np.int64).ravel()


def catalogue():
    """Users of more items than one wave counts."""
    taken = sr.datasets.synthetic(150, 700, 3_000, seed=3).to_frame()
    return taken["user_id"].to_numpy(), taken["item_id"].to_numpy()


@pytest.mark.parametrize(
    ("data", "strategy", "memory"),
    [
        (crowd, "dense", 10**6),  # 16 bits do not hold the counts of items 0 and 1
        (crowd, "bounded", 300),  # some rows are compressed, some dense, some not held
        (catalogue, "bounded", 650_000),
        (catalogue, "on-demand", 0),
    ],
)
def test_rows_are_as_wide_and_as_many_as_in_memory(spark, tmp_path, data, strategy, memory):
    users, items = data()
    frame = pl.DataFrame({"user": users, "item": items, "time": np.arange(len(users))})
    frame.with_columns(row="time").write_parquet(tmp_path / "taken.parquet")
    counted = MemoryBackend().count(frame, strategy=strategy, memory=memory)
    save_model(tmp_path / "memory", counted, {})
    SparkBackend(tmp_path / "spark", {"sequence": "row"}).count(
        read_frame(spark, str(tmp_path / "taken.parquet")), strategy=strategy, memory=memory
    )
    ours, theirs = read_card(tmp_path / "spark"), read_card(tmp_path / "memory")
    assert ours["files"] == theirs["files"]
    assert ours["settings"] == theirs["settings"]
    if strategy == "bounded":
        held = counted.rows.held.values()
        n_held = sum(np.count_nonzero(rows.slots >= 0) for rows in held)
        assert 0 < sum(len(rows.dense) for rows in held) < n_held < 2 * counted.n_items


def test_without_a_sequence_strict_counts_are_the_same_by_id(spark, tmp_path):
    frame = as_frame(some_rows(seed=8)).drop("row")
    expected = MemoryBackend().count(frame, ties="strict")
    rows = spark.createDataFrame(frame.rows(), frame.columns)
    counted = SparkBackend(tmp_path / "model").count(rows, ties="strict")
    items = counted.interactions.items.ids
    codes = expected.interactions.items.codes(items)
    for code, same in enumerate(codes):
        assert counted.followers(code).tolist() == expected.followers(int(same))[codes].tolist()
    assert counted.interactions.users.ids.is_sorted()


def test_statistics_from_spark_serve_a_recommender(spark, tmp_path):
    frame = as_frame(some_rows(seed=9))
    folder = tmp_path / "model"
    sr.spark.fit_spark(
        to_spark(spark, frame), folder, {"icrs3": sr.InductiveConformal("CM3")}, sequence="row"
    )
    expected = sr.InductiveConformal("CM3").fit(sr.read_interactions(frame))
    loaded = sr.load(folder)
    user = frame["user"][0]
    assert (
        loaded.recommend(user, confidence=0.6)
        .to_frame()
        .equals(expected.recommend(user, confidence=0.6).to_frame())
    )
