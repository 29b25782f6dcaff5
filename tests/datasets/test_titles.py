"""Files of titles, each with its oddities."""

from __future__ import annotations

import polars as pl
import pytest

from surerec.datasets._titles import read_titles
from surerec.errors import InputError


def titles(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))
    frame = read_titles(path)
    assert frame.columns[:2] == ["item_id", "title"]
    return dict(frame.select("item_id", "title").iter_rows())


def genres(path):
    return read_titles(path)["genres"].to_list()


def test_movies_csv_quotes_titles_with_commas(tmp_path):
    content = (
        "movieId,title,genres\r\n"
        '11,"American President, The (1995)",Comedy|Drama\r\n'
        '2,"He said ""No"", twice (2001)",Comedy\r\n'
        "29,Cité des enfants perdus (1995),Fantasy\r\n"
        "7,\u2028Odd\x85 one (2020),(no genres listed)\r\n"
    )
    assert titles(tmp_path / "movies.csv", content, "utf-8-sig") == {
        "11": "American President, The (1995)",
        "2": 'He said "No", twice (2001)',
        "29": "Cité des enfants perdus (1995)",
        "7": "\u2028Odd\x85 one (2020)",
    }
    assert genres(tmp_path / "movies.csv") == ["Comedy, Drama", "Comedy", "Fantasy", None]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_movies_dat_in_either_encoding(tmp_path, encoding):
    content = (
        "73::Misérables, Les (1995)::Drama|Musical\n"
        "9::Face::Off (1997)::Action\n"
        "0000008::No genres (1894)::\n"
    )
    assert titles(tmp_path / "movies.dat", content, encoding) == {
        "73": "Misérables, Les (1995)",
        "9": "Face::Off (1997)",
        "0000008": "No genres (1894)",
    }
    assert genres(tmp_path / "movies.dat") == ["Drama, Musical", "Action", None]


def test_u_item_is_latin_1(tmp_path):
    content = (
        "543|Misérables, Les (1995)|01-Jan-1995||http://x/M?Mis%E9rables|0|0|1\n"
        "267|unknown||||1|0|0\n"
    )
    expected = {"543": "Misérables, Les (1995)", "267": "unknown"}
    assert titles(tmp_path / "u.item", content, "latin-1") == expected
    assert genres(tmp_path / "u.item") == ["Adventure", None]


def test_recbole_items_get_their_year_back(tmp_path):
    content = (
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\r\n"
        "1\tToy Story\t1995\tAnimation Comedy\r\n"
        '267\t"unkonwn\tunkonwn\tunknown\r\n'
        "1412\tLand Before Time III\tV\tAnimation\r\n"
    )
    assert titles(tmp_path / "ml-100k.item", content) == {
        "1": "Toy Story (1995)",
        "267": '"unkonwn',
        "1412": "Land Before Time III",
    }
    assert genres(tmp_path / "ml-100k.item") == ["Animation, Comedy", None, "Animation"]


def test_products_say_the_most_exact_that_is_known(tmp_path):
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


@pytest.mark.parametrize("name", ["movie_titles.csv", "movie_titles.txt"])
def test_netflix_titles_have_bare_commas(tmp_path, name):
    content = "1,2003,Dinosaur Planet\n72,1974,At Home Among Strangers, A Stranger Among His Own\n"
    content += "4388,NULL,Café Élysée\n"
    assert titles(tmp_path / name, content, "latin-1") == {
        "1": "Dinosaur Planet",
        "72": "At Home Among Strangers, A Stranger Among His Own",
        "4388": "Café Élysée",
    }
    assert "genres" not in read_titles(tmp_path / name).columns


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("movies.csv", "a,b\n1,2\n"),
        ("movies.csv", 'movieId,title\n1,"open\n'),
        ("movies.dat", "1,Toy Story\n"),
        ("u.item", "1\tToy Story\n"),
        ("movie_titles.csv", "1\n"),
        ("x.item", ""),
        ("x.item", "a\tb\n"),
        ("x.item", "item_id:token\tmovie_title:token\n1\n"),
    ],
)
def test_another_kind_of_file_is_one_sentence(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=name):
        read_titles(path)
