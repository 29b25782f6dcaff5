"""Items of equal score come by popularity, whatever their codes are."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import surerec as sr
from surerec.interactions import IdMap

MODELS = {
    "CM2": sr.InductiveConformal("CM2"),  # a minimum: most items tie
    "CM12": sr.InductiveConformal("CM12"),
    "rank": sr.PopulationConformal("CM2", cut="rank"),
    "score": sr.PopulationConformal("CM6", cut="score"),
    "crs": sr.TransductiveConformal("max"),
    "mining": sr.PrecedenceMining(),
}


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=120, n_items=90, n_rows=2_500, ties=0.3, seed=6)


@pytest.fixture(scope="module")
def shuffled(films):
    """The same data under other codes, which are not in the order of popularity."""
    new = np.random.default_rng(1).permutation(films.n_items)  # the new code of each old one
    old = np.argsort(new)
    taken = sr.Interactions(
        films.users,
        IdMap(films.items.ids.gather(old), noun="item"),
        films.offsets,
        new[films.items_taken].astype(np.uint32),
        films.times,
    )
    counts = sr.count_precedence(taken)
    counts.popularity = old  # old codes were the places by popularity, ties included
    return counts


@pytest.mark.parametrize("name", MODELS)
def test_codes_decide_nothing(films, shuffled, name):
    model = MODELS[name]
    has_levels = name != "mining"
    level = {"confidence": 0.8} if has_levels else {}
    answers = []
    for counts in (sr.count_precedence(films), shuffled):
        fitted, data = type(model)(**model.get_params()).fit(counts), counts.interactions
        frames = [fitted.recommend_many(k=k, **level) for k in (None, 7)]
        frames += [fitted.recommend(user, **level).to_frame() for user in data.users.ids[:4]]
        if has_levels:
            frames.append(fitted.p_values(data.users[0]))
        answers.append([frame.select(pl.exclude("title")) for frame in frames])
    for here, there in zip(*answers, strict=True):
        assert_frame_equal(here, there, rel_tol=1e-9)  # sums are rounded in another order
    assert not np.array_equal(shuffled.popularity, np.arange(shuffled.n_items))
