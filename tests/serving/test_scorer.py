"""A wrapped model that is Python code, imported by the command line and by the server."""

import polars as pl
import pytest

import surerec as sr

MODULE = """
import numpy as np

ITEMS = list(range(60))


def alike(history):
    distances = np.abs(np.array(ITEMS)[:, None] - np.array(history)[None, :])
    return -distances.min(axis=1) - np.array(ITEMS) / 1e3
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with the module of a model, and the model folder that was saved with it."""
    place = tmp_path_factory.mktemp("shop")
    (place / "shop_models.py").write_text(MODULE)
    films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)
    rows = films.to_frame().filter(pl.len().over("user_id") > 8)
    late = pl.col("datetime").rank("ordinal", descending=True).over("user_id") <= 3
    past, future = rows.filter(~late), rows.filter(late)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        from shop_models import ITEMS, alike  # noqa: PLC0415  # written just now

    wrapped = sr.wrap(alike, items=ITEMS, covers="new-users").calibrate(past, future)
    wrapped.save(place / "films", "alike")
    return place


@pytest.fixture
def inside(shop, monkeypatch):
    """Run in the folder of the module, as its author would."""
    monkeypatch.chdir(shop)
    return sr.load("films", scorer="shop_models:alike")


def test_the_command_line_imports_it(inside, cli, tmp_path):
    scorer = ("--scorer", "shop_models:alike")
    told = cli("recommend", "films", "--history", "1,2,3,4,5", "--format", "csv", *scorer)
    assert told.code == 0
    expected = inside.recommend(history=[1, 2, 3, 4, 5]).items
    assert pl.read_csv(told.out.encode())["item_id"].to_list() == expected
    many = cli("recommend", "films", "--all", "--output", tmp_path / "picks.parquet", *scorer)
    assert many.code == 0, many.err
    assert pl.read_parquet(tmp_path / "picks.parquet").height == len(inside.recommend_many())


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("shop_models", 'Write it as "package.module:object"'),
        ("shop_model:alike", "importing shop_model failed (ModuleNotFoundError: No module"),
        ("shop_models:alik", "shop_models has no alik"),
        ("shop_models:ITEMS", "list cannot be wrapped"),
    ],
)
@pytest.mark.usefixtures("inside")
def test_a_wrong_scorer_is_named(cli, scorer, message):
    told = cli("recommend", "films", "--history", "1,2,3,4,5", "--scorer", scorer)
    told.assert_refused(message)


@pytest.mark.usefixtures("inside")
def test_without_its_scorer_the_message_says_how_to_pass_it(cli):
    told = cli("recommend", "films", "--history", "1,2,3,4,5")
    told.assert_refused("--scorer package.module:object")


def test_the_server_answers_known_and_new_users(inside, shop, start):
    server = start(shop / "films", "--workers", "2", "--scorer", "shop_models:alike")
    known = inside.statistics_.interactions.users[0]
    with server.client() as client:
        for about in ({"history": [1, 2, 3, 4, 5]}, {"user": known}):
            answer = client.post("/v1/recommendations", json={**about, "confidence": 0.8}).json()
            picks = inside.recommend(**about, confidence=0.8)
            assert [item["item_id"] for item in answer["items"]] == picks.items
            assert answer["guarantee"]["holds"] == picks.guarantee.holds
    assert server.stop() == 0
