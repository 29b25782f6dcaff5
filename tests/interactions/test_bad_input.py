"""Each is one clear sentence that names the place and what to do."""

import pandas as pd
import polars as pl
import pytest

import surerec as sr

HEAD = "user,item,rating,time\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (HEAD, "no row is left"),
        (
            "1,2,3,4\n5,6,7,8\n",
            r"line 1, '1,2,3,4', is data, not names of columns; name all 4 in order, .*--columns",
        ),
        ("user,item,rating\n1,2,3\n", "no time column among 'user', 'item', 'rating'; .*--time"),
        ("user,time\n1,2\n", "no item column"),
        (
            "kunde,artikel,datum\nann,7,2024-05-01\n",
            (
                "no user or item or time column among 'kunde', 'artikel', 'datum'; name them with "
                "--user-column NAME --item-column NAME --time-column NAME "
                '.*user="NAME", item="NAME", time="NAME" in'
            ),
        ),
        ("book,7,2024-05-01\n", "line 1, .* is data"),
        (
            HEAD + "1,2,3,4\n1,3,3,yesterday\n",
            r"1 row with an unreadable time .*line 3, 'yesterday'",
        ),
        (
            HEAD + "1,2,3,05.05.2024 06:10\n1,3,3,06.05.2024 07:00\n",
            r"2 rows with .*'05.05.2024 06:10'\); say how times are written with --time-format,",
        ),
        (
            HEAD + "1,2,3,4\n1,3,3,-5\n1,4,3,-6\n",
            r"2 rows with .* negative one \(first: line 3, '-5'",
        ),
        (HEAD + "1,2,3,4\n\n1,3,3,\n", r"1 row without a time \(first: line 4\)"),
        (HEAD + "1,2,3,4\n,3,3,5\n", r"1 row without a user \(first: line 3\)"),
        (HEAD + "1,2,3,4\n1, ,3,5\n", r"1 row without an item \(first: line 3\)"),
        (HEAD + "1,2,nan,4\n", r"1 row with an unreadable rating \(first: line 2, 'nan'\)"),
        (HEAD + "1,2,3,4\n1,3\n", r"1 row without a time \(first: line 3\)"),
        (HEAD + "1,2,3,4\n1,2,3,4,5\n", r"1 row with too many fields \(first: line 3\)"),
        (HEAD + "1,2,3,4\n,,,\n", r"without a user \(first: line 3\)"),
        (HEAD + '1,"2,3,4\n', "cannot be read as a table"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_line(write, content, says):
    path = write("bad.csv", content)
    with pytest.raises(sr.InputError, match=says) as caught:
        sr.read_interactions(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


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
    assert interactions.rows_read.bad == n_bad
    assert interactions.n_rows == 1


@pytest.mark.parametrize("role", ["user", "item"])
def test_an_empty_name_of_users_or_items_is_no_column(write, role):
    path = write("r.csv", HEAD.replace(role, "x") + "1,2,3,4\n")
    for source in (path, pl.read_csv(path)):
        with pytest.raises(sr.InputError, match=f"no {role} column among"):
            sr.read_interactions(source, **{role: ""})


def test_a_path_that_is_no_table_is_named(write, tmp_path):
    good, bad = write("a.csv", HEAD + "1,2,3,4\n"), write("b.csv", HEAD + "1,2,3,4\n1,2,3,x\n")
    for source, says in (
        (tmp_path / "nowhere.csv", r"nowhere\.csv: no such file"),
        (tmp_path, "folder without Netflix-Prize files"),
        ([good, bad], r"b\.csv, line 3, 'x'"),
        (write("r.parquet", b"PAR1 but then nothing"), "not a readable Parquet file"),
        (write("r.csv.gz", b"\x1f\x8b but then nothing"), "damaged gzip"),
        (write("r.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xd8"), r"r\.png"),
        (7, "not from int"),
    ):
        with pytest.raises(sr.InputError, match=says):
            sr.read_interactions(source)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"user": "who"}, "there is no column 'who'; found: 'user', 'item'"),
        ({"columns": ["user", "item"]}, "2 column names were given, but line 1 has 4"),
        ({"min_profile_length": 0}, "min_profile_length is 0"),
        ({"min_profile_length": 2}, "no user took 2 items"),
    ],
)
def test_settings_that_do_not_fit_the_file(write, settings, says):
    with pytest.raises(sr.InputError, match=says):
        sr.read_interactions(write("r.csv", HEAD + "1,2,3,4\n"), **settings)


@pytest.mark.parametrize(
    ("frame", "more", "says"),
    [
        (pd.DataFrame, {"user": [1, "a"]}, "'user' mixes int and str"),
        (pl.DataFrame, {"item": [1.5, 2.0]}, "ids must be integers or text, not fractions"),
        (pl.DataFrame, {"item": [True, False]}, "ids must be integers or text, not Boolean"),
        (pl.DataFrame, {"time": [True, False]}, "times must be Unix times or dates"),
        (pd.DataFrame, {"user": [1, None]}, r"1 row without a user \(first: row 2\)"),
        (pl.DataFrame, {}, r"unit \(s, ms, us or ns\), not '%Y'"),
    ],
)
def test_frames_of_mixed_or_impossible_types(frame, more, says):
    data = frame({"user": [1, 2], "item": [1, 2], "time": [1, 2]} | more)
    with pytest.raises(sr.InputError, match=says):
        sr.read_interactions(data, time_format=None if more else "%Y")


def test_an_impossible_number_of_threads(monkeypatch, write):
    monkeypatch.setenv("SUREREC_THREADS", "many")
    with pytest.raises(sr.InputError, match="SUREREC_THREADS is 'many'"):
        sr.read_interactions(write("r.csv", HEAD + "1,2,3,4\n"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_would_not_fit_in_memory_is_refused_before_it_is_read(
    tmp_path, monkeypatch, suffix
):
    frame = pl.DataFrame({"user": [1] * 500, "item": range(500), "time": range(500)})
    path = tmp_path / f"rows.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    monkeypatch.setattr("surerec.interactions._sources.available_memory", lambda: 11_000)
    with pytest.raises(
        sr.InputError, match=r"needs about \d+\.\d kB of memory, and 11\.0 kB is free"
    ):
        sr.read_interactions(path)
    assert sr.read_interactions(path, n_rows=100).n_rows == 100
