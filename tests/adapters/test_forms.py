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


def test_dense_and_sparse_weights_score_alike():
    weights = np.random.default_rng(1).random((6, 6)) * (np.arange(6) % 2)
    histories = [np.array([4, 1]), np.array([0, 5, 3])]
    forms = [ItemItem(weights, np.arange(6.0)), ItemItem(csr_matrix(weights), np.arange(6.0))]
    expected = [weights[each].sum(axis=0) + np.arange(6) for each in histories]
    for form in forms:
        assert form.score_histories(histories) == pytest.approx(np.array(expected))
        assert form.shares(histories[0], 3) == pytest.approx(weights[histories[0], 3])


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
