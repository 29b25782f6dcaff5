"""What people have goes straight into `fit`: frames and files with columns of the usual names."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import surerec as sr

TAKEN = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, seed=5)
FRAME = TAKEN.to_frame().rename(
    {"user_id": "customer", "item_id": "product", "datetime": "purchased_at"}
)


@pytest.fixture(scope="module")
def expected():
    return (
        sr.InductiveConformal("CM12")
        .fit(sr.read_interactions(FRAME))
        .recommend(7, confidence=0.5)
        .items
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.lazy(),
        lambda frame: frame.to_pandas(),
        pa.table,
    ],
    ids=["polars", "lazy", "pandas", "arrow"],
)
def test_frames_go_straight_into_fit(make, expected):
    model = sr.InductiveConformal("CM12").fit(make(FRAME))
    assert model.recommend(7, confidence=0.5).items == expected


def test_so_does_a_file_by_its_path(tmp_path, expected):
    FRAME.write_csv(tmp_path / "shop.csv")
    model = sr.InductiveConformal("CM12").fit(tmp_path / "shop.csv")
    assert model.recommend(7, confidence=0.5).items == expected
    assert model.statistics_.interactions.name == "shop.csv"


def test_a_promise_over_users_is_fitted_on_a_frame():
    model = sr.PopulationConformal("CM12").fit(FRAME)
    again = sr.PopulationConformal("CM12").fit(sr.read_interactions(FRAME))
    assert model.recommend(7, confidence=0.8).items == again.recommend(7, confidence=0.8).items


@pytest.mark.parametrize("given", [None, 7, [[1, 2, 3]], {"user": [1]}])
def test_what_is_no_frame_is_refused_in_one_sentence(given):
    with pytest.raises(
        sr.InputError, match=r"fit takes Interactions .* or the path of a file, not"
    ):
        sr.InductiveConformal("CM12").fit(given)


def test_a_frame_with_other_columns_says_which_it_has():
    frame = pd.DataFrame({"kunde": [1], "artikel": [2], "datum": [3]})
    with pytest.raises(sr.InputError, match="no user or item or time column among 'kunde'"):
        sr.InductiveConformal("CM12").fit(frame)
    with pytest.raises(sr.InputError, match="no item column among 'user', 'x'"):
        sr.InductiveConformal("CM12").fit(pl.DataFrame({"user": [1], "x": [2], "time": [3]}))
