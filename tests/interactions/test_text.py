"""Text parsed as numbers gives what reading its cells as text gives, or is left to that."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import surerec as sr

CSV = "user,item,rating,time\n3,20,4,300\n1,20,2.5,100\n3,10,3,200\n"
FILMS = "7:\n30,4,2005-09-06\n41,3,2005-09-05\n\n8:\n30,1,2004-01-01\n"


def outcome(source, *, numbers=True, **settings):
    """Return all that there is to interactions, or the message of the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surerec.interactions._text._WORTHWHILE", 0)
        if not numbers:
            patch.setattr("surerec.interactions._text._read_numbers", lambda *_: None)
            patch.setattr("surerec.interactions._sources.table_from_films", lambda _: None)
        try:
            read = sr.read_interactions(source, **settings)
        except sr.InputError as error:
            return str(error)
    arrays = (read.offsets, read.item_codes, read.times)
    ids = (read.users.ids, read.items.ids)
    return (
        [array.tolist() for array in arrays],
        [array.dtype for array in arrays],
        [(column.dtype, column.to_list()) for column in ids],
        read.rows_read,
    )


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace("\n", "\r\n"),
        CSV.rstrip("\n"),
        CSV.replace(",", "\t"),
        CSV.replace(",", "::"),
        f"\n{CSV}",
        "\ufeff" + CSV,
        CSV.replace("300", "9" * 18),
        CSV.replace("\n1,20,2.5,100", "\n"),
        "name,user,item,time\nJosé,1,2,3\n,1,4,5\n",
        '"user","item","time"\n1,2,5\n',
        'user,item,time,say\n1,2,3,"a\n4,5,6,b"\n',
        "user,item,time\n1,2,3\r4,5,6\r",
        FILMS,
        FILMS.replace(",4,", ",,"),
        FILMS.replace("-06", "-31"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_numbers_are_what_their_texts_are(write, text, encoding):
    path = write("r.csv", text.encode(encoding, errors="replace"))
    for settings in ({}, {"skip_bad": True}, {"rating_above": None}):
        assert outcome(path, **settings) == outcome(path, numbers=False, **settings)


@pytest.mark.parametrize("rating_above", [None, 3.0])
def test_a_folder_of_films_is_read_like_its_files_one_by_one(tmp_path, rating_above):
    rng = np.random.default_rng(2)
    for film in range(1, 30):
        rows = zip(rng.integers(1, 9, film), rng.integers(1, 6, film), strict=True)
        lines = [f"{user},{rating},200{film % 10}-0{rating}-1{rating}" for user, rating in rows]
        end = "\n" if film % 2 else ""  # not every file ends with a newline
        (tmp_path / f"mv_{film:07}.txt").write_text(f"{film}:\n" + "\n".join(lines) + end)
    expected = outcome(tmp_path, numbers=False, rating_above=rating_above)
    assert outcome(tmp_path, rating_above=rating_above) == expected
    assert expected[3].rows == sum(range(1, 30))


def test_a_bad_row_of_a_folder_is_named_with_its_file_and_line(tmp_path):
    (tmp_path / "mv_0000001.txt").write_text("1:\n5,3,2005-01-01\n")
    (tmp_path / "mv_0000002.txt").write_text("2:\n6,3,2005-01-01\n7,x,2005-01-01\n")
    assert "mv_0000002.txt:3: cannot parse rating 'x'" in outcome(tmp_path)
    (tmp_path / "mv_0000002.txt").write_text("6,3,2005-01-01\n")  # of no film
    assert outcome(tmp_path) == outcome(tmp_path, numbers=False)


cell = st.one_of(
    st.integers(0, 30).map(str),
    st.integers(-3, 10**19).map(str),
    st.floats(0, 5).map(lambda x: f"{x:.2f}"),
    st.dates().map(str),
    st.datetimes().map(lambda t: t.isoformat(" ", "seconds")),
    st.sampled_from(["", "007", "+7", "-0", "2.", "nan", "1e3", '"04"', " 5", "5:", "2005-02-29"]),
)
line = st.lists(st.integers(0, 9).map(str), min_size=4, max_size=4)
odd_line = st.lists(cell, min_size=3, max_size=5)


@given(st.lists(st.one_of(line, line, line, odd_line), min_size=1))
@example([["1", "2", "3", "4"]])
def test_whatever_the_text_both_readers_agree(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("text") / "r.csv"
    rows = "".join(",".join(cells) + "\n" for cells in lines)
    path.write_text("user,item,rating,time\n" + rows)
    assert outcome(path) == outcome(path, numbers=False)


def test_the_first_field_of_a_file_without_a_header_may_be_padded(write):
    path = write("r.csv", "007,5,1\n8,6,2\n")
    read = outcome(path, columns=["user", "item", "time"])
    assert next(ids for _, ids in read[2]) == ["007", "8"]
