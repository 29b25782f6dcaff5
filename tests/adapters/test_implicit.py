"""Models of implicit, wrapped: the same scores, and the model stays unchanged."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.adapters import adapt
from surerec.calibration import profile_cases
from tests.adapters.checks import (
    EPSILON,
    check_calibrated_and_saved,
    check_copy,
    check_covered,
    check_page,
    missed,
)

pytest.importorskip("implicit", reason="wrapping implicit needs it: pip install implicit")

from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.lmf import LogisticMatrixFactorization
from implicit.nearest_neighbours import BM25Recommender, CosineRecommender, TFIDFRecommender

# implicit warns of how its own matrices are stored, and of the threads of BLAS.
pytestmark = pytest.mark.filterwarnings("ignore::Warning:implicit")

MAKERS = {
    "als": lambda: AlternatingLeastSquares(8, random_state=1, iterations=5),
    "bpr": lambda: BayesianPersonalizedRanking(8, random_state=1, num_threads=1, iterations=20),
    "lmf": lambda: LogisticMatrixFactorization(8, random_state=1, num_threads=1, iterations=5),
    "cosine": lambda: CosineRecommender(K=20),
    "tfidf": lambda: TFIDFRecommender(K=5),
    "bm25": lambda: BM25Recommender(K=20),
}
FACTORS = ("als", "bpr", "lmf")


def make(name):
    return MAKERS[name]()


@pytest.fixture(scope="module")
def fitted(matrix):
    def of(name):
        model = make(name)
        model.fit(matrix[0], show_progress=False)
        return model

    return {name: of(name) for name in MAKERS}


def learned(model):
    if hasattr(model, "similarity"):
        return model.similarity.toarray()
    return np.vstack((model.user_factors, model.item_factors))


@pytest.mark.parametrize("name", MAKERS)
def test_scores_are_those_of_implicit(name, fitted, matrix):
    model, consumed = fitted[name], matrix[0]
    rows = np.arange(20)
    ids, scores = model.recommend(rows, consumed[rows], N=consumed.shape[1])
    adapter = adapt(model)
    histories = [consumed[row].indices.astype(np.int64) for row in rows]
    ours = adapter.score_users(rows) if name in FACTORS else adapter.score_histories(histories)
    assert ours.shape == (20, consumed.shape[1])
    real = scores > -1e38  # implicit marks what it filtered, and pads short lists, by −FLT_MAX
    assert not real.all()
    for row in rows:
        listed, given = ids[row][real[row]], scores[row][real[row]]
        assert (listed >= 0).all()
        new = ~np.isin(listed, histories[row])  # item-item models list consumed items with score 0
        assert ours[row][listed[new]] == pytest.approx(given[new], rel=1e-4, abs=1e-5)
        others = np.setdiff1d(np.arange(consumed.shape[1]), [*listed, *histories[row]])
        if name not in FACTORS:  # items without similar items in the history are not listed
            assert (ours[row][others] == 0).all()


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_is_fitted_from_scratch_and_the_model_is_unchanged(name, fitted, films):
    """Matrix factorisation of implicit goes on from the factors that it finds."""
    check_copy(make(name), fitted[name], films, lambda: learned(fitted[name]))


@pytest.mark.parametrize("name", ["als", "cosine"])
def test_held_out_items_of_calibration_users_are_not_in_the_fit(name, films):
    sure = sr.wrap(make(name), covers="fit").fit(films)
    held = sure.calibration_.users
    cases = profile_cases(films, 0.4)
    chosen = cases[np.isin(cases.users, held)]
    assert len(chosen) == len(held) == len(cases) // 2
    in_fit = films.keeping(~chosen.future_rows())
    counted = dict(zip(sure.items_.ids, sure.statistics_.support, strict=True))
    expected = np.bincount(in_fit.item_codes, minlength=films.n_items)
    assert counted == {films.items[c]: n for c, n in enumerate(expected) if n}
    if name == "als":
        assert sure.wrapped_.user_factors.shape[0] == films.n_users


@pytest.mark.parametrize("name", MAKERS)
def test_a_fitted_model_is_calibrated_and_saved(name, fitted, halves, matrix, tmp_path):
    before = learned(fitted[name])
    ids = {"items": np.array(matrix[1]), "users": np.array(matrix[2])}
    sure = sr.wrap(fitted[name], **ids).calibrate(*halves)
    best = matrix[1][fitted[name].recommend(1, matrix[0][1], N=1)[0][0]]
    folder = tmp_path / "model"
    back = check_calibrated_and_saved(sure, fitted[name], matrix[2][1], best, folder)
    assert np.array_equal(learned(fitted[name]), before)
    assert repr(back) == f"WrappedRecommender(model={type(fitted[name]).__name__})"
    with pytest.raises(sr.InputError, match="is fitted already, and surerec cannot fit a copy"):
        back.fit(halves[0])
    again = back.calibrate(*halves)
    assert again.recommend_many(confidence=0.8).equals(sure.recommend_many(confidence=0.8))
    again.save(tmp_path / "again")
    assert sr.load(tmp_path / "again").wrapped_.n_items == len(matrix[1])


def test_only_known_users_are_saved(fitted, halves, matrix, tmp_path):
    past, future = (each.to_frame().filter(pl.col("user_id") > 300) for each in halves)
    sure = sr.wrap(fitted["als"], items=matrix[1], users=matrix[2]).calibrate(past, future)
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model")
    assert back.wrapped_.users.shape[0] == past["user_id"].n_unique() < len(matrix[2])
    assert back.recommend_many(confidence=0.8).equals(sure.recommend_many(confidence=0.8))


def test_items_without_consumers_are_ranked_for_new_users(fitted, halves, matrix, tmp_path):
    past, future = halves
    rare = past.to_frame().filter(pl.col("item_id") != matrix[1][5])
    rare = rare.with_columns(user_id=-pl.col("user_id"))
    later = future.to_frame().with_columns(user_id=-pl.col("user_id"))
    sure = sr.wrap(fitted["als"], items=matrix[1], users=matrix[2]).calibrate(rare, later)
    assert sure.covers_ == "new-users"
    request = {"history": matrix[1][10:16], "confidence": 0.8}
    said = "over users whom the model was not fitted on"
    assert said in str(sure.recommend(**request).guarantee)
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model")
    request["confidence"] = 0.9999
    assert matrix[1][5] in sure.recommend(**request).items
    assert back.recommend(**request).to_frame().equals(sure.recommend(**request).to_frame())


def test_calibration_uses_the_current_state_of_a_model(halves, matrix):
    model = make("als")
    sure = sr.wrap(model, items=matrix[1], users=matrix[2])
    model.fit(matrix[0], show_progress=False)
    sure.calibrate(*halves)
    first = sure.recommend_many(confidence=0.8)
    model.user_factors = model.item_factors = None
    model.fit(matrix[0], show_progress=False)
    assert sure.recommend_many(confidence=0.8).equals(first)
    model.user_factors = -model.user_factors
    assert not sure.calibrate(*halves).recommend_many(confidence=0.8).equals(first)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 40.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_als_folds_in_as_implicit_does(alpha, dtype, matrix):
    model = AlternatingLeastSquares(8, random_state=1, alpha=alpha, dtype=dtype, regularization=0.5)
    model.fit(matrix[0], show_progress=False)
    rows = np.arange(30)
    consumed = matrix[0][rows]
    theirs = model.recalculate_user(rows, consumed) @ model.item_factors.T
    ours = adapt(model).score_histories([consumed[row].indices.astype(np.int64) for row in rows])
    assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4 * float(np.abs(theirs).max()))
    history = consumed[3].indices.astype(np.int64)
    explained = dict(model.explain(3, consumed, 7, N=100)[1])
    shares = adapt(model).form.shares(history, 7)
    assert shares == pytest.approx([explained[each] for each in history], rel=1e-3, abs=1e-5)


def test_a_subclass_of_als_that_folds_in_otherwise_scores_users_only():
    class Mine(type(make("als"))):
        def recalculate_user(self, userid, user_items):
            return super().recalculate_user(userid, user_items) * 2

    assert not adapt(Mine(8)).folds_in
    assert not adapt(AlternatingLeastSquares(8, alpha=0.0)).folds_in


@pytest.mark.parametrize("name", ["als", "cosine", "bpr"])
def test_contributions_add_up_to_the_score(name, fitted, halves, matrix):
    sure = sr.wrap(fitted[name], items=matrix[1], users=matrix[2]).calibrate(*halves)
    lengths = np.diff(matrix[0].indptr)
    user = int(np.flatnonzero((lengths >= 5) & (lengths <= 10))[0])
    item = sure.recommend(matrix[2][user], confidence=0.8).items[0]
    why = sure.explain(matrix[2][user], item=item)
    if name == "bpr":
        assert why.contributions == ()
        return
    consumed = matrix[0][user].indices.astype(np.int64)
    score = adapt(fitted[name]).score_histories([consumed])[0][matrix[1].index(item)]
    assert sum(each.by for each in why.contributions) == pytest.approx(score, rel=1e-3)
    assert {each.feature for each in why.contributions} <= {
        f"consumed {matrix[1][i]}" for i in consumed
    }
    assert "Largest effects on its score: consumed" in str(why)


def test_bpr_refuses_new_users(halves):
    with pytest.raises(sr.InputError, match="cannot score new users"):
        sr.wrap(make("bpr"), covers="new-users").fit(halves[0])


def numbered(halves, ids):
    """Return the past and the held-out rows as frames with other item ids."""
    renamed = dict(zip(halves[0].items.ids, ids, strict=True))
    return [
        each.to_frame().with_columns(pl.col("item_id").replace_strict(renamed)) for each in halves
    ]


@pytest.mark.parametrize("name", ["als", "cosine"])
def test_without_items_ids_must_be_column_numbers(name, fitted, halves, matrix):
    sure = sr.wrap(fitted[name], users=matrix[2])
    too_large = "without items=, so item ids must be its column numbers, 0 to 79; 1 ids .* 80. Pass"
    with pytest.raises(sr.InputError, match=too_large):
        sure.calibrate(*halves)  # its ids are 1 to 80
    with pytest.raises(sr.InputError, match="80 ids of the past are not, such as 'film-0'"):
        sure.calibrate(*numbered(halves, [f"film-{code}" for code in range(80)]))
    with pytest.warns(sr.AssumedIdsWarning, match="the ids may be wrong. If so, pass items="):
        sure.calibrate(*numbered(halves, np.random.default_rng(5).permutation(80)))
    place = {each: column for column, each in enumerate(matrix[1])}
    right = numbered(halves, [place[each] for each in halves[0].items.ids])
    sure.calibrate(*right)  # a warning is an error here
    named = sr.wrap(fitted[name], items=matrix[1], users=matrix[2]).calibrate(*halves)
    ours, theirs = (each.recommend(matrix[2][3], confidence=0.8) for each in (sure, named))
    assert [matrix[1][item] for item in ours.items] == list(theirs.items)


def test_unfitted_models_and_other_ids_are_refused(fitted, halves, matrix):
    _, items, users = matrix
    others = [-7, *users[1:]]
    for model, settings, said in [
        (make("als"), {}, "AlternatingLeastSquares is not fitted. Fit"),
        (fitted["als"], {"items": items[:-1]}, "was fitted on 80 items and items= has 79 ids"),
        (fitted["als"], {"users": [*users, 0]}, "was fitted on 400 users and users= has 401 ids"),
        (fitted["als"], {"items": [-7, *items[1:]]}, "items of the past are not in the catalogue"),
        (
            fitted["als"],
            {"users": [-each for each in users], "covers": "fit"},
            "No user with future items was in the fit of Alternating",
        ),
    ]:
        with pytest.raises(sr.SurerecError, match=said):
            sr.wrap(model, **{"items": items, "users": users, **settings}).calibrate(*halves)
    for covers in ("both", "fit"):
        some = sr.wrap(fitted["als"], items=items, users=others, covers=covers)
        assert some.calibrate(*halves).covers_ == covers


def by_heart():
    """Return ALS with enough factors to learn users by heart."""
    return AlternatingLeastSquares(40, random_state=1)


@pytest.mark.parametrize("covers", ["fit", "new-users"])
def test_the_guarantee_holds_for_covered_users(many, covers):
    check_covered(by_heart(), many, covers)


def test_calibration_on_interactions_of_the_fit_is_invalid(many):
    """A model that was fitted on the held-out interactions ranks them far too well."""
    films, tested = many
    known = films.keeping(~tested.future_rows())
    later = profile_cases(known, 0.4)
    cheating = adapt(by_heart()).fitted_on(known).model
    sure = sr.wrap(cheating, items=known.items.ids, users=known.users.ids, min_history=3)
    sure.calibrate(known.keeping(~later.future_rows()), known.keeping(later.future_rows()))
    loss, _ = missed(sure, tested, "user")
    assert loss > EPSILON + 0.1


def test_the_examples_print_what_the_page_says(tmp_path):
    check_page(tmp_path, "implicit", 5, rest=True)


def test_large_catalogues_are_scored_in_small_blocks(films, monkeypatch):
    whole = sr.wrap(make("cosine")).fit(films)
    n_items = whole.statistics_.n_items
    monkeypatch.setattr("surerec.adapters._scorer._MOST_BYTES", 8 * n_items * 3)
    monkeypatch.setattr("surerec.recommenders._batch._ROWS_AT_ONCE", n_items * 10)
    narrow = sr.wrap(make("cosine")).fit(films)
    assert narrow.scorer_.at_once == 3
    batches = list(narrow.iter_recommendations(confidence=0.8))
    assert len(batches) == films.n_users / 10
    assert pl.concat(batches).equals(whole.recommend_many(confidence=0.8))
