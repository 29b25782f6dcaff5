"""Files of titles in every format."""

from __future__ import annotations

import polars as pl
import pytest

from surerec.datasets._titles import read_titles
from surerec.errors import InputError

CONTENTS = {
    "movies.csv": (
        "movieId,title,genres\r\n"
        '11,"American President, The (1995)",Comedy|Drama\r\n'
        '2,"He said ""No"", twice (2001)",Comedy\r\n'
        "7,\u2028Odd\x85 one (2020),(no genres listed)\r\n"
    ),
    "movies.dat": (
        "73::Misérables, Les (1995)::Drama|Musical\n9::Face::Off (1997)::Action\n"
        "0000008::No genres (1894)::\n"
    ),
    "u.item": (
        "543|Misérables, Les (1995)|01-Jan-1995||http://x/M?Mis%E9rables|0|0|1\n"
        "267|unknown||||1|0|0\n"
    ),
    "ml-100k.item": (
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\r\n"
        "1\tToy Story\t1995\tAnimation Comedy\r\n"
        '267\t"unkonwn\tunkonwn\tunknown\r\n'
    ),
}
ROWS = {
    "movies.csv": [
        ("11", "American President, The (1995)", "Comedy, Drama"),
        ("2", 'He said "No", twice (2001)', "Comedy"),
        ("7", "\u2028Odd\x85 one (2020)", None),
    ],
    "movies.dat": [
        ("73", "Misérables, Les (1995)", "Drama, Musical"),
        ("9", "Face::Off (1997)", "Action"),
        ("0000008", "No genres (1894)", None),
    ],
    "u.item": [("543", "Misérables, Les (1995)", "Adventure"), ("267", "unknown", None)],
    "ml-100k.item": [
        ("1", "Toy Story (1995)", "Animation, Comedy"),
        ("267", '"unkonwn', None),
    ],
}


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("movies.csv", "utf-8-sig"), ("movies.dat", "utf-8"), ("movies.dat", "latin-1"),
        ("u.item", "latin-1"), ("ml-100k.item", "utf-8"),
    ],
)  # fmt: skip
def test_titles_and_genres_are_read(tmp_path, name, encoding):
    (tmp_path / name).write_bytes(CONTENTS[name].encode(encoding))
    found = read_titles(tmp_path / name)
    assert found.rows() == ROWS[name]
    assert found.columns == ["item_id", "title", "genres"]


def test_products_have_their_most_specific_type(tmp_path):
    frame = pl.DataFrame(
        {
            "product_id": [26190, 26093, 26081],
            "department": ["GROCERY", "PASTRY", "MISCELLANEOUS"],
            "product_category": ["FRUIT", "BREAD", None],
            "product_type": ["APPLE SAUCE", None, None],
            "package_size": [" 50 OZ", None, None],
        }
    )
    frame.write_parquet(tmp_path / "products.parquet")
    assert read_titles(tmp_path / "products.parquet").rows() == [
        ("26190", "APPLE SAUCE (50 OZ)", "Grocery"),
        ("26093", "BREAD", "Pastry"),
        ("26081", "MISCELLANEOUS", "Miscellaneous"),
    ]
    (tmp_path / "products.parquet").write_bytes(b"no Parquet")
    with pytest.raises(InputError, match="is not a file of titles"):
        read_titles(tmp_path / "products.parquet")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("movies.csv", "a,b\n1,2\n"),
        ("movies.csv", 'movieId,title\n1,"open\n'),
        ("movies.dat", "1,Toy Story\n"),
        ("u.item", "1\tToy Story\n"),
        ("movie_titles.csv", "1\n"),
        ("x.item", ""),
        ("x.item", "item_id:token\tmovie_title:token\n1\n"),
    ],
)
def test_another_format_raises(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=name):
        read_titles(path)
