"""Errors of reading: what is wrong, with value and place, and how to fix it."""

import pandas as pd
import polars as pl
import pytest

import surerec as sr

HEAD = "user,item,rating,time\n"
FIX = "Fix it, or pass skip_bad=True."
# Content of orders.csv, and the complete message: a table to read.
MESSAGES = {
    HEAD + "1,2,3,4\n1,3,3,yesterday\n":
        f"orders.csv:3: cannot parse time 'yesterday' (1 row). {FIX}",
    HEAD + "1,2,3,4\n1,3,3,-5\n1,4,3,-6\n":
        f"orders.csv:3: negative time '-5' (2 rows). {FIX}",
    HEAD + "1,2,3,05.05.2024\n1,3,3,06.05.2024\n":
        "orders.csv:2: cannot parse time '05.05.2024' (2 rows). Pass time_format=, such as "
        "'%d.%m.%Y %H:%M'.",
    HEAD + "1,2,3,4\n\n,3,3,5\n1, ,nan,5\n":
        "orders.csv:4: no user (1 row); orders.csv:5: no item (1 row); "
        f"orders.csv:5: cannot parse rating 'nan' (1 row). {FIX}",
    HEAD + "1,2,3,4\n1,3,3\n":
        f"orders.csv:3: no time (1 row). {FIX}",
    HEAD + "1,2,3,4\n1,2,3,4,5\n":
        f"orders.csv:3: too many fields (1 row). {FIX}",
    "1,2,3,4\n5,6,7,8\n":
        "orders.csv:1: data instead of column names: '1,2,3,4'. Name all 4 columns with columns= "
        "(user_id,item_id,rating,timestamp), or add a header line.",
    "user,item,rating\n1,2,3\n":
        "orders.csv: no time column among 'user', 'item', 'rating'. Pass time=\"NAME\", or "
        'time="" if the rows are in time order.',
    "user_id,item,USER ID,time\n1,2,3,4\n":
        "orders.csv: 2 columns may be the user column, such as 'user_id' and 'USER ID'. Rename all "
        "but one.",
    "":
        "orders.csv: the file is empty. Pass rows of user, item and time.",
    HEAD:
        "orders.csv: none of 0 rows is usable. Check rating_above=.",
}  # fmt: skip


@pytest.mark.parametrize("content", MESSAGES)
def test_messages_have_the_place_the_value_and_a_fix(write, monkeypatch, tmp_path, content):
    monkeypatch.chdir(tmp_path)
    write("orders.csv", content)
    with pytest.raises(sr.InputError) as caught:
        sr.read_interactions("orders.csv")
    assert str(caught.value) == MESSAGES[content]


@pytest.mark.parametrize(
    ("content", "n_bad"),
    [
        (HEAD + "1,2,3,4\n1,3,3,yesterday\n1,4,,5\n", 2),
        (HEAD + "1,2,3,4\n1,2,3,4,5\n", 1),
        (HEAD + "1,2,3,4\n\n,,,\n1,3,inf,5\n", 2),
    ],
)
def test_bad_rows_are_dropped_and_counted_on_request(write, content, n_bad):
    interactions = sr.read_interactions(write("bad.csv", content), skip_bad=True)
    assert (interactions.rows_read.bad, interactions.n_rows) == (n_bad, 1)


def test_sources_that_are_not_tables_are_named(write, tmp_path):
    good, bad = write("a.csv", HEAD + "1,2,3,4\n"), write("b.csv", HEAD + "1,2,3,4\n1,2,3,x\n")
    for source, says in (
        (tmp_path / "nowhere.csv", r"nowhere\.csv: no such file"),
        (tmp_path, "folder without Netflix-Prize files"),
        ([good, bad], r"b\.csv:3: cannot parse time 'x' \(1 row\)"),
        (write("r.parquet", b"PAR1 but then nothing"), "not a readable Parquet file"),
        (write("r.csv.gz", b"\x1f\x8b but then nothing"), r"damaged gzip file .*Download it again"),
        (write("r.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xd8"), r"r\.png"),
        (7, "cannot be read from int"),
    ):
        with pytest.raises(sr.InputError, match=says):
            sr.read_interactions(source)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"item": "sku"}, "no column 'sku'. Use one of its columns: 'who', 'item'"),
        ({"columns": ["user", "item"]}, "r.csv:1: columns= has 2 names, but the line has 4 fields"),
        ({"min_profile_length": 0}, "min_profile_length is 0"),
        ({"user": "who", "min_profile_length": 2}, "no user consumed 2 items or more. Lower"),
    ],
)
def test_options_that_do_not_fit_the_file(write, settings, says):
    with pytest.raises(sr.InputError, match=says):
        sr.read_interactions(write("r.csv", "who,item,rating,time\n1,2,3,4\n"), **settings)


@pytest.mark.parametrize(
    ("frame", "more", "says"),
    [
        (pd.DataFrame, {"user": [1, "a"]}, "'user' mixes int and str"),
        (pl.DataFrame, {"item": [1.5, 2.0]}, "ids must be integers or text, not fractions"),
        (pl.DataFrame, {"item": [True, False]}, "ids must be integers or text, not Boolean"),
        (pl.DataFrame, {"time": [True, False]}, "times must be Unix times or dates"),
        (pd.DataFrame, {"user": [1, None]}, r"^the pandas frame, row 2: no user \(1 row\)"),
        (pl.DataFrame, {}, "time_format='%Y' is a date pattern. Use their unit: s, ms, us or ns"),
    ],
)
def test_frames_of_mixed_or_invalid_types(frame, more, says):
    data = frame({"user": [1, 2], "item": [1, 2], "time": [1, 2]} | more)
    with pytest.raises(sr.InputError, match=says):
        sr.read_interactions(data, time_format=None if more else "%Y")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_does_not_fit_in_memory_is_refused_before_it_is_read(
    tmp_path, monkeypatch, suffix
):
    frame = pl.DataFrame({"user": [1] * 500, "item": range(500), "time": range(500)})
    path = tmp_path / f"rows.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    monkeypatch.setattr("surerec.interactions._sources.available_memory", lambda: 11_000)
    says = r"needs about \d+\.\d kB of memory, and 11\.0 kB is free"
    with pytest.raises(sr.InputError, match=says):
        sr.read_interactions(path)
    assert sr.read_interactions(path, n_rows=100).n_rows == 100
