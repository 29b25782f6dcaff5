"""Models as arrays: saved, loaded without their library, and checked at loading."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import surerec as sr
from surerec.adapters import Factors, ItemItem
from surerec.measures import State
from surerec.recommenders import to_spec

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"implicit", "rectools", "lenskit", "pandas", "torch"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
from surerec.cli import main
sys.argv[0] = "surerec"
main()
"""


@pytest.fixture(scope="module")
def saved(films, tmp_path_factory):
    """A wrapped model of implicit and its folder."""
    als = pytest.importorskip("implicit.als", reason="wrapping implicit needs it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # implicit warns of BLAS
        sure = sr.wrap(als.AlternatingLeastSquares(8, random_state=1, iterations=3)).fit(films)
    folder = tmp_path_factory.mktemp("saved") / "model"
    sure.save(folder)
    return sure, folder


def test_the_command_line_recommends_without_the_library(saved, films):
    sure, folder = saved
    user = films.users[3]
    command = [sys.executable, "-c", BLOCKED, "recommend", str(folder), "--user", str(user)]
    asked = [*command, "--confidence", "0.8", "--format", "json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    items = [row["item_id"] for row in json.loads(done.stdout)["items"]]
    assert items == sure.recommend(user, confidence=0.8).items


@pytest.mark.parametrize(
    "spoil",
    [
        {"model_users": np.zeros((3, 8), np.float32)},
        {"model_items": np.zeros((200, 8), np.float32)},
        {"model_items": np.full((80, 8), np.nan, np.float32)},
        {"model_items": np.zeros((80, 7), np.float32)},
        {"model_items": np.zeros((80, 8), np.int64)},
        {"model_items": np.zeros(80, np.float32)},
        {"model_folding": np.array([0.1, -1.0])},
        {"model_folding": np.array([np.nan, 1.0])},
        {"model_folding": np.array([0.1])},
        {"rows": np.full(400, 399)},
        {"model": {"item-item": "ALS"}},
        {"model": {"gossip": "ALS"}},
        {"model": {"factors": 7}},
        {"model": {}},
    ],
)
def test_invalid_saved_factors_are_refused(saved, spoil):
    sure = saved[0]
    spec = to_spec(sure)
    params = {**spec.params, "model": spoil.pop("model", spec.params["model"])}
    arrays = {**spec.state.arrays, **{f"scorer_{name}": value for name, value in spoil.items()}}
    assert arrays.keys() == spec.state.arrays.keys()
    with pytest.raises((ValueError, KeyError)):
        type(sure)(**params)._restore(sure.statistics_, State(arrays, spec.state.texts))


def test_invalid_saved_weights_are_refused():
    parts = ItemItem(csr_matrix(np.eye(4))).state().arrays
    assert ItemItem.from_state(State(parts)).score_histories([np.array([2])]).tolist() == [
        [0, 0, 1, 0]
    ]
    for name, value in [
        ("columns", np.array([0, 1, 2, 4])),
        ("columns", np.array([0, 1, 2, -1])),
        ("columns", np.array([0.0, 1, 2, 3])),
        ("offsets", np.array([0, 1, 2, 3, 9])),
        ("offsets", np.array([0, 3, 2, 3, 4])),
        ("offsets", np.array([0, 1, 2, 4])),
        ("weights", np.array([1.0, 1, 1])),
        ("weights", np.array([1.0, 1, 1, np.inf])),
        ("weights", np.ones((4, 3))),
        ("base", np.zeros(3)),
        ("base", np.array([0, 0, 0, np.inf])),
    ]:
        with pytest.raises(ValueError, match=r"\w"):
            ItemItem.from_state(State({**parts, name: value}))


def test_dense_and_sparse_weights_score_alike():
    weights = np.random.default_rng(1).random((6, 6)) * (np.arange(6) % 2)
    histories = [np.array([4, 1]), np.array([0, 5, 3])]
    forms = [ItemItem(weights, np.arange(6.0)), ItemItem(csr_matrix(weights), np.arange(6.0))]
    expected = [weights[each].sum(axis=0) + np.arange(6) for each in histories]
    for form in forms:
        assert form.score_histories(histories) == pytest.approx(np.array(expected))
        assert form.shares(histories[0], 3) == pytest.approx(weights[histories[0], 3])


def test_given_factors_are_wrapped_saved_and_loaded(halves, tmp_path):
    past = halves[0]
    rng = np.random.default_rng(2)
    mine = Factors(rng.random((past.n_users, 4)), rng.random((past.n_items, 4)))
    sure = sr.wrap(mine, items=past.items.ids, users=past.users.ids, name="Towers")
    sure.calibrate(*halves).save(tmp_path / "model")
    back = sr.load(tmp_path / "model")
    assert back.recommend_many(confidence=0.8).equals(sure.recommend_many(confidence=0.8))
    said = str(back.recommend(past.users[2], confidence=0.8).guarantee)
    assert "and that Towers was not trained on their future items" in said
    with pytest.raises(
        sr.InputError, match="cannot score a new user or a history, only users of its fit"
    ):
        back.recommend(history=past.items.ids[:6], confidence=0.8)


def test_invalid_arrays_are_refused():
    with pytest.raises(sr.InputError, match="users= has 2 factors and items= has 3"):
        Factors(np.ones((4, 2)), np.ones((5, 3)))
    with pytest.raises(sr.InputError, match="users= has NaN, infinite or non-float values"):
        Factors([[np.nan]], [[1.0]])
    with pytest.raises(sr.InputError, match=r"weights= has the shape \(2, 3\)"):
        ItemItem(np.ones((2, 3)))
    singular = Factors(np.ones((1, 2)), np.ones((3, 2)), folding=(0.0, 1.0))
    with pytest.raises(sr.InputError, match="Fit the model with a regularization above 0"):
        singular.score_histories([np.array([1])])
