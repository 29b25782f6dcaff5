"""The level of one item: as an assessment of all has it, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration import Ranking, place_among
from surerec.errors import NotOffered
from surerec.measures import Query


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_the_place_of_one_is_that_of_the_ranking(whole, chance, negative) -> None:
    scores = np.array(whole, dtype=np.float64) - (2 if negative else 0)
    popularity = np.array(chance.sample(range(len(scores)), len(scores)))
    known = set(chance.sample(range(len(scores)), chance.randrange(len(scores))))
    candidates = np.array([code for code in range(len(scores)) if code not in known])
    ranks, shares = Ranking.of(candidates, scores, scores / 7, popularity).by_item(len(scores))
    for item in range(len(scores)):
        found = place_among(item, candidates, scores, scores / 7, popularity)
        assert found == (ranks[item], shares[item])


@pytest.mark.parametrize(
    "settings", [{"cut": "score"}, {"cut": "rank"}, {"groups": 2}, {"promise": "hit"}]
)
def test_the_level_of_an_item_is_that_of_an_assessment(settings) -> None:
    films = sr.datasets.synthetic(n_users=120, n_items=50, n_rows=2400, seed=3)
    model = sr.PopulationConformal("CM12", **settings).fit(films)
    for user in range(0, 120, 7):
        query = Query.of_user(films, user)
        candidates = model.model_.candidates(query)
        levels = model.model_.assess(query).levels_below
        assert [model.model_.level(query, item) for item in candidates[:9].tolist()] == levels[
            :9
        ].tolist()


def test_a_promise_of_precision_has_no_levels() -> None:
    films = sr.datasets.synthetic(n_users=120, n_items=50, n_rows=2400, seed=3)
    model = sr.PopulationConformal("CM12", promise="precision").fit(films)
    with pytest.raises(NotOffered, match="no level"):
        model.model_.level(Query.of_user(films, 1), 2)
