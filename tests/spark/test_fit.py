"""A fit on Spark is the fit in memory, byte for byte."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.spark import Counting, fit_spark, read_frame
from surerec.storage import read_card, save_model

pytestmark = pytest.mark.spark


def some_rows(random_state, n=400):
    """Rows with repeats, ties, and ids that are no codes."""
    rng = np.random.default_rng(random_state)
    columns = {
        "user": rng.integers(0, 30, n) * 7 + 1,
        "item": rng.zipf(1.4, n) % 25 + 100,
        "time": rng.integers(0, 12, n),
    }
    return pl.DataFrame(columns).with_columns(row=pl.int_range(n))


def to_spark(spark, frame):
    """Rows in no order of their own: the sequence column alone knows it."""
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    return spark.createDataFrame(shuffled.rows(), shuffled.columns).repartition(3)


def assert_same_model(spark_folder, memory_folder):
    ours, theirs = read_card(spark_folder), read_card(memory_folder)
    for part in ("files", "counts", "settings"):
        assert ours[part] == theirs[part]
    assert ours["data"]["rows_read"] == theirs["data"]["rows_read"]


@pytest.mark.parametrize(
    ("ties", "blocks", "text"),
    [("order", None, False), ("order", (2, 3), True), ("strict", (3, 4), False)],
)
def test_a_folder_from_spark_is_that_from_memory(spark, tmp_path, ties, blocks, text):
    frame = some_rows(random_state=5)
    if text:
        frame = frame.with_columns(pl.format("u-{}", "user").alias("user"))
    consumed = sr.read_interactions(frame, min_profile_length=5)
    save_model(tmp_path / "memory", sr.count_precedence(consumed, ties=ties), {})
    fit_spark(
        to_spark(spark, frame),
        tmp_path / "spark",
        counting=Counting(ties=ties, blocks=blocks),
        sequence="row",
        min_profile_length=5,
    )
    assert_same_model(tmp_path / "spark", tmp_path / "memory")
    assert min(consumed.rows_read.short_profiles, consumed.rows_read.repeats) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory", "spark"]


def crowd():
    """2 ** 16 users who consumed items 0 and 1 in this order, and one of 2 … 9 later."""
    users = np.arange(2**16).repeat(3)
    items = np.column_stack([np.zeros(2**16), np.ones(2**16), 2 + np.arange(2**16) % 8])
    return users, items.astype(np.int64).ravel()


def catalogue():
    """Users of more items than one wave counts."""
    consumed = sr.datasets.synthetic(150, 700, 3_000, random_state=3).to_frame()
    return consumed["user_id"].to_numpy(), consumed["item_id"].to_numpy()


@pytest.mark.parametrize(
    ("data", "strategy", "memory"),
    [
        (crowd, "dense", 10**6),  # 16 bits do not hold the counts of items 0 and 1
        (crowd, "bounded", 300),  # some rows are compressed, some dense, some not held
        (catalogue, "bounded", 650_000),
        (catalogue, "bounded", 0),
    ],
)
def test_rows_are_as_wide_and_as_many_as_in_memory(spark, tmp_path, data, strategy, memory):
    users, items = data()
    frame = pl.DataFrame({"user": users, "item": items, "time": np.arange(len(users))})
    frame.with_columns(row="time").write_parquet(tmp_path / "log.parquet")
    consumed = sr.read_interactions(frame)
    counted = sr.count_precedence(consumed, strategy=strategy, memory=memory)
    save_model(tmp_path / "memory", counted, {})
    fit_spark(
        read_frame(spark, str(tmp_path / "log.parquet")),
        tmp_path / "spark",
        counting=Counting(strategy=strategy, memory=memory),
        sequence="row",
    )
    assert_same_model(tmp_path / "spark", tmp_path / "memory")
    if strategy == "bounded" and memory:
        held = counted.rows.held.values()
        n_held = sum(np.count_nonzero(rows.slots >= 0) for rows in held)
        assert 0 < sum(len(rows.dense) for rows in held) < n_held < 2 * counted.n_items


def test_without_a_sequence_strict_counts_are_the_same_by_id(spark, tmp_path):
    frame = some_rows(random_state=8).drop("row")
    expected = sr.count_precedence(sr.read_interactions(frame), ties="strict")
    rows = spark.createDataFrame(frame.rows(), frame.columns)
    counted = fit_spark(rows, tmp_path / "m", counting=Counting(ties="strict"))
    codes = expected.interactions.items.codes(counted.interactions.items.ids)
    for code, same in enumerate(codes):
        assert counted.followers(code).tolist() == expected.followers(int(same))[codes].tolist()
    assert counted.interactions.users.ids.is_sorted()


def test_equal_sequences_go_by_user_and_item(spark, tmp_path):
    rows = [(4, 9, 5, 0), (2, 8, 5, 0), (4, 7, 5, 0), (2, 9, 1, 0), (4, 7, 0, 3)]
    frame = spark.createDataFrame(rows, ["user", "item", "time", "row"])
    found = fit_spark(frame, tmp_path / "m", sequence="row").interactions
    ids = found.items.ids.to_list()
    assert (found.users.ids.to_list(), ids) == ([2, 4], [9, 7, 8])
    assert [ids[code] for code in found.item_codes] == [9, 8, 7, 9]


def test_titles_and_segments_are_those_of_a_fit_in_memory(spark, tmp_path):
    films = sr.datasets.synthetic(n_users=200, n_items=40, n_rows=4_000, random_state=3)
    films.to_frame().write_parquet(tmp_path / "films.parquet")
    frame = spark.read.parquet(str(tmp_path / "films.parquet"))
    segments = {user: "even" if user % 2 else "odd" for user in films.users.ids}
    titles = {item: f"Film {item}" for item in films.items.ids[:15]} | {10**9: "Unknown"}
    made = {"by-parity": sr.PopulationConformal("CM12", segments="parity")}
    strict = Counting(ties="strict")
    given = {"counting": strict, "user_segments": segments, "titles": titles}
    found = fit_spark(frame, tmp_path / "m", made, **given).interactions
    for item in found.items.ids:
        assert found.title(found.items.code(item)) == titles.get(item, str(item))
    counts = sr.count_precedence(films, ties="strict")
    here = sr.PopulationConformal("CM12", segments="parity").fit(counts, user_segments=segments)
    there = sr.load(tmp_path / "m")
    for user in films.users.ids[:5]:
        assert set(there.recommend(user).items) == set(here.recommend(user).items)
    with pytest.raises(sr.InputError, match="title is 'x', a column of titles="):
        fit_spark(frame, tmp_path / "m2", {}, counting=strict, title="x")
