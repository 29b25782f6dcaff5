"""What people have goes straight into `fit`: frames and files with columns of the usual names."""

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
