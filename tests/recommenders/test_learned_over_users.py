import numpy as np
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=0.3, seed=8)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal("learned").fit(films)


def test_recalibrating_keeps_the_trees_and_everybody_in_their_fold(films):
    middle = int(np.quantile(films.times, 0.7))
    frame = films.to_frame()
    past = sr.read_interactions(frame.filter(frame["datetime"].to_physical() < middle))
    model = sr.PopulationConformal("learned").fit(past)
    before = dict(zip(past.users.ids, model.scorer_.learned.fold_of.tolist(), strict=True))
    trees = model.scorer_.learned.folds
    newer = sr.read_interactions(frame.sort("item_id"))
    model.recalibrate(newer)
    assert model.scorer_.learned.folds == trees
    after = dict(zip(newer.users.ids, model.scorer_.learned.fold_of.tolist(), strict=True))
    assert {user: fold for user, fold in after.items() if fold >= 0} == before
    model.recommend(newer.users[0], confidence=0.8)
