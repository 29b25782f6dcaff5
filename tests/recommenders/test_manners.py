"""scikit-learn manners."""

import pyarrow as pa
import pytest

import surerec as sr
from tests.recommenders.small_profiles import read

ROWS = [(user, item, (user * item) % 5) for user in range(1, 7) for item in range(1, 8)]


def answer(model):
    promise = {} if isinstance(model, sr.PrecedenceMining) else {"confidence": 0.6}
    return model.recommend(history=[2, 4, 6], **promise).to_frame()


@pytest.mark.parametrize(
    "make", [sr.PrecedenceMining, sr.TransductiveConformal, sr.InductiveConformal]
)
def test_what_is_learned_ends_in_an_underscore(make):
    fitted = make().fit(read(ROWS))
    learned = {name for name in vars(fitted) if not name.startswith("_")} - set(fitted.get_params())
    assert learned
    assert all(name.endswith("_") for name in learned)


def test_settings_can_be_changed_and_chained():
    model = sr.InductiveConformal(measure="CM3").fit(read(ROWS))
    assert model.set_params(measure="NCM16", train_share=0.7) is model
    assert model.get_params()["measure"] == "NCM16"
    fresh = sr.InductiveConformal(measure="NCM16", train_share=0.7).fit(read(ROWS))
    assert answer(model.fit(read(ROWS))).equals(answer(fresh))
    with pytest.raises((sr.InputError, ValueError), match=r"colour.*measure"):
        model.set_params(colour="red")


def test_impossible_settings_are_refused_and_change_nothing():
    model = sr.InductiveConformal("CM3")
    with pytest.raises(sr.InputError, match="train_share is 7"):
        model.set_params(train_share=7)
    assert model.train_share == 0.5


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
