"""Forged folders with valid checksums."""

import shutil

import numpy as np
import pytest

import surerec as sr
from fuzz.forging import npy_bytes, replace_file
from surerec.errors import InputError
from surerec.recommenders import save_all
from tests.storage.stored_models import forge


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=80, n_items=40, n_rows=1200, random_state=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, films):
    counts = sr.count_precedence(films, strategy="bounded", memory=20_000)
    models = {
        "icrs": sr.InductiveConformal("CM12"),
        "population": sr.PopulationConformal("CM12", window=200),
        "crs": sr.TransductiveConformal(),
        "mining": sr.PrecedenceMining(top=1),
    }
    folder = tmp_path_factory.mktemp("whole") / "model"
    save_all(folder, {name: model.fit(counts) for name, model in models.items()})
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "model")
    return tmp_path / "model"


def forge_array(folder, role, change):
    def replaced(card):
        name = next(name for name in card["files"] if name.startswith(f"{role}-"))
        array = np.load(folder / name).copy()
        replace_file(folder, card, name, npy_bytes(change(array)))

    forge(folder, replaced)


def with_value(place, value):
    def change(array):
        array.reshape(-1)[place] = value
        return array

    return change


def refuses(folder, name=None, match="damaged"):
    for verify in (True, False):
        with pytest.raises(InputError, match=match) as refusal:
            sr.load(folder, name, verify=verify)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("role", "change"),
    [
        ("item_codes", with_value(slice(0, 2), 1)),  # twice in one profile
        ("item_codes", with_value(7, 40)),
        ("offsets", with_value(3, 10**6)),
        ("offsets", with_value(3, -(2**63))),
        ("following_starts", with_value(9, 2**32 - 1)),
        ("following_starts", with_value(slice(None), 0)),  # spans over all profiles
        ("followers_held_slots", with_value(0, 2**40)),
        ("followers_held_offsets", with_value(-1, 2**40)),
        ("support", with_value(0, 2**32 - 1)),
        ("times", lambda array: array.astype(">i8")),
        ("predecessors_held_dense", lambda array: array.astype(np.float64)),
    ],
)
def test_forged_arrays_are_refused(folder, role, change):
    forge_array(folder, role, change)
    refuses(folder)


@pytest.mark.parametrize(
    ("strategy", "role", "change"),
    [
        ("dense", "followers", lambda array: array[:, :-1].copy()),
        ("dense", "predecessors", lambda array: array.astype(np.int64)),
        ("bounded", "following_stops", with_value(slice(None), 10**6)),
        ("bounded", "preceding_offsets", with_value(1, -1)),
    ],
)
def test_forged_rows_of_other_kinds_are_refused(films, tmp_path, strategy, role, change):
    counts = sr.count_precedence(films, strategy=strategy)
    sr.InductiveConformal("CM12").fit(counts).save(tmp_path / "model")
    forge_array(tmp_path / "model", role, change)
    refuses(tmp_path / "model")


@pytest.mark.parametrize("value", [0, 39, 40, 2**32 - 1])
def test_forged_items_of_held_rows_answer(folder, value):
    forge_array(folder, "followers_held_items", with_value(slice(None), value))
    assert sr.load(folder).recommend(1, confidence=0.8) is not None


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("population", "groups", 10**9),
        ("population", "groups", True),
        ("population", "window", 1e300),
        ("population", "horizon", 10**30),
        ("population", "other", 1),
        ("icrs", "random_state", 2**64),
        ("icrs", "top", None),
        ("icrs", "train_share", 1e300),
        ("icrs", "measure", {"own": "x"}),
        ("mining", "top", 0.5),
        ("crs", "aggregate", ["max"]),
    ],
)
def test_forged_parameters_are_refused(folder, name, setting, value):
    forge(folder, lambda card: card["recommenders"][name]["params"].update({setting: value}))
    refuses(folder, name, match=f"{setting}|scorer|measure")


def test_a_window_beyond_the_largest_date_never_ends(folder):
    def replaced(card):
        name = card["recommenders"]["population"]["arrays"]["calibration_period"]
        replace_file(folder, card, name, npy_bytes(np.array([0, 2**63 - 1])))

    forge(folder, replaced)
    model = sr.load(folder, "population")
    assert model.model_.valid_until.year == 9999
    assert model.recommend(1, confidence=0.8).guarantee
