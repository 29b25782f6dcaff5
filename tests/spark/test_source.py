"""What is read from a DataFrame is what the reader in memory reads."""

import datetime as dt

import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.spark import Counting, fit_spark, read_frame

pytestmark = pytest.mark.spark


STRICT = Counting(ties="strict", strategy="bounded")


def in_memory(interactions):
    frame = interactions.to_frame().with_columns(pl.col("datetime").to_physical())
    return sorted(frame.rows())


CASES = {
    "seconds": [(1, 5, 881250949), (1, 6, 881250950)],
    "milliseconds": [(1, 5, 1_700_000_000_000), (2, 6, 1_700_000_000_001)],
    "text": [("7", "012", "881250949"), ("12", "x ", "881250950.5")],
    "whole numbers in text": [("7", str(2**63 - 1), 5), ("-3", "0", 6)],
    "numbers too long": [("7", str(2**63), 5), ("+3", "-0", 6)],
    "dates": [(1, "a", dt.date(2001, 2, 3)), (2, "b", dt.date(1969, 2, 3))],
    "instants": [(1, "a", dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.UTC))],
}


@pytest.mark.parametrize("case", CASES)
def test_cells_are_read_as_in_memory(spark, tmp_path, case):
    rows, names = CASES[case], ["userId", "asin", "date"]
    given = spark.createDataFrame(rows, names)
    found = fit_spark(given, tmp_path / "m", counting=STRICT).interactions
    expected = sr.read_interactions(pl.DataFrame(rows, schema=names, orient="row"))
    assert in_memory(found) == in_memory(expected)


def test_bad_rows_and_low_ratings_are_counted_and_left_out(spark, tmp_path):
    noon = dt.datetime(2001, 2, 3, 12, tzinfo=dt.UTC)
    rows = [
        (1, 5, noon, 4.0, 0), (1, 6, None, 4.0, 1), (None, 7, noon, 4.0, 2), (2, 5, noon, 1.0, 3),
        (2, 6, noon, None, 4), (2, 7, noon, 5.0, 5),
    ]  # fmt: skip
    names = "user int, item bigint, time timestamp, rating float, row int"
    frame = spark.createDataFrame(rows, names)
    expected = r"^the Spark DataFrame: of 6 rows, 1 without a valid user; .* time; .* rating\. Fix"
    with pytest.raises(InputError, match=expected):
        fit_spark(frame, tmp_path / "model", sequence="row")
    assert not list(tmp_path.iterdir())
    options = {"sequence": "row", "skip_bad": True, "rating_above": 3.0}
    found = fit_spark(frame, tmp_path / "model", **options).interactions
    read = found.rows_read
    assert (read.rows, read.bad, read.below_threshold) == (6, 3, 1)
    at = int(noon.timestamp()) * 10**6
    assert in_memory(found) == [(1, 5, at), (2, 7, at)]
    none = frame.selectExpr("*", "cast(null as int) as x")
    with pytest.raises(InputError, match="6 rows have no seq"):
        fit_spark(none, tmp_path / "other", sequence="x")


@pytest.mark.parametrize(
    ("rows", "names", "options", "sentence"),
    [
        ([(1, 2, 3)], "u int, item int, time int", {}, "no user column among 'u'"),
        ([(1.5, 2, 3)], "user double, item int, time int", {}, "are fractions"),
        ([(1, 2, True)], "user int, item int, time boolean", {}, "convert it to timestamps, dates"),
        (
            [(1, 2, 3)],
            "user int, item int, time int",
            {"sequence": "row"},
            "integer column 'row'",
        ),
        ([(1, 2, 3)], "user int, item int, time int", {"time_format": "%Y"}, "Use a unit"),
        ([(1, 2, 3, 0)], "user int, item int, time int, rating int", {}, "none of 1 rows is valid"),
    ],
)
def test_invalid_sources_are_refused(spark, tmp_path, rows, names, options, sentence):
    given = spark.createDataFrame(rows, names)
    with pytest.raises(InputError, match=sentence):
        fit_spark(given, tmp_path / "m", counting=STRICT, **options)


def test_text_files_with_and_without_a_header(spark, write, tmp_path):
    headed = write("my ratings.csv", "userId,movieId,rating,timestamp\n1,5,4,10\n2,5,4,11\n")
    bare = write("ratings.dat", "1::5::4::10\n2::5::4::11\n")
    names = ["user", "item", "rating", "time"]
    expected = [(1, 5, 10_000_000), (2, 5, 11_000_000)]
    for number, frame in enumerate(
        (read_frame(spark, str(headed)), read_frame(spark, str(bare), names))
    ):
        found = fit_spark(frame, tmp_path / str(number), counting=STRICT)
        assert in_memory(found.interactions) == expected
    with pytest.raises(InputError, match="columns has 2 names, but the file has 4 columns"):
        read_frame(spark, str(bare), names[:2])
    with pytest.raises(InputError, match="no such file"):
        read_frame(spark, str(headed) + "x")
    with pytest.raises(InputError, match="not the name"):
        read_frame(spark, "ml-1m")
