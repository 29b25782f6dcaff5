"""Wrapped models pass the contract tests that surerec's own recommenders pass."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.testing import CHECKS, ModelUnderTest

pytest.importorskip("implicit", reason="wrapping implicit needs it: pip install implicit")

from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.nearest_neighbours import CosineRecommender

DATA = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, seed=1)
IDS = sorted(DATA.items.ids.to_list())


def calm(make, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # implicit warns of BLAS
        return make(*arguments, **settings)


class Popular:
    """Scores by ids, in the order of the catalogue that it was fitted on."""

    def fit(self, interactions):
        self.counts = np.bincount(interactions.items_taken, minlength=interactions.n_items)

    def score(self, history):
        return self.counts / (1 + len(history))

    def value(self, scores, history_length):
        return scores * (1 + history_length)


MODELS = {
    "als": calm(AlternatingLeastSquares, 8, random_state=1, iterations=3),
    "bpr": calm(BayesianPersonalizedRanking, 8, random_state=1, num_threads=1, iterations=20),
    "cosine": CosineRecommender(),
    "own": Popular(),
}
SETTINGS = {
    "": {},
    ", hits in groups": {"promise": "hit", "horizon": 5, "groups": 2},
    ", newcomers": {"covers": "newcomers"},
    ", people of the fit": {"covers": "fit"},
}
MAKERS = {
    name + words: partial(sr.wrap, model, **settings)
    for name, model in MODELS.items()
    for words, settings in SETTINGS.items()
    if not (name == "bpr" and "newcomers" in words)
}
SUBJECTS = {name: ModelUnderTest(make, DATA) for name, make in MAKERS.items()}


def subject_of(name):
    """Return the subject, with the model that serves if only Python code has its scores."""
    subject = SUBJECTS[name]
    if not name.startswith("own"):
        return subject
    found = ModelUnderTest(subject.make, DATA, scorer=subject.fitted.wrapped_)
    found.__dict__["fitted"] = subject.fitted
    return found


QUICK = sorted(set(CHECKS) - {"served", "audited", "on Spark"})


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_contract(name, check, tmp_path):
    CHECKS[check](subject_of(name), tmp_path)


@pytest.mark.parametrize("name", ["als", "cosine", "own"])
def test_it_is_served_or_refused(name, tmp_path):
    pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")
    CHECKS["served"](subject_of(name), tmp_path)


def test_many_at_once_are_answered_as_one_by_one(monkeypatch):
    model = SUBJECTS["als, hits in groups"].fitted
    fast = model.recommend_many(confidence=0.8)
    monkeypatch.setattr(type(model.model_.calibration), "best_of_many", lambda *_: None)
    assert model.recommend_many(confidence=0.8).equals(fast)


def test_large_catalogues_are_scored_in_small_blocks(monkeypatch):
    sure = SUBJECTS["cosine"].fitted
    whole = sure.recommend_many(confidence=0.8)
    asked = []
    adapter = sure.scorer_.adapter
    ask = adapter.score_histories
    monkeypatch.setattr(
        adapter, "score_histories", lambda some: asked.append(len(some)) or ask(some)
    )
    monkeypatch.setattr("surerec.adapters._scorer._MOST_BYTES", 8 * 60 * 3)
    monkeypatch.setattr("surerec.recommenders._batch._ROWS_AT_ONCE", 60 * 10)
    scorer = sure.scorer_
    narrow = type(scorer)(
        adapter, scorer.columns, scorer.rows, by_user=scorer.by_user, knows_all=False
    )
    assert narrow.at_once == 3
    monkeypatch.setattr(sure, "model_", replace(sure.model_, scorer=narrow))
    batches = list(sure.iter_recommendations(confidence=0.8))
    assert max(asked) == 3
    assert len(batches) == 30
    assert pl.concat(batches).equals(whole)


@pytest.mark.parametrize("name", ["als", "bpr", "cosine", "own", "own, people of the fit"])
def test_it_is_audited(name, tmp_path):
    CHECKS["audited"](subject_of(name), tmp_path)


def test_an_audit_says_whom_it_is_about():
    found = audit(SUBJECTS["bpr"].fitted, n_users=60)
    assert any("not fitted on: for each promise a copy" in each for each in found.skipped)
    kept = {verdict.kind: verdict.kept for verdict in found.verdicts}
    assert kept["miss-rank"] is not False
