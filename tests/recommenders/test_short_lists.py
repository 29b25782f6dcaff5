"""`k` alone is a short list of the ranking; with a level, it cuts the set at that level."""

import numpy as np
import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)


def wrapped(films):
    def score(history):
        return -np.abs(np.arange(films.n_items) - int(history[-1])).astype(float)

    place, length = pl.int_range(pl.len()).over("user_id"), pl.len().over("user_id")
    rows = films.to_frame().with_columns((place < 0.6 * length).alias("past"))
    past, later = (rows.filter(past=known).drop("past") for known in (True, False))
    return sr.wrap(score, items=films.items.ids.to_list()).calibrate(past, later)


ESTIMATORS = {
    "inductive": lambda films: sr.InductiveConformal("CM12").fit(films),
    "smoothed": lambda films: sr.InductiveConformal("CM12", smoothed=True).fit(films),
    "transductive": lambda films: sr.TransductiveConformal().fit(films),
    "mining": lambda films: sr.PrecedenceMining().fit(films),
    "recall": lambda films: sr.PopulationConformal("CM12").fit(films),
    "score": lambda films: sr.PopulationConformal("CM12", cut="score").fit(films),
    "precision": lambda films: sr.PopulationConformal("CM12", promise="precision").fit(films),
    "wrapped": wrapped,
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def named(request, films):
    return request.param, ESTIMATORS[request.param](films)


def level_of(name):
    if name == "mining":
        return {}
    return {"precision": 0.1, "confidence": 0.8} if name == "precision" else {"confidence": 0.5}


def test_a_level_and_k_cut_the_set(named, films):
    name, model = named
    level = level_of(name)
    for user in films.users.ids[:8]:
        whole = model.recommend(user, **level)
        cut = model.recommend(user, k=5, **level)
        assert cut.items == whole.items[:5]
        assert (cut.confidence, cut.full_size) == (whole.confidence, len(whole))


def test_groups_have_short_lists(named):
    name, model = named
    users = model.statistics_.interactions.users.ids[:2].to_list()
    if not model.model_.offers_together():
        pytest.skip(f"{name} has no groups")
    top = model.recommend(group=users, k=5)
    assert len(top) == 5
    assert top.confidence is None
    assert not top.guarantee.holds
    assert top.hit_probability is None
    assert "Groups have no calibrated probability" in top.about_hit_probability


LISTS = {
    "inductive": ([49, 10, 57, 50, 51], [49, 10]),
    "smoothed": ([49, 10, 57, 56, 26], [49]),
    "transductive": ([35, 13, 21, 10, 45], [35, 13, 21, 10, 45]),
    "mining": ([15, 9, 18, 16, 44], None),
    "recall": ([49, 10, 57, 50, 51], [49, 10]),
    "score": ([49, 10, 57, 50, 51], [49, 10]),
    "precision": ([49, 10, 57, 50, 51], None),
    "wrapped": ([17, 5, 46, 19, 8], [17, 5, 46, 19, 8]),
}
"""User 7's five best items, and of the set at confidence 0.2."""
HITS = {
    "recall": (0.9999367216467102, 0.9971332450968731, 0.9654302489729675, 4.7689591752421405),
    "precision": (0.9999367216467102, 0.9971332450968731, 0.9654302489729675, 4.7689591752421405),
    "wrapped": (0.8166666666666667, 0.45320855614973266, 0.07142857142857142, 1.0468822646822051),
}
"""The probabilities of at least 1, 2 and 3 hits among these, and the expected hits."""


def test_short_lists_are_those_on_record(named):
    name, model = named
    best, in_set = LISTS[name]
    top = model.recommend(7, k=5)
    assert top.items == best
    if in_set is not None:
        assert model.recommend(7, k=5, confidence=0.2).items == in_set
    if name in HITS:
        assert (*top.hit_probabilities, top.expected_hits) == pytest.approx(HITS[name], rel=1e-12)
