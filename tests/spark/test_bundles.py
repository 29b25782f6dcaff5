"""From rows to parts in the order of users, without Spark: against what is plain to see."""

from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.spark import _bundles
from surerec.spark._arranging import arrange, write_part
from surerec.spark._bundles import COLUMNS, LOOKED, BundleRows, unpack
from surerec.spark._profiles import BuildProfiles, Part
from surerec.spark._staging import Staging

INTEGERS = (pa.int64(), pa.int64())
whole = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
seconds = st.integers(-(2**31), 2**33).map(lambda x: x * 1_000_000)


def batches(rows, n_buckets, kinds=INTEGERS, size=3):
    """Rows of user, item, time and sequence as Spark gives them, each user in one bucket."""
    columns = [*zip(*rows, strict=True)] if rows else [()] * 4
    columns.append([hash(user) % n_buckets for user in columns[0]])
    kinds = (*kinds, pa.int64(), pa.int64(), pa.int32())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(dict(zip((*COLUMNS, "bucket"), arrays, strict=True))).to_batches(size)


@given(st.lists(st.tuples(whole, whole, st.one_of(whole, seconds), whole)), st.integers(1, 4))
def test_bundles_hold_the_rows_of_their_bucket_in_order(rows, n_buckets):
    check_bundles(rows, n_buckets, INTEGERS, "bigint")


@given(
    st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), seconds, whole)),
    st.integers(1, 4),
)
def test_bundles_hold_texts(rows, n_buckets):
    check_bundles(rows, n_buckets, (pa.string(), pa.string()), "string")


def check_bundles(rows, n_buckets, kinds, user_type):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bundles, "_ROWS_AT_ONCE", 7)
        bundle = BundleRows(n_buckets, user_type, threshold=None)
        *records, last = (x.to_pylist()[0] for x in bundle(batches(rows, n_buckets, kinds)))
    assert (last["user"], last["bucket"]) == (None, LOOKED)
    for bucket in range(n_buckets):
        mine = [x for x in records if x["bucket"] == bucket]
        expected = [row for row in rows if hash(row[0]) % n_buckets == bucket]
        found = unpack([pa.py_buffer(x["rows"]) for x in mine]).rows() if mine else []
        assert found == expected
        assert all(hash(x["user"]) % n_buckets == bucket for x in mine)
    assert all(0 <= x["bucket"] < n_buckets for x in records)


def test_whole_seconds_and_small_numbers_take_four_bytes_each():
    rows = [(10**12 + k, 7 * k, 10**15 + 10**9 * k, 2 * k) for k in range(10_000)]
    sizes = [len(x["rows"][0].as_py()) for x in BundleRows(1, "bigint", None)(batches(rows, 1))]
    assert sum(sizes) < 16 * len(rows) + 3_000


maybe = st.one_of(st.none(), st.integers(0, 3))


@given(st.lists(st.tuples(maybe, maybe, maybe, maybe, st.sampled_from([None, 1.0, 2.0, 3.0]))))
def test_rows_that_cannot_be_used_are_counted_and_left_out(rows):
    names = ["user", "item", "time", "sequence", "rating"]
    columns = {
        name: pa.array([row[k] for row in rows], pa.float64() if k == 4 else pa.int64())
        for k, name in enumerate(names)
    }
    columns["bucket"] = pa.array([0] * len(rows), pa.int32())
    *records, last = BundleRows(1, "bigint", threshold=1.5)(pa.table(columns).to_batches(2))
    looked = (
        pl.Series([last["rows"][0].as_py()])
        .cast(pl.String)
        .str.json_decode(
            pl.Struct({"all": pl.Int64, "bad": pl.Int64, "no_rating": pl.Int64, "usable": pl.Int64})
        )[0]
    )
    bad = [None in (*row[:3], row[4]) for row in rows]
    usable = [
        row[:4]
        for row, is_bad in zip(rows, bad, strict=True)
        if not is_bad and row[4] > 1.5 and row[3] is not None
    ]
    found = Counter({key: value or 0 for key, value in looked.items()})
    assert found["all"] == len(rows)
    assert found["bad"] == sum(bad)
    assert found["no_rating"] == sum(row[4] is None for row in rows)
    assert found["usable"] == len(usable)
    buffers = [x["rows"][0].as_buffer() for x in records]
    assert (unpack(buffers).rows() if buffers else []) == usable


def build(folder, rows, n_buckets, min_length=1):
    """Bundle, build, arrange and write parts, as the tasks of a fit do."""
    staging = Staging(str(folder))
    bundles = list(BundleRows(n_buckets, "bigint", None)(batches(rows, n_buckets)))
    told = []
    for bucket in range(n_buckets):
        mine = [x for x in bundles if x["bucket"][0].as_py() == bucket]
        for _ in range(2):  # a task that is tried again changes nothing
            built = list(BuildProfiles(staging, min_length, "bigint")(iter(mine[::-1])))
        told += built
    items = (
        pl.DataFrame(pl.from_arrow(pa.Table.from_batches(told)))
        .group_by("item")
        .agg(pl.col("support").sum(), pl.col("first").min())
        .filter(pl.col("support") > 0)
        .sort("support", "first", "item", descending=[True, False, False])
    )
    staging.write_ids("items", items["item"])
    arrangement = arrange(staging)
    parts = arrangement.parts(3)
    arrangement.write(staging, parts)
    for part in parts:
        write_part(staging, arrangement.buckets, part)
    taken = [np.concatenate([staging.array(x.name(role), kind) for x in parts])
             for role, kind in (("items_taken", "uint32"), ("times", "int64"))]  # fmt: skip
    return arrangement, items, *taken


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
def test_parts_are_the_profiles_that_memory_reads(tmp_path_factory, seed, n_buckets, min_length):
    chance = np.random.default_rng(seed)
    n = int(chance.integers(1, 80))
    rows = np.stack([chance.integers(0, 12, n), chance.integers(0, 9, n) * 3,
                     chance.integers(0, 6, n) * 1_000_000, np.arange(n) * 2], axis=1)  # fmt: skip
    frame = pl.DataFrame(rows, schema=["user", "item", "time", "row"], orient="row")
    if frame.unique(["user", "item"])["user"].value_counts()["count"].max() < min_length:
        return
    expected = sr.read_interactions(
        frame.with_columns(pl.col("time").cast(pl.Datetime("us"))), min_profile_length=min_length
    )
    shuffled = chance.permutation(rows).tolist()
    arrangement, items, taken, times = build(
        tmp_path_factory.mktemp("parts"), [tuple(row) for row in shuffled], n_buckets, min_length
    )
    assert arrangement.users.to_list() == expected.users.ids.to_list()
    assert items["item"].to_list() == expected.items.ids.to_list()
    np.testing.assert_array_equal(arrangement.lengths, np.diff(expected.offsets))
    np.testing.assert_array_equal(taken, expected.items_taken)
    np.testing.assert_array_equal(times, expected.times)
    assert arrangement.n_repeats == expected.rows_read.repeats
    assert arrangement.n_short == expected.rows_read.short_profiles


def test_equal_sequences_go_by_user_and_item(tmp_path):
    rows = [(4, 9, 5, 0), (2, 8, 5, 0), (4, 7, 5, 0), (2, 9, 1, 0), (4, 7, 0, 3)]
    arrangement, items, taken, times = build(tmp_path, rows, 2)
    assert arrangement.users.to_list() == [2, 4]
    ids = items["item"].to_list()
    assert ids == [9, 7, 8]
    assert [ids[code] for code in taken] == [9, 8, 7, 9]
    assert times.tolist() == [1, 5, 0, 5]


def test_parts_are_cut_by_rows(tmp_path):
    rows = [(user, item, 0, 10 * user + item) for user in range(6) for item in range(user + 1)]
    arrangement, *_ = build(tmp_path, rows, 2)
    parts = arrangement.parts(3)
    assert parts[0] == Part(0, parts[0].n_users, 0, parts[0].n_rows)
    assert all(a.first_row + a.n_rows == b.first_row for a, b in pairwise(parts))
    assert sum(part.n_users for part in parts) == 6
    assert sum(part.n_rows for part in parts) == len(rows)
