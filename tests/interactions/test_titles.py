"""Item titles, from a column of the interactions or from another source."""

import pandas as pd
import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError

ORDERS = (
    "customer,sku,name,bought_at,qty\n"
    "c1,10,Lamp,2024-01-01,1\n"
    "c1,20,Vase,2024-01-02,1\n"
    'c2,10,"Lamp, red",2024-01-03,2\n'
    "c2,20,Vase,2024-01-04,1\n"
    "c3,10,Lamp,2024-01-05,1\n"
    "c3,30,,2024-01-06,1\n"
    "c3,20,damaged,2024-01-07,-4\n"
    "c1,40,Old name,2024-01-05,1\n"
    "c2,40, New name ,2024-01-06,1\n"
    "c3,40,Old name,2023-01-01,-1\n"
)


@pytest.fixture
def orders(write):
    return write("orders.csv", ORDERS)


def by_id(interactions):
    return dict(zip(interactions.items.ids, interactions.titles, strict=True))


def read(orders, **titles):
    return sr.read_interactions(orders, rating="qty", **titles)


def test_a_title_column_gives_the_most_frequent_or_latest_title(orders):
    found = read(orders, title="name")
    assert by_id(found) == {10: "Lamp", 20: "Vase", 30: None, 40: "New name"}
    assert found.titles_read == sr.interactions.TitlesRead(items=4, titled=3)
    assert found.title(found.items.code(30)) == "30"  # the id
    assert found.rows_read.bad == 0  # titles are optional


def test_a_title_column_of_mixed_types_is_text(orders):
    frame = pl.read_csv(orders, try_parse_dates=True).to_pandas()
    frame["name"] = frame["name"].replace("Vase", 7).astype(object)
    found = by_id(read(frame, title="name"))
    assert found == {10: "Lamp", 20: "7", 30: None, 40: "New name"}


TITLES = {10: "Lamp", 20: "Vase", 99: "Never sold", 98: None}
EXPECTED = {10: "Lamp", 20: "Vase", 30: None, 40: None}


SOURCES = {
    "dict": lambda _: TITLES,
    "dict of text": lambda _: {str(key): title for key, title in TITLES.items()},
    "Series of floats": lambda _: pd.Series(TITLES.values(), index=[10.0, 20.0, 99.0, 98.0]),
    "pandas": lambda _: pd.DataFrame(
        {"sku": [10.0, 20.0, 99.0, None], "name": ["Lamp", "Vase", "x", "y"]}
    ),
    "polars": lambda _: pl.DataFrame({"item_id": [10, 20, 99], "title": ["Lamp", "Vase", "x"]}),
    "csv": lambda write: write("products.csv", "product,label\n10,Lamp\n20,Vase\n99,Never sold\n"),
    "csv text": lambda write: str(write("t.csv", "sku;product_name\n 10 ;Lamp\n20; Vase\n99;x\n")),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
def test_titles_from_other_sources_match_by_id(orders, write, kind):
    found = read(orders, titles=SOURCES[kind](write))
    assert by_id(found) == EXPECTED
    assert found.titles_read == sr.interactions.TitlesRead(items=4, titled=2, unknown=1)
    assert str(found.titles_read) == (
        "2 of 4 items have a title; 1 title has no interactions and was skipped"
    )


def test_text_ids_and_a_column_with_another_name(write):
    consumed = pl.DataFrame({"u": [1, 1], "article": ["007", "A/8"], "ts": [1, 2]})
    titles = write("products.csv", "article,bezeichnung\n007,Bond\nA/8,Chair\n7,Seven\n")
    found = sr.read_interactions(consumed, user="u", titles=titles, title="bezeichnung")
    assert by_id(found) == {"007": "Bond", "A/8": "Chair"}
    assert found.titles_read.unknown == 1
    # The column of items has another name here than in the interactions.
    other = write("other.csv", "sku,title\n007,Bond\n")
    found = sr.read_interactions(consumed, user="u", item="article", titles=other)
    assert by_id(found) == {"007": "Bond", "A/8": None}


@pytest.mark.parametrize("titles", [{10: "Lamp", 2.5: "x"}, "sku,title\n10,Lamp\n20,\n"])
def test_float_ids_of_pandas_match_integers(write, titles):
    consumed = write("log.csv", "user,sku,time\n1,10.0,1\n1,20.0,2\n")
    given = write("products.csv", titles) if isinstance(titles, str) else titles
    assert by_id(sr.read_interactions(consumed, titles=given)) == {10: "Lamp", 20: None}


def test_the_most_frequent_title_of_an_item_is_used(orders, write):
    titles = write("products.csv", "sku,title\n10,Lamp\n10,Lamp 2\n10,Lamp\n20,Vase\n20,Vase 2\n")
    assert by_id(read(orders, titles=titles)) == {10: "Lamp", 20: "Vase 2", 30: None, 40: None}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"title": "nam"}, "no column 'nam'. Use one of its columns: 'customer', 'sku', 'name'"),
        ({"titles": "missing.csv"}, "missing.csv: no such file"),
        ({"titles": 5}, "titles is 5; it must be a mapping"),
        ({"titles": "sqlite:///shop.db"}, "titles cannot be read from a database"),
        ({"titles": {10: "x"}, "title": "name"}, "Leave out title="),
        ({"titles": pl.DataFrame({"sku": [1], "colour": ["red"]})}, "no title column among 'sku'"),
        ({"titles": pl.DataFrame({"a": [1], "title": ["red"]})}, "no item column among 'a'"),
    ],
)
def test_invalid_titles_are_refused(orders, given, said):
    with pytest.raises(InputError, match=said):
        read(orders, **given)


def test_a_file_of_titles_needs_column_names(orders, write):
    with pytest.raises(InputError, match=r"data instead of column names.* add a header line"):
        read(orders, titles=write("products.csv", "10,Lamp\n20,Vase\n"))
