"""Models of RecTools, wrapped: the same scores, and correct declarations of whom they score."""

import warnings
from datetime import timedelta
from functools import cache

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

from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.nearest_neighbours import CosineRecommender, TFIDFRecommender
from rectools.dataset import Dataset
from rectools.models import (
    EASEModel,
    ImplicitALSWrapperModel,
    ImplicitBPRWrapperModel,
    ImplicitItemKNNWrapperModel,
    PopularModel,
    PureSVDModel,
    RandomModel,
)

# RecTools and implicit warn of BLAS, of matrices of their own, and of pandas to come.
pytestmark = pytest.mark.filterwarnings("ignore::Warning:implicit", "ignore::Warning:rectools")


def _lightfm():
    from lightfm import LightFM  # noqa: PLC0415
    from rectools.models import LightFMWrapperModel  # noqa: PLC0415

    return LightFMWrapperModel(LightFM(8, random_state=1), epochs=3)


MAKERS = {
    "ease": lambda: EASEModel(regularization=50),
    "popular": PopularModel,
    "recently popular": lambda: PopularModel(period=timedelta(days=2)),
    "least popular": lambda: PopularModel(inverse=True),
    "cosine": lambda: ImplicitItemKNNWrapperModel(CosineRecommender(K=20)),
    "tfidf": lambda: ImplicitItemKNNWrapperModel(TFIDFRecommender(K=2)),
    "als": lambda: ImplicitALSWrapperModel(AlternatingLeastSquares(8, random_state=1)),
    "bpr": lambda: ImplicitBPRWrapperModel(
        BayesianPersonalizedRanking(8, random_state=1, num_threads=1, iterations=20)
    ),
    "svd": lambda: PureSVDModel(8),
    "lightfm": _lightfm,
}
KNOWS_USERS = {"als", "bpr", "svd", "lightfm"}
NO_HISTORIES = KNOWS_USERS - {"als"}
NAMES = sorted(MAKERS)


def make(name):
    if name == "lightfm":
        pytest.importorskip("lightfm", reason="RecTools' LightFM needs rectools[lightfm]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MAKERS[name]()


@pytest.fixture(scope="module")
def dataset(named):
    return Dataset.construct(named[0].assign(weight=1).sample(frac=1, random_state=1))


@pytest.fixture(scope="module")
def named(halves):
    """The past and the future under the ids of the Dataset."""
    return [
        pd.DataFrame({**frame, "item_id": "film " + frame["item_id"].astype(str)})
        for frame in (each.to_frame().to_pandas() for each in halves)
    ]


@pytest.fixture(scope="module")
def fitted(dataset):
    return cache(lambda name: make(name).fit(dataset))


def histories_of(dataset, rows):
    consumed = dataset.get_user_item_matrix()
    return [consumed[row].indices.astype(np.int64) for row in rows]


def scored(adapter, dataset, rows):
    if adapter.knows_users:
        return adapter.score_users(rows)
    return adapter.score_histories(histories_of(dataset, rows))


def recommended(model, dataset, rows):
    """Scores as RecTools lists them; NaN for what it does not list."""
    users = dataset.user_id_map.external_ids[rows]
    n_items = dataset.item_id_map.size
    listed = model.recommend(users, dataset, k=n_items, filter_viewed=False)
    found = np.full((len(rows), n_items), np.nan)
    place = pd.Series(np.arange(len(rows)), index=users)
    columns = dataset.item_id_map.convert_to_internal(listed["item_id"])
    found[place[listed["user_id"]], columns] = listed["score"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_rectools(name, fitted, dataset):
    model, rows = fitted(name), np.arange(30)
    ours = scored(adapt(model, dataset.item_id_map), dataset, rows)
    theirs = recommended(model, dataset, rows)
    assert ours.shape == theirs.shape
    listed = ~np.isnan(theirs)
    sign = -1 if name == "least popular" else 1  # it lists the lowest score first
    assert sign * ours[listed] == pytest.approx(theirs[listed], rel=1e-4, abs=1e-5)
    # It may list fewer than it is asked for: of another period, or like nothing in a history.
    assert listed.all() == (name not in ("recently popular", "cosine", "tfidf"))
    if name == "recently popular":
        assert np.isnan(ours[~listed]).all()
    else:
        assert (ours[~listed] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_folding_in_is_declared(name, fitted):
    for model in (make(name), fitted(name)):
        adapter = adapt(model)
        assert adapter.knows_users == (name in KNOWS_USERS)
        assert adapter.folds_in == (name not in NO_HISTORIES)


def test_als_with_features_does_not_fold_in(dataset):
    raw = dataset.get_raw_interactions()
    ids = [*raw["item_id"].unique(), "never consumed"]
    features = pd.DataFrame({"id": ids, "feature": "odd", "value": np.arange(len(ids)) % 2.0})
    with_features = Dataset.construct(raw, item_features_df=features)
    model = make("als").fit(with_features)
    adapter = adapt(model, with_features.item_id_map, with_features.user_id_map)
    assert not adapter.folds_in
    assert len(adapter.catalogue) == len(ids) - 1  # no column for an item without consumers
    ours = adapter.score_users(np.arange(5))
    theirs = recommended(model, with_features, np.arange(5))[:, :-1]
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"recently popular"}))
def test_a_fitted_model_is_calibrated_and_saved(name, fitted, dataset, named, tmp_path):
    model = fitted(name)
    before = scored(adapt(model), dataset, np.arange(9))
    ids = {"items": dataset.item_id_map, "users": dataset.user_id_map}
    sure = sr.wrap(model, **ids).calibrate(*named)
    user = int(dataset.user_id_map.external_ids[4])
    best = sure.recommend(user, confidence=0.6).items[0]
    if name not in ("svd", "least popular"):
        best = model.recommend([user], dataset, k=1, filter_viewed=True)["item_id"].iloc[0]
    check_calibrated_and_saved(sure, model, user, best, tmp_path / "model")
    assert np.array_equal(scored(adapt(model), dataset, np.arange(9)), before, equal_nan=True)


def test_items_without_a_score_limit_the_confidence(fitted, dataset, named):
    ids = {"items": dataset.item_id_map, "users": dataset.user_id_map}
    sure = sr.wrap(fitted("recently popular"), **ids).calibrate(*named)
    picks = sure.recommend(int(dataset.user_id_map.external_ids[4]), confidence=0.6)
    assert "no set of known items supports more than 2" in str(picks.guarantee)


# In the pasts, items of the last two days have one consumer each, and cannot be ranked.
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"svd", "lightfm", "recently popular"}))
def test_a_copy_is_fitted_from_scratch_and_the_model_is_unchanged(name, fitted, films, dataset):
    new, model = make(name), fitted(name)
    check_copy(new, model, films, lambda: scored(adapt(model), dataset, np.arange(9)))
    assert not new.is_fitted


def test_als_with_a_fitted_model_is_fitted_from_scratch(dataset, films):
    """RecTools fits a copy of what it was given, which goes on from factors that it has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = AlternatingLeastSquares(8, random_state=1)
        inner.fit(dataset.get_user_item_matrix(), show_progress=False)
    ours = sr.wrap(ImplicitALSWrapperModel(inner)).fit(films).recommend_many(confidence=0.7)
    assert ours.equals(sr.wrap(make("als")).fit(films).recommend_many(confidence=0.7))


def test_items_without_consumers_have_no_score(films):
    items = [*films.items.ids.to_list(), 10_001]
    sure = sr.wrap(make("ease"), items=items).fit(films)
    scores = sure.scorer_.adapter.score_histories([np.array([1, 2, len(items) - 1])])
    assert np.isnan(scores).sum() == len(items) - len(sure.wrapped_.weight) >= 1
    assert 10_001 not in sure.recommend(history=[1, 2, 3, 4, 5], confidence=0.99).items


COVERED = ["ease", "cosine", "als", "bpr", "svd"]


@pytest.mark.parametrize("name", COVERED)
def test_the_guarantee_holds_for_covered_users(name, many):
    for covers in ("fit",) if name in NO_HISTORIES else ("fit", "new-users"):
        check_covered(make(name), many, covers)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", ["ease", "cosine", "als", "als, new-users", "bpr", "popular"])
def test_the_contract(name, check, tmp_path):
    CHECKS[check](subject_around(make, *name.split(", ")), tmp_path)


def test_invalid_models_and_requests_are_refused(fitted, dataset, halves):
    with pytest.raises(sr.NotFittedError, match=r"EASEModel is not fitted. Fit it, or use"):
        sr.wrap(make("ease")).calibrate(*halves)
    with pytest.raises(sr.InputError, match="was fitted on 80 items and items= has 79 ids"):
        sr.wrap(fitted("ease"), items=list(range(79))).calibrate(*halves)
    with pytest.raises(sr.InputError, match="items of the past are not in the catalogue of EASEM"):
        sr.wrap(fitted("ease"), items=dataset.item_id_map).calibrate(*halves)  # other ids
    with pytest.raises(sr.InputError, match="PureSVDModel cannot score new users"):
        sr.wrap(make("svd"), covers="new-users").fit(halves[0])
    with pytest.raises(
        sr.InputError, match=r"RandomModel of RecTools cannot score all items. Pass one of E"
    ):
        sr.wrap(RandomModel()).fit(halves[0])


def test_the_examples_print_what_the_page_says(tmp_path):
    check_page(tmp_path, "RecTools", 2)
