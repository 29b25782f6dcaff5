"""New users consume items as often as predicted."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

import surerec as sr
from surerec.errors import InputError
from surerec.evaluation import new_user_reliability

N_COHORTS, N_FITTED, N_NEW = 48, 150, 150


@pytest.fixture(scope="module")
def cohorts():
    """Reliability in disjoint cohorts, each with its own fit and its own new users."""
    size = N_COHORTS * (N_FITTED + N_NEW)
    films = sr.datasets.synthetic(n_users=size, n_items=200, n_rows=40 * size, random_state=11)
    order = np.random.default_rng(0).permutation(size).reshape(N_COHORTS, -1)
    parts = []
    for number, users in enumerate(order):
        rest = np.setdiff1d(np.arange(size), users)
        mine = sr.read_interactions(films.without_users(rest).to_frame())
        fitted = mine.users.codes(films.users.ids.gather(np.sort(users[:N_FITTED])))
        found = new_user_reliability(mine, fitted=fitted, random_state=number)
        parts.append(found.with_columns(cohort=number))
    return pl.concat(parts)


@pytest.mark.parametrize("group", ["top 10", "p >= 0.5"])
def test_new_users_consume_what_was_predicted(cohorts, group):
    some = cohorts.filter(group=group)
    difference = some["difference"].to_numpy()
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    assert abs(difference.mean()) <= max(0.015, 2 * error)
    # The interval of a mean covers in 95 of 100 cohorts.
    inside = int((some["difference"].abs() <= 1.96 * some["error"]).sum())
    found = binomtest(inside, len(some)).proportion_ci(0.95, method="exact")
    assert found.low <= 0.95 <= found.high


def test_probabilities_equal_those_of_a_recommender():
    films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=3)
    fitted = np.arange(0, 300, 2)
    found = new_user_reliability(films, fitted=fitted).row(0, named=True)
    mine = sr.read_interactions(films.without_users(np.arange(1, 300, 2)).to_frame())
    model = sr.PopulationConformal("CM12").fit(mine)
    predicted, consumed = [], []
    for user in range(1, 300, 2):
        ids = films.items.ids.gather(films.consumed(user).astype(np.int64)).to_list()
        n_known = len(ids) - max(1, int(0.4 * len(ids) + 0.5))
        if n_known < 5:
            continue
        frame = model.recommend(history=ids[:n_known], confidence=0.9999, k=10).to_frame()
        predicted.append(frame["probability"].sum())
        consumed.append(frame["item_id"].is_in(ids[n_known:]).sum())
    assert found["n_users"] == len(predicted)
    assert found["predicted"] == pytest.approx(np.sum(predicted) / found["n"])
    assert found["observed"] == pytest.approx(np.sum(consumed) / found["n"])


@pytest.mark.parametrize("fitted", [0.0, 1.5])
def test_an_invalid_share_is_rejected(fitted):
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, random_state=3)
    with pytest.raises(InputError, match=rf"fitted is {fitted}. Pass a share"):
        new_user_reliability(films, fitted=fitted)
    with pytest.raises(InputError, match="too few for probabilities"):
        new_user_reliability(films, fitted=0.1)
