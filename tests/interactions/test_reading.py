import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr

SECOND = 1_000_000
# ann consumed 10, then 20; bob consumed 20, then 10
CSV = "userId,movieId,rating,timestamp\nann,20,4,300\nbob,20,3,100\nann,10,5,200\nbob,10,1,150\n"


def rows(interactions):
    """All rows as (user, item, microseconds), user after user."""
    frame = interactions.to_frame()
    return list(zip(frame["user_id"], frame["item_id"], interactions.times.tolist(), strict=True))


EXPECTED = [
    ("ann", 10, 200 * SECOND),
    ("ann", 20, 300 * SECOND),
    ("bob", 20, 100 * SECOND),
    ("bob", 10, 150 * SECOND),
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ratings.csv", CSV),
        ("windows.csv", CSV.replace("\n", "\r\n")),
        ("no-end.csv", CSV.rstrip("\n")),
        ("blank-lines.csv", CSV.replace("bob,20", "\nbob,20") + "\n\n"),
        ("bom.csv", b"\xef\xbb\xbf" + CSV.encode()),
        ("utf16.csv", CSV.encode("utf-16")),
        ("utf16-be-unmarked.csv", CSV.encode("utf-16-be")),
        ("spaces.csv", CSV.replace(",", ", ")),
        ("quoted.csv", CSV.replace("ann", '"ann"')),
        ("semicolons.csv", CSV.replace(",", ";")),
        ("ratings.tsv", CSV.replace(",", "\t")),
        ("packed.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("ratings.dat", CSV.split("\n", 1)[1].replace(",", "::")),
    ],
)
def test_all_text_dialects_give_the_same_rows(write, name, content):
    assert rows(sr.read_interactions(write(name, content))) == EXPECTED


@pytest.mark.parametrize(
    "header",
    [
        "customer,product,purchased_at",
        "Client ID;SKU;Created At",
        "visitor,article_id,event_time",
        "session_id,movie,ts",
        "MEMBER NO,track,Viewed",
        "CustomerID,StockCode,InvoiceDate",
        "reviewerID,asin,unixReviewTime",
    ],
)
def test_common_column_names_are_detected(write, header):
    separator = ";" if ";" in header else ","
    lines = [separator.join(each) for each in (("ann", "20", "300"), ("ann", "10", "200"))]
    path = write("shop.csv", "\n".join([header, *lines]) + "\n")
    assert rows(sr.read_interactions(path)) == EXPECTED[:2]


def test_the_most_likely_of_several_columns_is_used(write):
    header = "session_id,user_id,title,product_id,bought,created_at,rating"
    path = write("shop.csv", f"{header}\n5,ann,Alien,10,1,200,3\n6,ann,Heat,20,1,300,4\n")
    assert rows(sr.read_interactions(path)) == EXPECTED[:2]


FRAME = {
    "user_id": ["ann", "bob", "ann", "bob"],
    "item": [20, 20, 10, 10],
    "when": [300, 100, 200, 150],
}


@pytest.mark.parametrize(
    "make",
    [
        pl.DataFrame,
        lambda data: pl.DataFrame(data).lazy(),
        pd.DataFrame,
        pa.table,
        lambda data: pl.DataFrame(data).with_columns(pl.col("user_id").cast(pl.Categorical)),
        lambda data: pl.DataFrame(data).with_columns(pl.col("item").cast(pl.UInt16)),
        lambda data: pd.DataFrame(data).assign(item=lambda f: f["item"].astype(float)),
        lambda data: pd.DataFrame(data).assign(when=lambda f: pd.to_datetime(f["when"], unit="s")),
        lambda data: pl.DataFrame(data).with_columns(
            pl.from_epoch("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
        ),
    ],
)
def test_all_frames_give_the_same_rows(make):
    assert rows(sr.read_interactions(make(FRAME), time="when")) == EXPECTED


@pytest.mark.parametrize("name", ["r*.parquet", "r[1].csv", "r?", "r{1,2}.dat"])
def test_file_names_are_not_patterns(tmp_path, name):
    frame = pl.DataFrame(FRAME).rename({"when": "time"})

    def save(rows, path):
        path.parent.mkdir(exist_ok=True)
        rows.write_parquet(path) if "parquet" in name else rows.write_csv(path)

    for other in ("r1.parquet", "r1.csv", "r2.dat"):
        save(frame, tmp_path / other)
    for path in (tmp_path / name, tmp_path / "f[1]" / name):
        save(frame.head(1), path)
        assert sr.read_interactions(path).n_rows == 1


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (["7", "12"], [7, 12]),
        (["-7", "0"], [-7, 0]),
        (["0054890", "7"], ["0054890", "7"]),
        (["+7", "8"], ["+7", "8"]),
        (["12346.0", "7.0"], [12346, 7]),
        (["12346.0", "7"], ["12346.0", "7"]),
        (["a.0", "7.0"], ["a.0", "7.0"]),
        (["007.0", "8.0"], ["007.0", "8.0"]),
        (["18446744073709551615", "7"], [2**64 - 1, 7]),
        (["99999999999999999999", "7"], ["99999999999999999999", "7"]),
    ],
)
def test_ids_keep_their_form(write, cells, kept):
    path = write("ids.csv", "user,item,time\n" + "".join(f"{c},1,1\n" for c in cells))
    assert sr.read_interactions(path).users.ids.to_list() == kept


@pytest.mark.parametrize(
    "cell",
    [
        "978300760",
        "978300760.0",
        "978300760000",
        "978300760000000000",
        "2000-12-31 22:12:40",
        "2000-12-31T22:12:40Z",
        "2000-12-31T23:12:40+01:00",
        "2000-12-31 22:12:40.000",
        "2000/12/31 22:12:40",
    ],
)
def test_all_time_formats_are_parsed(write, cell):
    path = write("t.csv", f"user,item,time\n1,1,{cell}\n")
    assert sr.read_interactions(path).times.tolist() == [978300760 * SECOND]


def test_time_format_is_used(write):
    path = write("t.csv", "user,item,time\n1,1,03/04/2005\n")
    times = sr.read_interactions(path, time_format="%d/%m/%Y").times
    assert times.astype("datetime64[us]").astype(str).tolist() == ["2005-04-03T00:00:00.000000"]
    small = write("s.csv", "user,item,time\n1,1,5\n")
    assert sr.read_interactions(small, time_format="ms").times.tolist() == [5_000]


def test_ratings_must_be_above_the_threshold(write):
    path = write("r.csv", CSV)
    assert sr.read_interactions(path, rating_above=3).n_rows == 2
    zeros = write("z.csv", "user,item,rating,time\n1,1,0,1\n1,2,1,2\n")
    assert sr.read_interactions(zeros).rows_read.below_threshold == 1
    assert sr.read_interactions(zeros, rating_above=None).n_rows == 2


def test_latin_1_and_quoted_separators_are_read(write):
    text = 'user,item,time\nJosé,"Good, the Bad, The",5\n'
    found = rows(sr.read_interactions(write("old.csv", text.encode("latin-1"))))
    assert found == [("José", "Good, the Bad, The", 5 * SECOND)]


def test_short_profiles_are_left_out_and_items_are_numbered_by_popularity(write):
    path = write("r.csv", "user,item,time\n1,a,1\n1,b,2\n2,c,1\n2,b,2\n3,d,1\n")
    interactions = sr.read_interactions(path, min_profile_length=2)
    assert interactions.items.ids.to_list() == ["b", "a", "c"]
    assert (interactions.n_users, interactions.rows_read.short_profiles) == (2, 1)


times = st.integers(0, 6)  # few values: many ties
some_rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8), times), min_size=1)


@given(some_rows, st.sampled_from(["text", "huge"]))
def test_renamed_ids_give_the_same_profiles(data, kind):
    frame = pl.DataFrame(data, schema=["user", "item", "time"], orient="row")
    rename = (
        (lambda c: pl.format("id {}", 9 - pl.col(c))) if kind == "text"
        else (lambda c: pl.lit(2**63 - 1) - pl.col(c))
    )  # fmt: skip
    renamed = frame.with_columns(rename("user").alias("user"), rename("item").alias("item"))
    plain, other = sr.read_interactions(frame), sr.read_interactions(renamed)
    np.testing.assert_array_equal(plain.offsets, other.offsets)
    np.testing.assert_array_equal(plain.item_codes, other.item_codes)
    np.testing.assert_array_equal(plain.times, other.times)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_number_of_threads_does_not_matter(monkeypatch, threads):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {name: rng.integers(0, top, 100_000) for name, top in
         (("user", 3_000), ("item", 200), ("time", 50))}
    )  # fmt: skip
    monkeypatch.setenv("SUREREC_THREADS", "3")
    reference = sr.read_interactions(frame)
    monkeypatch.setenv("SUREREC_THREADS", threads)
    again = sr.read_interactions(frame)
    np.testing.assert_array_equal(reference.item_codes, again.item_codes)
    np.testing.assert_array_equal(reference.times, again.times)
    assert reference.users.ids.equals(again.users.ids)
