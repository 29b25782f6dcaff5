"""From rows to parts in the order of users, without Spark: against what is plain to see."""

from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.spark import _bundles
from surerec.spark._bundles import COLUMNS, N_BUCKETS, BundleRows, Bundles, read_share
from surerec.spark._profiles import BuildProfiles, arrange, write_part
from surerec.spark._staging import Staging

INTEGERS = (pa.int64(), pa.int64())
whole = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
seconds = st.integers(-(2**31), 2**33).map(lambda x: x * 1_000_000)


def batches(rows, n_buckets=N_BUCKETS, kinds=INTEGERS, size=3):
    """Rows of user, item, time and sequence as Spark gives them, each user in one bucket."""
    columns = [*zip(*rows, strict=True)] if rows else [()] * 4
    columns.append([hash(user) % n_buckets for user in columns[0]])
    kinds = (*kinds, pa.int64(), pa.int64(), pa.int32())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(dict(zip((*COLUMNS, "bucket"), arrays, strict=True))).to_batches(size)


def bundled(staging, source, threshold=None):
    """What tasks told of their bundles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bundles, "_ROWS_AT_ONCE", 7)
        told = list(BundleRows(staging, threshold)(source))
    schema = pa.schema({"name": pa.string(), "sizes": pa.binary(), "facts": pa.string()})
    return Bundles.told(pa.Table.from_batches(told, schema))


texts = st.text(max_size=3)
TEXTS = (pa.string(), pa.string())


@given(
    st.one_of(
        st.tuples(
            st.lists(st.tuples(whole, whole, st.one_of(whole, seconds), whole)), st.just(INTEGERS)
        ),
        st.tuples(st.lists(st.tuples(texts, texts, seconds, whole)), st.just(TEXTS)),
    ),
    st.integers(1, 4),
)
def test_shares_hold_the_rows_of_their_users(tmp_path_factory, case, n_shares):
    rows, kinds = case
    staging = Staging(str(tmp_path_factory.mktemp("shares")))
    bundles = bundled(staging, batches(rows, kinds=kinds))
    assert bundles.n_rows == bundles.facts["usable"] == len(rows)
    n_dealt = bundles.deal(staging, n_shares)
    assert n_dealt <= n_shares
    shares = [read_share(staging, number).rows() for number in range(n_dealt)]
    assert all(shares)
    assert Counter(row for share in shares for row in share) == Counter(rows)
    homes = {row[0]: number for number, share in enumerate(shares) for row in share}
    for number, share in enumerate(shares):
        for user in {row[0] for row in share}:
            assert homes[user] == number
            mine = [row for row in rows if row[0] == user]
            assert [row for row in share if row[0] == user] == mine


def test_what_a_task_wrote_that_failed_is_not_read(tmp_path):
    staging = Staging(str(tmp_path))
    rows = [(user, user, 0, user) for user in range(20)]
    bundled(staging, batches(rows))
    again = bundled(staging, batches(rows[::-1]))
    assert again.deal(staging, 1) == 1
    assert sorted(read_share(staging, 0).rows()) == rows


maybe = st.one_of(st.none(), st.integers(0, 3))


@given(st.lists(st.tuples(maybe, maybe, maybe, maybe, st.sampled_from([None, 1.0, 2.0, 3.0]))))
def test_rows_that_cannot_be_used_are_counted_and_left_out(tmp_path_factory, rows):
    names = ["user", "item", "time", "sequence", "rating"]
    columns = {
        name: pa.array([row[k] for row in rows], pa.float64() if k == 4 else pa.int64())
        for k, name in enumerate(names)
    }
    columns["bucket"] = pa.array([0] * len(rows), pa.int32())
    staging = Staging(str(tmp_path_factory.mktemp("rows")))
    bundles = bundled(staging, pa.table(columns).to_batches(2), threshold=1.5)
    bad = [None in (*row[:3], row[4]) for row in rows]
    usable = [
        row[:4]
        for row, is_bad in zip(rows, bad, strict=True)
        if not is_bad and row[4] > 1.5 and row[3] is not None
    ]
    found = bundles.facts
    assert found["all"] == len(rows)
    assert found["bad"] == sum(bad)
    assert found["no_rating"] == sum(row[4] is None for row in rows)
    assert found["usable"] == bundles.n_rows == len(usable)
    dealt = bundles.deal(staging, 3)
    assert [row for k in range(dealt) for row in read_share(staging, k).rows()] == usable


def build(folder, rows, n_buckets, min_length=1):
    """Bundle, build, arrange and write parts, as the tasks of a fit do."""
    staging = Staging(str(folder))
    n_shares = bundled(staging, batches(rows, n_buckets)).deal(staging, n_buckets)
    told = []
    for number in [*range(n_shares), *range(n_shares)]:
        task = BuildProfiles(staging, min_length, "bigint")
        built = list(task([pa.record_batch({"id": [number]})]))
        if len(told) < n_shares:  # a task that is tried again changes nothing
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
