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
                '--user NAME --item NAME --time NAME .*user="NAME", item="NAME", time="NAME" in'
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


def test_several_files_name_the_one_that_is_bad(write):
    good, bad = write("a.csv", HEAD + "1,2,3,4\n"), write("b.csv", HEAD + "1,2,3,4\n1,2,3,x\n")
    with pytest.raises(sr.InputError, match=r"b\.csv, line 3, 'x'"):
        sr.read_interactions([good, bad])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(sr.InputError, match=r"nowhere\.csv: no such file"):
        sr.read_interactions(tmp_path / "nowhere.csv")
    with pytest.raises(sr.InputError, match="folder without Netflix-Prize files"):
        sr.read_interactions(tmp_path)


@pytest.mark.parametrize("role", ["user", "item"])
def test_an_empty_name_of_users_or_items_is_no_column(write, role):
    path = write("r.csv", HEAD.replace(role, "x") + "1,2,3,4\n")
    for source in (path, pl.read_csv(path)):
        with pytest.raises(sr.InputError, match=f"no {role} column among"):
            sr.read_interactions(source, **{role: ""})


def test_a_named_column_that_is_not_there(write):
    with pytest.raises(sr.InputError, match="there is no column 'who'; found: 'user', 'item'"):
        sr.read_interactions(write("r.csv", HEAD + "1,2,3,4\n"), user="who")


def test_too_many_or_too_few_names_for_a_headerless_file(write):
    with pytest.raises(sr.InputError, match="2 column names were given, but line 1 has 4"):
        sr.read_interactions(write("r.csv", "1,2,3,4\n"), columns=["user", "item"])


def test_damaged_packages_are_not_read_as_text(write):
    with pytest.raises(sr.InputError, match="not a readable Parquet file"):
        sr.read_interactions(write("r.parquet", b"PAR1 but then nothing"))
    with pytest.raises(sr.InputError, match="damaged gzip"):
        sr.read_interactions(write("r.csv.gz", b"\x1f\x8b but then nothing"))
    with pytest.raises(sr.InputError):
        sr.read_interactions(write("r.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xd8"))


def test_frames_of_mixed_or_impossible_types():
    good = {"user": [1, 2], "item": [1, 2], "time": [1, 2]}
    with pytest.raises(sr.InputError, match="'user' mixes int and str"):
        sr.read_interactions(pd.DataFrame(good | {"user": [1, "a"]}))
    with pytest.raises(sr.InputError, match="ids must be integers or text, not fractions"):
        sr.read_interactions(pl.DataFrame(good | {"item": [1.5, 2.0]}))
    with pytest.raises(sr.InputError, match="ids must be integers or text, not Boolean"):
        sr.read_interactions(pl.DataFrame(good | {"item": [True, False]}))
    with pytest.raises(sr.InputError, match="times must be Unix times or dates"):
        sr.read_interactions(pl.DataFrame(good | {"time": [True, False]}))
    with pytest.raises(sr.InputError, match=r"1 row without a user \(first: row 2\)"):
        sr.read_interactions(pd.DataFrame(good | {"user": [1, None]}))
    with pytest.raises(sr.InputError, match="not from int"):
        sr.read_interactions(7)


def test_settings_out_of_range(write):
    path = write("r.csv", HEAD + "1,2,3,4\n")
    with pytest.raises(sr.InputError, match="min_profile_length is 0"):
        sr.read_interactions(path, min_profile_length=0)
    with pytest.raises(sr.InputError, match="no user took 2 items"):
        sr.read_interactions(path, min_profile_length=2)
    with pytest.raises(sr.InputError, match=r"unit \(s, ms, us or ns\), not '%Y'"):
        sr.read_interactions(pl.read_csv(path), time_format="%Y")


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
