"""Plain text parsed in blocks gives what reading it cell by cell gives, or is left to that."""

from contextlib import contextmanager
from datetime import date
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import surerec as sr
from surerec.interactions import _plain, _reading

CSV = "user,item,rating,time\n3,20,4,300\n1,20,2.5,100\n3,10,3,200\n"
SETTINGS = {"columns": None, "time_format": None, "threshold": 0.0}
FILMS = "7:\n30,4,2005-09-06\n41,3,2005-09-05\n\n8:\n30,1,2004-01-01\n"


@contextmanager
def blocks_of(n_bytes):
    """Parse files of any size, in such blocks; without a size, none."""
    with pytest.MonkeyPatch.context() as patch:
        if n_bytes is None:
            patch.setattr(_reading, "plain_table", lambda *_, **__: None)
        else:
            patch.setattr(_plain, "_WORTHWHILE", 0)
            patch.setattr(_plain, "_BLOCK", n_bytes)
        yield


def outcome(source, n_bytes, **settings):
    """Give all that there is to interactions, or what is said against them."""
    with blocks_of(n_bytes):
        try:
            read = sr.read_interactions(source, **settings)
        except sr.InputError as error:
            return str(error)
    arrays = (read.offsets, read.items_taken, read.times)
    ids = (read.users.ids, read.items.ids)
    return (
        [array.tolist() for array in arrays],
        [array.dtype for array in arrays],
        [(column.dtype, column.to_list()) for column in ids],
        read.rows_read,
    )


def is_plain(path, n_bytes=1 << 24, **settings):
    with blocks_of(n_bytes):
        found = _plain.plain_table([path], {}, **SETTINGS | settings)
    return found is not None


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace("\n", "\r\n"),
        CSV.rstrip("\n"),
        CSV.replace(",", "\t"),
        CSV.replace(",", "::"),
        "user,item,time\n1,2,2005-09-06\n1,3,1969-02-28T23:59:59\n",
        "user,item,time\n1,2,2000-02-29\n1,3,2004-02-29\n1,4,2099-12-31\n",
        "name,user,item,time\nJosé,1,2,3\n,1,4,5\n",
        "user,item,time,rating\n1,2,5,-1\n1,3,5,0.30000000000000\n",
        '"user","item","time"\n1,2,5\n',
        FILMS,
        FILMS.replace("\n", "\r\n"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_plain_text_is_parsed_in_blocks(write, text, encoding):
    path = write("r.csv", text.encode(encoding))
    assert is_plain(path)
    expected = outcome(path, None)
    assert not isinstance(expected, str)
    for n_bytes in (1, 12, 1 << 24):
        assert outcome(path, n_bytes) == expected


@pytest.mark.parametrize(
    "text",
    [
        CSV.replace("20", "020"),
        CSV.replace("20", "+20"),
        CSV.replace("20", "-20"),
        CSV.replace("20", " 20"),
        CSV.replace("20", '"20"'),
        CSV.replace("20", "9" * 19),
        CSV.replace("2.5", "2."),
        CSV.replace("2.5", "0.1234567890123456"),
        CSV.replace("2.5", "nan"),
        CSV.replace("300", ""),
        CSV.replace("300", "300,1"),
        CSV.replace("300", "300.5"),
        CSV.replace("300", "2005-09-06"),
        CSV.replace("\n1,20,2.5,100", "\n"),
        f"\n{CSV}",
        "user,item,time\n1,2,2005-02-29\n",
        "user,item,time\n1,2,1900-02-29\n",
        "user,item,time\n1,2,3\r4,5,6\r",
        "user,item,time\n1,2,2005-09-06 24:00:00\n",
        "user,item,time\n1,2,2005-09-06 10:00\n",
        "user,item,time\n1,2,05-09-06\n",
        'user,item,time,say\n1,2,3,"a\n4,5,6,b"\n',
        "user,item,time\n1,2\n",
        FILMS.replace("8:", "08:"),
        FILMS.replace("8:", "3000000000:"),
        FILMS.replace("30,", "030,"),
        FILMS.replace(",4,", ",,"),
        FILMS.replace("-06", "-31"),
        FILMS.replace("8:\n", "8: \n"),
        "\ufeff" + CSV,
    ],
)
def test_odd_text_is_left_to_whoever_reads_it_with_care(write, text):
    path = write("r.csv", text.encode())
    assert not is_plain(path)
    for settings in ({}, {"skip_bad": True}, {"threshold": None}):
        assert outcome(path, 1 << 24, **settings) == outcome(path, None, **settings)


def test_times_out_of_range_are_complained_about_with_their_line(write):
    path = write("r.csv", CSV.replace("300", "9" * 18))
    assert is_plain(path)
    said = outcome(path, 1 << 24)
    assert "first: line 2, '999999999999999999'" in said
    assert said == outcome(path, None)


def test_a_pattern_of_dates_is_left_to_whoever_knows_patterns(write):
    path = write("r.csv", "user,item,time\n1,2,2005\n")
    assert is_plain(path, time_format="s")
    assert not is_plain(path, time_format="%Y")
    assert outcome(path, 1, time_format="ms") == outcome(path, None, time_format="ms")


@pytest.mark.parametrize("threshold", [None, 0.0, 3.0])
@pytest.mark.parametrize("n_bytes", [1, 40, 100, 1 << 24])
def test_a_folder_of_films_is_read_like_its_files_one_by_one(tmp_path, n_bytes, threshold):
    rng = np.random.default_rng(2)
    for film in range(1, 30):
        rows = zip(rng.integers(1, 9, film), rng.integers(1, 6, film), strict=True)
        lines = [f"{user},{rating},200{film % 10}-0{rating}-1{rating}" for user, rating in rows]
        end = "\n" if film % 2 else ""  # not every file ends with a newline
        (tmp_path / f"mv_{film:07}.txt").write_text(f"{film}:\n" + "\n".join(lines) + end)
    expected = outcome(tmp_path, None, threshold=threshold)
    assert outcome(tmp_path, n_bytes, threshold=threshold) == expected
    assert expected[3].rows == sum(range(1, 30))


def test_a_film_belongs_to_its_own_file_only(tmp_path):
    (tmp_path / "mv_0000001.txt").write_text("1:\n5,3,2005-01-01\n")
    (tmp_path / "mv_0000002.txt").write_text("6,3,2005-01-01\n")
    assert outcome(tmp_path, 1 << 24) == outcome(tmp_path, None)


def test_a_file_that_shrinks_while_it_is_read_is_left_to_others(write):
    path = write("r.csv", CSV)
    assert _plain._text([(path, 0, len(CSV) + 1)], None) is None


cell = st.one_of(
    st.integers(0, 30).map(str),
    st.integers(-3, 10**19).map(str),
    st.floats(0, 5).map(lambda x: f"{x:.2f}"),
    st.dates().map(str),
    st.datetimes().map(lambda t: t.isoformat(" ", "seconds")),
    st.sampled_from(["", "007", "ann", "1e3", '"4"', " 5", "5:", "1969-12-31"]),
)
line = st.lists(st.integers(0, 9).map(str), min_size=4, max_size=4)
odd_line = st.lists(cell, min_size=3, max_size=5)


@given(
    st.lists(st.one_of(line, line, line, odd_line), min_size=1), st.integers(1, 40), st.booleans()
)
@example([["1", "2", "3", "4"]], 1, True)
def test_whatever_the_text_both_readers_say_the_same(tmp_path_factory, lines, n_bytes, film):
    path = tmp_path_factory.mktemp("text") / "r.csv"
    text = "".join(",".join(cells) + "\n" for cells in lines)
    if film:
        text = "3:\n" + "".join(f"{user},{item},{time}\n" for user, item, time, *_ in lines)
    else:
        text = "user,item,rating,time\n" + text
    path.write_text(text)
    assert outcome(path, n_bytes) == outcome(path, None)


@given(st.decimals(0, 10**9, places=5), st.dates())
@example(Decimal("0.1"), date(2000, 2, 29))
@example(Decimal("0.1"), date(2099, 12, 31))
@example(Decimal("0.1"), date(2100, 1, 1))
def test_numbers_and_dates_are_those_of_python(tmp_path_factory, number, day):
    path = tmp_path_factory.mktemp("text") / "r.csv"
    path.write_text(f"user,item,rating,time\n1,2,{number},{day}\n")
    with blocks_of(1):
        found = _plain.plain_table([path], {}, **SETTINGS)
    if not 1900 <= day.year < 2100:
        assert found is None
        return
    assert found.frame["rating"].to_list() == [float(number)]
    assert found.frame["time"].cast(pl.Date).to_list() == [day]
