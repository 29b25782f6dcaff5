"""Parameters of estimators: valid values, and the data that can be fitted."""

import pyarrow as pa
import pytest

import surerec as sr

EVERY = [sr.PrecedenceMining, sr.TransductiveConformal, sr.InductiveConformal]
TAKEN = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, random_state=5)


@pytest.mark.parametrize(
    ("make", "wrong", "says"),
    [
        (sr.InductiveConformal, {"measure": "CM99"}, "CM1.*CM12.*NCM17"),
        (sr.InductiveConformal, {"train_share": 0}, "train_share"),
        (sr.TransductiveConformal, {"aggregate": "mean"}, "aggregate.*max.*median"),
        (sr.PrecedenceMining, {"top": 0}, "top"),
        (sr.PopulationConformal, {"guarantee": "all"}, "is 'all'; choose one of recall, hit"),
        (sr.PopulationConformal, {"horizon": 500}, "no user has 5 known items and held-out items"),
        (sr.PopulationConformal, {"segments": 0}, "segments is 0"),
        (sr.PopulationConformal, {"window": -1}, "window is -1"),
    ],
)
def test_impossible_settings_are_refused_when_fitting(make, wrong, says):
    with pytest.raises(sr.InputError, match=f"(?s){says}"):
        make(**wrong).fit(TAKEN)


@pytest.mark.parametrize("make", [*EVERY, sr.PopulationConformal])
def test_every_parameter_is_checked(make):
    for name in make().get_params():
        with pytest.raises(sr.InputError, match=name):
            make(**{name: object()}).fit(TAKEN)


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("data", [None, 7, "ml-100k", [[0, 1], [1, 0]]])
def test_only_interactions_and_statistics_can_be_fitted(make, data):
    says = "ml-100k: no such file. Use load_dataset" if data == "ml-100k" else "Interactions"
    with pytest.raises(sr.InputError, match=says):
        make().fit(data)


def test_frames_and_files_go_straight_into_fit(tmp_path):
    names = {"user_id": "customer", "item_id": "product", "datetime": "purchased_at"}
    frame = TAKEN.to_frame().rename(names)
    frame.write_csv(tmp_path / "shop.csv")
    expected = sr.InductiveConformal().fit(sr.read_interactions(frame)).p_values(7)
    for given in (frame, frame.lazy(), frame.to_pandas(), pa.table(frame), tmp_path / "shop.csv"):
        model = sr.InductiveConformal().fit(given)
        assert model.p_values(7).equals(expected)
    assert model.statistics_.interactions.name == "shop.csv"
