"""Models of RecBole, wrapped: the same scores, and correct declarations of whom they score."""

from functools import partial

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.adapters import adapt
from surerec.calibration import profile_cases
from surerec.testing import CHECKS, ModelUnderTest
from tests.adapters.checks import EPSILON, QUICK, check_calibrated_and_saved, check_page, missed

pytest.importorskip("recbole", reason="wrapping RecBole needs it: make test-adapters")

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.utils import get_model, get_trainer, init_seed

# RecBole warns of pandas to come, of long histories, and of its own tensors.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = ["BPR", "Caser", "EASE", "GRU4Rec", "ItemKNN", "MultiVAE", "NeuMF", "SASRec"]
SEQUENTIAL = {"Caser", "GRU4Rec", "SASRec"}
FOLDS_IN = set(NAMES) - {"BPR", "Caser", "NeuMF"}
KNOWS_USERS = {"BPR", "Caser", "MultiVAE", "NeuMF"}
STORED = {"BPR", "EASE", "ItemKNN"}
SIZES = {"embedding_size": 8, "hidden_size": 8, "inner_size": 8, "n_layers": 1}
SIZES |= {"latent_dimension": 8, "mlp_hidden_size": [8], "MAX_ITEM_LIST_LENGTH": 10}


@pytest.fixture(scope="module")
def trained(halves, tmp_path_factory):
    """Return a model that RecBole trained on the past but its last items, with both datasets."""
    folder = tmp_path_factory.mktemp("data") / "past"
    folder.mkdir()
    seconds = pl.col("datetime").dt.epoch("s").alias("timestamp:float")
    ids = pl.col("user_id", "item_id").name.suffix(":token")
    halves[0].to_frame().select(ids, seconds).write_csv(folder / "past.inter", separator="\t")
    options = {"data_path": str(folder.parent), "epochs": 1, "show_progress": False, **SIZES}
    options |= {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "state": "ERROR"}
    options["eval_args"] = {"split": {"LS": "valid_only"}, "order": "TO", "mode": "full"}
    found = {}

    def of(name):
        if name not in found:
            sampling = {"train_neg_sample_args": None} if name in SEQUENTIAL else {}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", ["recbole"])  # which it reads
                patch.chdir(folder)  # where it writes
                config = Config(model=name, dataset="past", config_dict=options | sampling)
                init_seed(0, reproducibility=True)
                dataset = create_dataset(config)
                train, valid, _ = data_preparation(config, dataset)
                model = get_model(name)(config, train.dataset)
                get_trainer(config["MODEL_TYPE"], name)(config, model).fit(train, saved=False)
            found[name] = (model, dataset), train.dataset, valid
        return found[name]

    return of


def histories_of(data, indices):
    items = data.inter_feat["item_id"].numpy()
    owners = data.inter_feat["user_id"].numpy()
    return [np.unique(items[owners == index]) - 1 for index in indices]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_recbole(name, trained):
    pair, train, valid = trained(name)
    model, adapter = pair[0].eval(), adapt(pair)
    n_items, indices = len(adapter.catalogue) + 1, np.arange(1, 13)
    with torch.no_grad():
        if name in SEQUENTIAL:  # RecBole's own sequences of all but the last item
            asked = next(iter(valid))[0][np.arange(12)]
            theirs = model.full_sort_predict(asked)
            pairs = zip(asked["item_id_list"].numpy(), asked["item_length"].tolist(), strict=True)
            histories = [listed[:length].astype(np.int64) - 1 for listed, length in pairs]
            ours = (
                adapter.score_both(asked["user_id"].numpy() - 1, histories)
                if name == "Caser"
                else adapter.score_histories(histories)
            )
        else:
            users = torch.arange(1, 13).repeat_interleave(n_items)
            every = Interaction({"user_id": users, "item_id": torch.arange(n_items).repeat(12)})
            theirs = model.predict(every)
            ours = adapter.score_users(indices - 1) if name in KNOWS_USERS else None
            if name in FOLDS_IN:
                of_histories = adapter.score_histories(histories_of(train, indices))
                assert ours is None or of_histories == pytest.approx(ours, rel=1e-4, abs=1e-5)
                ours = of_histories
    expected = torch.as_tensor(theirs).reshape(12, n_items)[:, 1:].numpy()  # without padding
    assert ours == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_folding_in_is_declared(name, trained):
    adapter = adapt(trained(name)[0])
    assert adapter.folds_in == (name in FOLDS_IN)
    assert adapter.knows_users == (name in KNOWS_USERS)
    assert adapter.uses_both == (name == "Caser")
    assert (adapter.form is not None) == (name in STORED)


@pytest.mark.parametrize("name", NAMES)
def test_a_trained_model_is_calibrated_and_saved(name, trained, halves, tmp_path):
    pair, user = trained(name)[0], halves[0].users[3]
    pair[0].train()
    sure = sr.wrap(pair, covers="fit").calibrate(*halves)
    best = sure.recommend(user, confidence=0.6).items[0]
    assert type(best) is int  # tokens of RecBole are text
    scorer = None if name in STORED else pair
    check_calibrated_and_saved(sure, pair, user, best, tmp_path / "model", scorer)
    assert pair[0].training


@pytest.mark.parametrize("name", ["BPR", "Caser", "GRU4Rec", "MultiVAE"])
def test_the_guarantee_holds_for_users_who_did_not_calibrate(name, trained, films, halves):
    cases = profile_cases(films, 0.4)
    tested = cases[np.random.default_rng(1).permutation(len(cases))[: len(cases) // 2]]
    future = halves[1].without_users(tested.users)
    sure = sr.wrap(trained(name)[0], covers="fit").calibrate(halves[0], future)
    loss, holds = missed(sure, tested, "user")
    assert all(holds)
    assert abs(loss - EPSILON) < 0.05


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", ["BPR", "Caser", "EASE", "GRU4Rec", "MultiVAE", "NeuMF"])
def test_the_contract(name, check, trained, halves, tmp_path):
    pair = trained(name)[0]
    scorer = None if name in STORED else pair
    wrap = partial(sr.wrap, pair, covers="fit")
    CHECKS[check](ModelUnderTest(wrap, halves[0], future=halves[1], scorer=scorer), tmp_path)


def test_invalid_models_and_requests_are_refused(trained, halves):
    pair = trained("BPR")[0]
    for given in (pair[0], (pair[0],), (pair[0], halves[0])):
        with pytest.raises(sr.InputError, match=r"needs its dataset.*: wrap\(\(model, dataset\)\)"):
            sr.wrap(given).calibrate(*halves)
    with pytest.raises(sr.InputError, match="Random of RecBole scores at random"):
        sr.wrap(trained("Random")[0]).calibrate(*halves)
    with pytest.raises(sr.InputError, match="BPR is fitted already, and surerec cannot fit a copy"):
        sr.wrap(pair).fit(halves[0])
    with pytest.raises(sr.InputError, match="cannot score a new user or a history"):
        sr.wrap(pair).calibrate(*halves).recommend(history=[1, 2, 3, 4, 5], confidence=0.8)


def test_the_examples_print_what_the_page_says(tmp_path):
    check_page(tmp_path, "RecBole", 1)
