"""Pipelines of LensKit, wrapped: the same scores, and correct declarations of whom they score."""

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

pytest.importorskip("lenskit", reason="wrapping LensKit needs it: make test-adapters")

import lenskit
from lenskit.als import BiasedMFScorer, ImplicitMFScorer
from lenskit.basic import PopScorer
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.flexmf import FlexMFImplicitScorer
from lenskit.knn import EASEScorer, ItemKNNScorer, SLIMScorer, UserKNNScorer
from lenskit.training import TrainingOptions

# LensKit and torch warn of their own tensors, and of threads.
pytestmark = pytest.mark.filterwarnings("ignore::Warning:lenskit", "ignore::Warning:torch")

SCORERS = {
    "ease": lambda: EASEScorer(regularization=50),
    "item knn": lambda: ItemKNNScorer(feedback="implicit", max_nbrs=20),
    "user knn": lambda: UserKNNScorer(feedback="implicit", max_nbrs=20),
    "als": lambda: ImplicitMFScorer(embedding_size=8, epochs=5),
    "als of users": lambda: ImplicitMFScorer(embedding_size=8, epochs=5, user_embeddings="prefer"),
    "slim": SLIMScorer,
    "popular": lambda: PopScorer(score="count"),
    "flexmf": lambda: FlexMFImplicitScorer(embedding_size=8, epochs=2),
}
KNOWS_USERS = {"als of users", "flexmf", "user knn"}
NO_HISTORIES = {"als of users", "flexmf"}
STORED = {"als", "ease", "popular", "slim"}
NAMES = sorted(SCORERS)


def make(name):
    return lenskit.topn_pipeline(SCORERS[name]())


@pytest.fixture(scope="module")
def data(halves):
    return from_interactions_df(halves[0].to_frame().to_pandas())


@pytest.fixture(scope="module")
def trained(data):
    pipelines = {}

    def of(name):
        if name not in pipelines:
            pipelines[name] = make(name)
            pipelines[name].train(data, TrainingOptions(rng=1))
        return pipelines[name]

    return of


def some_histories(adapter, past, n):
    columns = adapter.catalogue.codes(past.items.ids)
    return [columns[past.consumed(user)] for user in range(n)]


def scores_of(pipeline, query, adapter):
    return lenskit.score(pipeline, query, adapter.catalogue.ids.to_list()).scores()


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_lenskit(name, trained, halves):
    pipeline, past = trained(name), halves[0]
    adapter = adapt(pipeline)
    rows = adapter.users.codes(past.users.ids[:20])
    if adapter.knows_users:
        ours = adapter.score_users(rows)
    else:
        ours = adapter.score_histories(some_histories(adapter, past, 20))
    for row, user in zip(ours, past.users.ids[:20].to_list(), strict=True):
        assert row == pytest.approx(
            scores_of(pipeline, user, adapter), rel=1e-4, abs=1e-5, nan_ok=True
        )


@pytest.mark.parametrize("name", NAMES)
def test_folding_in_is_declared(name, trained, halves):
    for pipeline in (make(name), trained(name)):
        adapter = adapt(pipeline)
        assert adapter.knows_users == (name in KNOWS_USERS)
        assert adapter.folds_in == (name not in NO_HISTORIES)
    history = some_histories(adapter, halves[0], 1)
    assert np.isnan(adapter.score_histories(history)).all() == (name in NO_HISTORIES)


@pytest.mark.parametrize("name", sorted(set(NAMES) - NO_HISTORIES - KNOWS_USERS))
def test_scores_of_a_history_do_not_depend_on_the_user(name, trained, halves):
    """Compare a user of the training data, another one and a new user."""
    pipeline, past = trained(name), halves[0]
    adapter = adapt(pipeline)
    histories = some_histories(adapter, past, 10)
    ours = adapter.score_histories(histories)
    for number, history in enumerate(histories):
        listed = ItemList(adapter.catalogue.ids.gather(history).to_list())
        for user in (past.users[number], past.users[number + 50], -5):
            query = RecQuery(user_id=user, history_items=listed)
            theirs = scores_of(pipeline, query, adapter)
            assert ours[number] == pytest.approx(theirs, rel=1e-4, abs=1e-5, nan_ok=True)


def test_user_neighbours_depend_on_the_user(trained, halves):
    """A user of the training data is no neighbour of their own."""
    pipeline, past = trained("user knn"), halves[0]
    adapter = adapt(pipeline)
    histories = some_histories(adapter, past, 10)
    by_history = adapter.score_histories(histories)
    rows = adapter.users.codes(past.users.ids[:10])
    assert not np.allclose(adapter.score_users(rows), by_history, equal_nan=True)
    for number, history in enumerate(histories):
        listed = ItemList(adapter.catalogue.ids.gather(history).to_list())
        new_user = scores_of(pipeline, RecQuery(user_id=-5, history_items=listed), adapter)
        assert np.array_equal(new_user, by_history[number], equal_nan=True)


def test_items_without_a_score_are_in_no_set(trained, halves):
    adapter = adapt(trained("item knn"))
    scores = adapter.score_histories(some_histories(adapter, halves[0], 5))
    lonely = lenskit.topn_pipeline(ItemKNNScorer(feedback="implicit", save_nbrs=1, min_sim=0.4))
    lonely.train(from_interactions_df(halves[0].to_frame().to_pandas()))
    fewer = adapt(lonely).score_histories(some_histories(adapter, halves[0], 5))
    assert np.isnan(fewer).sum() > np.isnan(scores).sum()
    sure = sr.wrap(lonely).calibrate(*halves)
    user = halves[0].users[3]
    picks = sure.recommend(user, confidence=0.99)
    assert not picks.guarantee.holds
    without = np.isnan(adapt(lonely).score_histories([some_histories(adapter, halves[0], 4)[3]]))
    unscored = adapter.catalogue.ids.gather(np.flatnonzero(without[0])).to_list()
    assert not set(unscored) & set(sure.recommend(user, confidence=0.1).items)


@pytest.mark.parametrize("name", NAMES)
def test_a_trained_pipeline_is_calibrated_and_saved(name, trained, halves, tmp_path):
    pipeline, user = trained(name), halves[0].users[3]
    sure = sr.wrap(pipeline).calibrate(*halves)
    best = lenskit.recommend(pipeline, user, 1).ids()[0]
    scorer = None if name in STORED else pipeline
    check_calibrated_and_saved(sure, pipeline, user, best, tmp_path / "model", scorer)
    if name not in STORED:
        with pytest.raises(sr.InputError, match="which is Python code"):
            sr.load(tmp_path / "model")


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_trained_from_scratch_and_the_pipeline_is_unchanged(name, trained, films, halves):
    pipeline, user = trained(name), halves[0].users[3]
    new = make(name)
    check_copy(new, pipeline, films, lambda: scores_of(pipeline, user, adapt(pipeline)))
    with pytest.raises(sr.NotFittedError, match=r"is not trained. Train it, or use"):
        sr.wrap(new).calibrate(*halves)


COVERED = ["ease", "als", "als of users", "flexmf", "user knn"]


@pytest.mark.parametrize("name", COVERED)
def test_the_guarantee_holds_for_covered_users(name, many):
    for covers in ("fit",) if name in NO_HISTORIES else ("fit", "new-users"):
        check_covered(make(name), many, covers)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", ["ease", "item knn", "als", "als, fit", "user knn"])
def test_the_contract(name, check, tmp_path):
    CHECKS[check](subject_around(make, *name.split(", ")), tmp_path)


def test_scorers_of_ratings_are_queried_by_user_and_not_copied(halves):
    ratings = halves[0].to_frame().to_pandas()
    ratings["rating"] = 1 + np.arange(len(ratings)) % 5
    pipeline = lenskit.topn_pipeline(BiasedMFScorer(embedding_size=8, epochs=3))
    pipeline.train(from_interactions_df(ratings), TrainingOptions(rng=1))
    adapter = adapt(pipeline)
    assert adapter.knows_users
    sure = sr.wrap(pipeline).calibrate(*halves)
    assert "over users of the fit" in str(
        sure.recommend(halves[0].users[3], confidence=0.7).guarantee
    )
    with pytest.raises(sr.InputError, match="cannot be trained on interactions without ratings"):
        sr.wrap(pipeline).fit(halves[0])
    with pytest.raises(sr.InputError, match="cannot be trained on interactions without ratings"):
        sr.wrap(lenskit.topn_pipeline(ItemKNNScorer(feedback="explicit"))).fit(halves[0])


def test_invalid_models_and_requests_are_refused(trained, halves):
    with pytest.raises(sr.InputError, match="EASEScorer of LensKit cannot score items"):
        sr.wrap(EASEScorer()).fit(halves[0])
    with pytest.raises(sr.InputError, match="items= lacks items that EASEScorer was trained on"):
        sr.wrap(trained("ease"), items=[1, 2]).calibrate(*halves)
    with pytest.raises(sr.InputError, match="FlexMFImplicitScorer cannot score new users"):
        sr.wrap(make("flexmf"), covers="new-users").fit(halves[0])
    sure = sr.wrap(trained("flexmf")).calibrate(*halves)
    with pytest.raises(
        sr.InputError, match="cannot score a new user or a history, only users of its fit"
    ):
        sure.recommend(history=halves[0].items.ids[:6], confidence=0.8)


def test_the_examples_print_what_the_page_says(tmp_path):
    check_page(tmp_path, "LensKit", 2)
