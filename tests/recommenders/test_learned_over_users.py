import numpy as np
import pytest

import surerec as sr
from surerec.measures import State


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=0.3, seed=8)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal("learned").fit(films)


def test_parts_of_another_model_are_refused(films, model):
    spec = model.to_spec()
    arrays = spec.state.arrays
    short = {"scorer_fold_of": arrays["scorer_fold_of"][:-1]}
    large = {"scorer_ridge": np.zeros((films.n_items + 1,) * 2)}
    for wrong in (short, large):
        with pytest.raises(ValueError, match="of a learned measure"):
            sr.PopulationConformal("learned").restore(model.statistics_, spec.state | State(wrong))
    with pytest.raises(KeyError):
        sr.PopulationConformal("learned").restore(model.statistics_, State(arrays))


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
