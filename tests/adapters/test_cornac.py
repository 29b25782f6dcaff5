"""Models of Cornac, wrapped: the same scores, and correct declarations of whom they score."""

from functools import cache

import numpy as np
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

pytest.importorskip("cornac", reason="wrapping Cornac needs it: make test-adapters")

from cornac.data import Dataset, SequentialDataset
from cornac.models import BPR, EASE, FPMC, UPCF, MostPop, SASRec

# Cornac and torch warn of their own tensors, and of fitting again.
pytestmark = pytest.mark.filterwarnings("ignore")

MAKERS = {
    "bpr": lambda: BPR(k=8, max_iter=30, seed=1, num_threads=1),
    "ease": EASE,
    "popular": MostPop,
    "fpmc": lambda: FPMC(n_epochs=1, seed=1),
    "sasrec": lambda: SASRec(embedding_dim=8, max_len=10, n_epochs=1, batch_size=64, seed=1),
}
NAMES = sorted(MAKERS)
NEXT = {"fpmc", "sasrec"}
FOLDS_IN = {"ease", "sasrec"}
COVERED = [(name, "fit") for name in NAMES] + [(name, "new-users") for name in sorted(FOLDS_IN)]


def make(name):
    return MAKERS[name]()


@pytest.fixture(scope="module")
def fitted(halves):
    rows = list(halves[0].to_frame().iter_rows(named=True))
    times = [int(row["datetime"].timestamp()) for row in rows]
    quads = [(r["user_id"], r["item_id"], 1.0, t) for r, t in zip(rows, times, strict=True)]
    sessions = [(user, user, item, time) for user, item, _, time in quads]
    data = Dataset.from_uirt(quads), SequentialDataset.from_usit(sessions)
    return cache(lambda name: make(name).fit(data[name in NEXT]))


def scored(adapter, past, n=10):
    """Return scores of users of the fit, as a wrapped model asks for them."""
    columns, rows = adapter.catalogue.codes(past.items.ids), adapter.users.codes(past.users.ids[:n])
    histories = [columns[past.consumed(user)] for user in range(n)]
    if adapter.uses_both:
        return adapter.score_both(rows, histories)
    return adapter.score_users(rows) if adapter.knows_users else adapter.score_histories(histories)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_cornac(name, fitted, halves):
    model, past = fitted(name), halves[0]
    adapter = adapt(model)
    ours = scored(adapter, past)
    for number, row in enumerate(ours):
        user = model.uid_map[past.users[number]]
        history = [model.iid_map[past.items[code]] for code in past.consumed(number)]
        theirs = model.score(user, history) if name in NEXT else model.score(user)
        order = [model.iid_map[item] for item in adapter.catalogue.ids.to_list()]
        assert row == pytest.approx(np.ravel(theirs)[order], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_folding_in_is_declared(name, fitted):
    for model in (make(name), fitted(name)):
        adapter = adapt(model)
        assert adapter.folds_in == (name in FOLDS_IN)
        assert adapter.knows_users == (name not in FOLDS_IN)
        assert adapter.uses_both == (name == "fpmc")


@pytest.mark.parametrize("name", NAMES)
def test_a_fitted_model_is_calibrated_and_saved(name, fitted, halves, tmp_path):
    model, user = fitted(name), halves[0].users[3]
    sure = sr.wrap(model).calibrate(*halves)
    best = sure.recommend(user, confidence=0.6).items[0]
    if name not in NEXT:
        assert best == model.recommend(user, k=1, remove_seen=True, train_set=model.train_set)[0]
    scorer = None if name == "ease" else model
    check_calibrated_and_saved(sure, model, user, best, tmp_path / "model", scorer)


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_fitted_from_scratch_and_the_model_is_unchanged(name, fitted, films, halves):
    new, model = make(name), fitted(name)
    check_copy(new, model, films, lambda: scored(adapt(model), halves[0]))
    assert not new.is_fitted


@pytest.mark.parametrize(("name", "covers"), COVERED)
def test_the_guarantee_holds_for_covered_users(name, covers, many):
    check_covered(make(name), many, covers)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", ["bpr", "ease", "fpmc", "sasrec"])
def test_the_contract(name, check, tmp_path):
    CHECKS[check](subject_around(make, name), tmp_path)


def test_items_without_consumers_have_no_score(films):
    items = [*films.items.ids.to_list(), 10_001]
    sure = sr.wrap(make("bpr"), items=items).fit(films)
    assert np.isnan(sure.scorer_.adapter.score_users(np.arange(2))[:, -1]).all()
    assert 10_001 not in sure.recommend(films.users[3], confidence=0.99).items


def test_invalid_models_and_requests_are_refused(fitted, halves):
    with pytest.raises(sr.NotFittedError, match=r"MostPop is not fitted. Fit it, or use"):
        sr.wrap(MostPop()).calibrate(*halves)
    with pytest.raises(sr.InputError, match="UPCF of Cornac cannot score items for a user"):
        sr.wrap(UPCF()).fit(halves[0])
    with pytest.raises(sr.InputError, match="FPMC cannot score new users, only users of its fit"):
        sr.wrap(make("fpmc"), covers="new-users").fit(halves[0])
    sure = sr.wrap(fitted("bpr")).calibrate(*halves)
    with pytest.raises(sr.InputError, match="cannot score a new user or a history"):
        sure.recommend(history=halves[0].items.ids[:6], confidence=0.8)


def test_the_examples_print_what_the_page_says(tmp_path):
    check_page(tmp_path, "Cornac", 1)
