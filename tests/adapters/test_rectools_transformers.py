"""Transformers of RecTools, wrapped: the same scores, for users of the fit and new users."""

import numpy as np
import pandas as pd
import pytest

import surerec as sr
from surerec.adapters import adapt
from surerec.testing import CHECKS
from tests.adapters.checks import (
    QUICK,
    check_calibrated_and_saved,
    check_copy,
    check_covered,
    check_page,
    subject_around,
)

pytest.importorskip("rectools", reason="wrapping RecTools needs it: make test-adapters")
pytest.importorskip("torch", reason="RecTools' transformers need torch")

import torch
from rectools.dataset import Dataset
from rectools.models import BERT4RecModel, HSTUModel, SASRecModel

# RecTools and Lightning warn of pandas to come, of few workers, and of logging.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {"n_blocks": 1, "n_heads": 2, "n_factors": 16, "session_max_len": 12, "epochs": 1}
MODELS = {"sasrec": SASRecModel, "bert4rec": BERT4RecModel}
NAMES = sorted(MODELS)


def make(name):
    return MODELS[name](**SIZES)


@pytest.fixture(scope="module")
def dataset(halves):
    return Dataset.construct(halves[0].to_frame().to_pandas().assign(weight=1))


@pytest.fixture(scope="module", params=NAMES)
def fitted(request, dataset):
    return make(request.param).fit(dataset)


def some_histories(adapter, past, n=20):
    columns = adapter.catalogue.codes(past.items.ids)
    return [columns[past.consumed(user)] for user in range(n)]


@pytest.mark.parametrize("shift", [0, 10_000], ids=["of the fit", "new users"])
def test_scores_are_those_of_rectools(fitted, halves, shift):
    adapter, past = adapt(fitted), halves[0]
    rows = past.to_frame().to_pandas().assign(weight=1)
    asked = Dataset.construct(rows.assign(user_id=rows["user_id"] + shift))
    users = past.users.ids[:20].to_numpy() + shift
    listed = fitted.recommend(users, asked, k=past.n_items, filter_viewed=False)
    ours = adapter.score_histories(some_histories(adapter, past))
    assert len(listed) == ours.size  # it has no padding item
    places = pd.Series(np.arange(20), index=users)[listed["user_id"]]
    columns = adapter.catalogue.codes(listed["item_id"].to_list())
    assert ours[places, columns] == pytest.approx(listed["score"].to_numpy(), rel=1e-4, abs=1e-5)


def test_one_history_and_a_batch_have_the_same_scores(fitted, halves):
    adapter = adapt(fitted)
    histories = some_histories(adapter, halves[0])
    together = adapter.score_histories(histories)
    assert all(
        np.array_equal(adapter.score_histories([history])[0], row)
        for history, row in zip(histories, together, strict=True)
    )


def test_a_fitted_model_is_calibrated_and_saved(fitted, dataset, halves, tmp_path):
    user = halves[0].users[3]
    fitted.torch_model.train()  # as training leaves it
    best = sr.wrap(fitted).calibrate(*halves).recommend(user, confidence=0.6).items[0]
    assert fitted.torch_model.training
    listed = fitted.recommend([user], dataset, k=1, filter_viewed=True)
    assert listed["item_id"].to_list() == [best]
    sure = sr.wrap(fitted, items=dataset.item_id_map, users=dataset.user_id_map).calibrate(*halves)
    check_calibrated_and_saved(sure, fitted, user, best, tmp_path / "model", fitted)


def test_a_copy_is_fitted_with_a_fixed_seed_and_the_model_is_unchanged(fitted, films, halves):
    before = torch.get_rng_state()

    def scores():
        adapter = adapt(fitted)
        return adapter.score_histories(some_histories(adapter, halves[0]))

    check_copy(type(fitted)(**SIZES), fitted, films, scores)
    assert torch.equal(torch.get_rng_state(), before)


def test_items_of_the_dropped_start_of_histories_have_no_score(films):
    sure = sr.wrap(SASRecModel(**{**SIZES, "session_max_len": 2})).fit(films)
    adapter = sure.scorer_.adapter
    scores = adapter.score_histories([np.array([0, 1]), np.array([len(adapter.catalogue) - 1])])
    without = np.isnan(scores)
    assert without.any()
    assert (without == without[0]).all()
    unscored = adapter.catalogue.ids.filter(without[0]).to_list()
    picks = sure.recommend(history=films.profile(7)["item_id"], confidence=0.99)
    assert not set(unscored) & set(picks.items)


@pytest.mark.parametrize("covers", ["fit", "new-users"])
@pytest.mark.parametrize("name", NAMES)
def test_the_guarantee_holds_for_covered_users(name, covers, many):
    check_covered(make(name), many, covers)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", NAMES)
def test_the_contract(name, check, tmp_path):
    CHECKS[check](subject_around(make, name), tmp_path)


def test_invalid_models_are_refused(fitted, halves):
    with pytest.raises(sr.NotFittedError, match=r"SASRecModel is not fitted. Fit it, or use"):
        sr.wrap(make("sasrec")).calibrate(*halves)
    with pytest.raises(sr.InputError, match="set up with times or extra columns, which a history"):
        sr.wrap(HSTUModel(**SIZES, relative_time_attention=True)).fit(halves[0])
    with pytest.raises(sr.InputError, match=r"items= lacks items that .* was trained on"):
        sr.wrap(fitted, items=[1, 2]).calibrate(*halves)


def test_the_examples_print_what_the_page_says(tmp_path):
    check_page(tmp_path, "RecTools transformers", 1)
